/** etcd's own fan-out: `etcd grpc-proxy`, which merges the watches of a range into one. */
import { start } from '../support/processes.js'
import { freePort } from '../../test/support/free-port.js'
import { certificateFlags, etcdBinary, grpcWatch } from './etcd.js'
import { awaitOk, awaitOkOverTls, type SubjectKind } from './subject.js'

export const grpcProxySubject: SubjectKind = {
  name: 'grpc-proxy',
  wires: ['grpc'],
  etcd: 'behind',
  isAvailable: () => true,
  async start({ workspace, wire, resource, etcdPort }) {
    const port = await freePort()
    const flags = [`--endpoints=127.0.0.1:${etcdPort}`, `--listen-addr=127.0.0.1:${port}`]
    const isSecure = wire === 'grpc-tls'
    if (isSecure) flags.push(...Object.entries(certificateFlags(workspace)).map(([name, file]) => `--${name}=${file}`))
    const child = start('grpc-proxy', 'server', [etcdBinary(), 'grpc-proxy', 'start', ...flags])
    if (isSecure) await awaitOkOverTls(child, `https://127.0.0.1:${port}/health`, 20_000)
    else await awaitOk(child, `http://127.0.0.1:${port}/health`, 20_000)
    return {
      name: 'grpc-proxy',
      wire,
      pid: child.pid,
      streams: 1,
      watch: () => grpcWatch({ workspace, port, wire }, resource.prefix),
      end: () => child.end(),
    }
  },
}
