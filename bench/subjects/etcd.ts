/**
 * etcd, which feeds most subjects and is also a subject itself: through its gRPC watch (with one TCP connection per
 * watcher, as separate processes would have) and through its JSON gateway.
 */
import { existsSync, writeFileSync } from 'node:fs'
import { type Child, type Core, start } from '../support/processes.js'
import { freePort } from '../../test/support/free-port.js'
import type { Workspace } from '../support/workspace.js'
import type { WatchRequest } from '../support/watchers.js'
import { awaitOk, type SubjectKind } from './subject.js'

export interface Etcd {
  readonly port: number
  readonly child: Child
  /** Returns the store's current revision. */
  revision(): Promise<number>
  put(key: string, value: string): Promise<void>
  /** Returns the number of range requests that etcd has answered. */
  reads(): Promise<number>
}

export function etcdBinary(): string {
  return process.env['ETCD_BIN'] ?? (existsSync('/usr/bin/etcd') ? '/usr/bin/etcd' : 'etcd')
}

export async function startEtcd(workspace: Workspace, core: Core): Promise<Etcd> {
  const [port, peerPort] = [await freePort(), await freePort()]
  const [url, peerUrl] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`]
  const flags = {
    'data-dir': workspace.path(`etcd-${port}`),
    'listen-client-urls': url,
    'advertise-client-urls': url,
    'listen-peer-urls': peerUrl,
    'initial-advertise-peer-urls': peerUrl,
    'initial-cluster': `default=${peerUrl}`,
    'quota-backend-bytes': String(8 * 2 ** 30), // a saturated run writes more than the default 2 GB
    'log-level': 'error',
  }
  const child = start('etcd', core, [
    etcdBinary(),
    ...Object.entries(flags).map(([name, value]) => `--${name}=${value}`),
  ])
  await awaitOk(child, `${url}/health`, 20_000)
  const call = async (path: string, body: object): Promise<{ header: { revision: string } }> => {
    const answer = await fetch(`${url}/v3/kv/${path}`, { method: 'POST', body: JSON.stringify(body) })
    if (!answer.ok) throw new Error(`etcd: ${path}: ${answer.status} ${await answer.text()}`)
    return (await answer.json()) as { header: { revision: string } }
  }
  return {
    port,
    child,
    revision: async () => Number((await call('range', { key: base64('/'), count_only: true })).header.revision),
    async put(key, value) {
      await call('put', { key: base64(key), value: base64(value) })
    },
    async reads() {
      const text = await (await fetch(`${url}/metrics`)).text()
      const samples = text.matchAll(/^grpc_server_handled_total\{.*grpc_method="Range".*\} (\S+)$/gm)
      return [...samples].reduce((sum, [, value]) => sum + Number(value), 0)
    },
  }
}

/** Returns the end of the range of keys that begin with `prefix`. */
function rangeEnd(prefix: string): string {
  return prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1)
}

/** The length of every field here fits in one byte. */
function field(tag: number, content: string | Buffer): Buffer {
  return Buffer.concat([Buffer.from([tag, Buffer.byteLength(content)]), Buffer.from(content)])
}

/** Returns the key and the range end, which are fields 1 and 2 of watch requests and range requests. */
function rangeOf(prefix: string): Buffer {
  return Buffer.concat([field(0x0a, prefix), field(0x12, rangeEnd(prefix))])
}

const base64 = (text: string): string => Buffer.from(text).toString('base64')

function rangeJson(prefix: string): object {
  return { key: base64(prefix), range_end: base64(rangeEnd(prefix)) }
}

function grpcRequest(workspace: Workspace, port: number, method: string, message: Buffer): WatchRequest {
  const bodyFile = workspace.path(`grpc-${method.replace('/', '-')}.bin`)
  writeFileSync(bodyFile, Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]))
  return {
    port,
    path: `/etcdserverpb.${method}`,
    method: 'POST',
    http2: true,
    headers: ['content-type: application/grpc', 'te: trailers'],
    bodyFile,
  }
}

function gatewayRequest(workspace: Workspace, port: number, path: string, body: object): WatchRequest {
  const bodyFile = workspace.path(`gateway-${path.replaceAll('/', '-')}.json`)
  writeFileSync(bodyFile, JSON.stringify(body))
  return { port, path, method: 'POST', headers: ['Content-Type: application/json'], bodyFile, base64: true }
}

/** Returns an etcd gRPC watch of a prefix, over HTTP/2. The proxy accepts the same request. */
export function grpcWatch(workspace: Workspace, port: number, prefix: string): WatchRequest {
  return grpcRequest(workspace, port, 'Watch/Watch', field(0x0a, rangeOf(prefix)))
}

export const etcdSubject: SubjectKind = {
  name: 'etcd',
  wires: ['grpc', 'json-gateway'],
  etcd: 'subject',
  isAvailable: () => true,
  start: async ({ workspace, wire, resource: { prefix }, etcdPort, etcdPid }) => ({
    name: 'etcd',
    wire,
    pid: etcdPid,
    streams: 1,
    watch: () =>
      wire === 'grpc'
        ? grpcWatch(workspace, etcdPort, prefix)
        : gatewayRequest(workspace, etcdPort, '/v3/watch', { create_request: rangeJson(prefix) }),
    // The read is linearizable, like a consistent list.
    list: () =>
      wire === 'grpc'
        ? grpcRequest(workspace, etcdPort, 'KV/Range', rangeOf(prefix))
        : gatewayRequest(workspace, etcdPort, '/v3/kv/range', rangeJson(prefix)),
    end: async () => {}, // it ends together with the run's etcd
  }),
}
