/**
 * Our own server, started as in production: one process on the server's core, or workers on all cores, fed by the run's
 * etcd.
 */
import { type Child, type Core, start } from '../support/processes.js'
import { freePort } from '../../test/support/free-port.js'
import { bundlePrograms, programFile } from '../../test/support/program.js'
import { grpcWatch } from './etcd.js'
import { resourceList, resourceWatch } from './kubernetes-watch.js'
import { awaitOk, streamsOf, type SubjectKind, type SubjectOptions } from './subject.js'

/** With 200,000 objects of several KB, the start takes more than half a minute on a busy machine. */
const READY_MS = 180_000

/** The flags that `deploy/Dockerfile` passes to Node, used for every runtime. */
const IMAGE_FLAGS = ['--max-semi-space-size=8']
const IMAGE_ENVIRONMENT = { MALLOC_ARENA_MAX: '1' }

/** Resolves when the server has been bundled like the published package. */
let bundled: Promise<void> | undefined

export const distributarySubject: SubjectKind = {
  name: 'distributary',
  wires: ['http1', 'http1-tls', 'http2-tls', 'http2x20-tls', 'http2x100-tls', 'websocket', 'sse'],
  etcd: 'behind',
  isAvailable: () => true,
  async start(options) {
    const { workspace, wire, resource, etcdPort, runtime, serverFlags = [] } = options
    const { child, port, plainPort } = await startDistributary({
      ...options,
      core: serverFlags.some((flag) => flag.startsWith('--workers')) ? 'both' : 'server',
      serverFlags: [`--etcd-servers=http://127.0.0.1:${etcdPort}`, ...serverFlags],
    })
    return {
      name: runtime === undefined ? 'distributary' : `distributary on ${runtime.name}`,
      wire,
      pid: child.pid,
      streams: streamsOf(wire),
      port,
      watch: (query) =>
        wire.startsWith('grpc')
          ? grpcWatch({ workspace, port, wire }, resource.prefix, query.afterRevision)
          : resourceWatch({ port, wire, resource }, query),
      metricsUrl: `http://127.0.0.1:${plainPort}/metrics`,
      list: () => resourceList({ port, wire, resource }),
      end: () => child.end(),
    }
  },
}

export interface Started {
  readonly child: Child
  /** The port that serves the wire. */
  readonly port: number
  readonly plainPort: number
}

/** @param options its flags determine what the server reads. */
export async function startDistributary({
  workspace,
  wire,
  core,
  runtime,
  nodeFlags = [],
  serverFlags = [],
}: Pick<SubjectOptions, 'workspace' | 'wire' | 'runtime' | 'nodeFlags' | 'serverFlags'> & {
  readonly core: Core
}): Promise<Started> {
  bundled ??= bundlePrograms()
  await bundled
  const plainPort = await freePort()
  const flags = [
    `--port=${plainPort}`,
    '--log-level=warn',
    '--shutdown-watch-termination-grace-period=0ms', // the watchers are gone by then; --cpu-prof wants a clean end
  ]
  let port = plainPort
  if (wire.endsWith('-tls')) {
    const { certFile, keyFile } = workspace.tls()
    port = await freePort()
    flags.push(`--secure-port=${port}`, `--tls-cert-file=${certFile}`, `--tls-private-key-file=${keyFile}`)
  }
  const flagsOfImage = runtime?.name.startsWith('Bun') === true ? [] : IMAGE_FLAGS
  const program = [runtime?.program ?? process.execPath, ...flagsOfImage, ...nodeFlags, programFile('main')]
  const child = start('distributary', core, [...program, ...flags, ...serverFlags], IMAGE_ENVIRONMENT)
  await awaitOk(child, `http://127.0.0.1:${plainPort}/readyz`, READY_MS)
  return { child, port, plainPort }
}
