/**
 * Starts the whole server in this process, on free ports, over an upstream that the test controls. Time is real,
 * because sockets are; a test waits for a condition (`until`), never for a time.
 */
import { readFileSync } from 'node:fs'
import type { Test } from 'tap'
import { Process } from '../../src/server/wiring/server-process.js'
import { type Config, load } from '../../src/server/config/load.js'
import { keyFromText } from '../../src/engine/model/event.js'
import type { Revision } from '../../src/engine/model/revision.js'
import type { Clock } from '../../src/support/clock.js'
import type { Logger } from '../../src/support/log.js'
import { createEmbeddedUpstream, type EmbeddedControls } from './faulty-store.js'
import type { RemoteApiServer } from '../../src/kubernetes/upstream/remote-api-server.js'
import type { Upstream, WriteOperation } from '../../src/engine/upstream/upstream.js'
import { serverForm } from '../forms/form.js'
import { processParts } from './process-parts.js'
import { until } from './until.js'

export interface AppHarnessOptions {
  /**
   * Flags as on the command line, after `--port 0`. The upstream is the in-process store unless `upstream` says
   * otherwise.
   */
  readonly flags?: readonly string[]
  /** Settings that override those of the flags without validation: for values below an option's minimum. */
  readonly config?: Partial<Config>
  /** The upstream. Default: an empty embedded one, without the demo's writer. */
  readonly upstream?: Upstream
  /** The initial objects, by their key under `/registry/`. */
  readonly objects?: Readonly<Record<string, object>>
  /** Whether to wait for the initial lists. Default: true. */
  readonly ready?: boolean
  /** The server behind `--upstream`. Default: as the flags say. */
  readonly server?: RemoteApiServer
  /** Default: real time, because sockets are real; a virtual clock for things that happen once a minute. */
  readonly clock?: Clock
  /** The logger. Default: no log. */
  readonly logger?: Logger
}

export interface AppHarness {
  readonly app: Process
  readonly config: Config
  /** The controls of the embedded upstream; they have no effect when the test supplies its own upstream. */
  readonly upstream: EmbeddedControls & Pick<Upstream, 'status'>
  readonly port: number
  /** `http://127.0.0.1:PORT` */
  readonly url: string
  /** `http://127.0.0.1:PORT` of `--metrics-bind-address`. */
  readonly metricsUrl: string
  /** `https://127.0.0.1:PORT`, with the flags for it (`secureFlags()`). */
  readonly secureUrl: string
  /** Stores an object, which needs its metadata. @param key under `/registry/`: `pods/default/web-0`. */
  put(key: string, object: object): Revision
  /** Commits several keys in one revision; null deletes. */
  commit(objects: Readonly<Record<string, object | null>>): Revision
  delete(key: string): Revision
  /** The number of running watches of all resources. */
  readonly watchers: number
}

export async function startApp(t: Test, options: AppHarnessOptions = {}): Promise<AppHarness> {
  const clock = options.clock === undefined ? {} : { clock: options.clock }
  const embedded = createEmbeddedUpstream(clock)
  const commit = (objects: Readonly<Record<string, object | null>>): Revision => {
    const operations = Object.entries(objects).map(([key, object]): WriteOperation => {
      const stored = keyFromText(`/registry/${key}`)
      if (object === null) return { type: 'delete', key: stored }
      return { type: 'put', key: stored, value: Buffer.from(JSON.stringify(object)) }
    })
    embedded.commit(operations)
    return embedded.revision
  }
  for (const [key, object] of Object.entries(options.objects ?? {})) commit({ [key]: object })
  const { flags: given = [] } = options
  // With authentication, an authorization mode is required; few tests are about that.
  const mode = given.some((flag) => flag.startsWith('--authorization-mode')) ? [] : ['--authorization-mode=AlwaysAllow']
  const isPlain = options.upstream !== undefined || options.server !== undefined
  const form = isPlain ? null : await serverForm()
  const wanted = { flags: [...mode, ...given], config: options.config ?? {}, store: embedded, process: () => app }
  const { flags, parts } = (await form?.appParts(t, wanted)) ?? { flags: wanted.flags, parts: {} }
  const loaded = load(['--port', '0', ...flags], {}, (path) => readFileSync(path, 'utf8'))
  if (loaded.kind !== 'run') throw new Error('the flags of a test must run')
  // Writes are off by default: most tests are about reads, over any upstream.
  const enableWrites = given.some((flag) => flag.startsWith('--enable-writes'))
  const config = { ...loaded.config, enableWrites, ...options.config }
  const app: Process = new Process({
    ...processParts(config, options.logger),
    upstream: options.upstream ?? embedded,
    ...(options.server === undefined ? {} : { server: options.server }),
    ...clock,
    ...parts,
  })
  t.teardown(() => app.stop())
  const { port, securePort, metricsPort } = await app.start()
  if (options.ready !== false) await until(() => app.isReady, 'the app is ready')
  return {
    app,
    config,
    upstream: embedded,
    port: port ?? -1,
    url: `http://127.0.0.1:${port}`,
    metricsUrl: `http://127.0.0.1:${metricsPort}`,
    secureUrl: `https://127.0.0.1:${securePort}`,
    put: (key, object) => commit({ [key]: object }),
    commit,
    delete: (key) => commit({ [key]: null }),
    get watchers() {
      return [...app.sources].reduce((sum, { dispatcher }) => sum + dispatcher.watchers, 0)
    },
  }
}
