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
  /** The port for TLS; 0 without. */
  readonly securePort: number
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

/** @param isSecure whether clients can also use TLS. */
export async function startEtcd(workspace: Workspace, core: Core, isSecure = false): Promise<Etcd> {
  const [port, peerPort, securePort] = [await freePort(), await freePort(), isSecure ? await freePort() : 0]
  const [url, peerUrl] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`]
  const flags = {
    'data-dir': workspace.path(`etcd-${port}`),
    'listen-client-urls': isSecure ? `${url},https://127.0.0.1:${securePort}` : url,
    ...(isSecure ? certificateFlags(workspace) : {}),
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
    securePort,
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

/** Returns the flags of etcd and its proxy for a server's certificate. */
export function certificateFlags(workspace: Workspace): Readonly<Record<'cert-file' | 'key-file', string>> {
  const { certFile, keyFile } = workspace.tls()
  return { 'cert-file': certFile, 'key-file': keyFile }
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

export interface GrpcPlace {
  readonly workspace: Workspace
  readonly port: number
  /** `grpc` or `grpc-tls` */
  readonly wire: string
}

/**
 * Returns an etcd gRPC watch of a prefix, over HTTP/2, for etcd and for whatever serves its API.
 *
 * @param afterRevision default: from now. Then the server decides when it answers: before or after the watch is open.
 */
export function grpcWatch({ workspace, port, wire }: GrpcPlace, prefix: string, afterRevision?: number): WatchRequest {
  const start = afterRevision === undefined ? [] : [Buffer.from([0x18]), varint(afterRevision + 1)]
  const create = field(0x0a, Buffer.concat([rangeOf(prefix), ...start]))
  return { ...grpcRequest(workspace, port, 'Watch/Watch', create), tls: wire.endsWith('-tls') }
}

function varint(value: number): Buffer {
  const bytes: number[] = []
  for (let rest = value; rest > 0; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + (rest >= 128 ? 128 : 0))
  return Buffer.from(bytes)
}

export const etcdSubject: SubjectKind = {
  name: 'etcd',
  wires: ['grpc', 'json-gateway'],
  etcd: 'subject',
  isAvailable: () => true,
  start: async ({ workspace, wire, resource: { prefix }, etcdPort, etcdSecurePort = 0, etcdPid }) => ({
    name: 'etcd',
    wire,
    pid: etcdPid,
    streams: 1,
    watch: () =>
      wire.startsWith('grpc')
        ? grpcWatch({ workspace, port: wire === 'grpc' ? etcdPort : etcdSecurePort, wire }, prefix)
        : gatewayRequest(workspace, etcdPort, '/v3/watch', { create_request: rangeJson(prefix) }),
    // The read is linearizable, like a consistent list.
    list: () =>
      wire === 'grpc'
        ? grpcRequest(workspace, etcdPort, 'KV/Range', rangeOf(prefix))
        : gatewayRequest(workspace, etcdPort, '/v3/kv/range', rangeJson(prefix)),
    end: async () => {}, // it ends together with the run's etcd
  }),
}
