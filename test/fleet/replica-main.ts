/**
 * A replica in its own process, as `main` starts it, but with one resource: each has a stream that three servers store,
 * and a test's machine is small.
 */
import { readFileSync } from 'node:fs'
import { Process } from '../../src/server/wiring/server-process.js'
import { load } from '../../src/server/config/load.js'
import { createLogger } from '../../src/server/wiring/logger.js'
import { processParts } from '../support/process-parts.js'
import { noUpstream } from '../../src/server/wiring/nats-fleet.js'
import { connectEtcd } from '../../src/engine/upstream/etcd/etcd-upstream.js'

const loaded = load(process.argv.slice(2), process.env, (path) => readFileSync(path, 'utf8'))
if (loaded.kind !== 'run') throw new Error('the flags of a test must run')
const { config } = loaded
const logger = createLogger({ level: config.logLevel, format: 'json', worker: null })
const endpoints = config.etcdServers
const timing = { keepAliveTimeMs: 700, keepAliveTimeoutMs: 500, requestTimeoutMs: 3_000, connectTimeoutMs: 1_000 }
const small = {
  ...config,
  bookmarkInterval: 200,
  resources: config.resources.filter(({ resource }) => resource.plural === 'pods' && resource.group === ''),
}
const app = new Process({
  ...processParts(small, logger),
  upstream: endpoints.length === 0 ? noUpstream('an edge') : connectEtcd({ endpoints, ...timing, logger }),
})
const ports = await app.start()
logger.info({ ...ports }, 'serving')
process.on('SIGTERM', () => {
  void app
    .drain()
    .then(() => app.stop())
    .finally(() => process.exit(0))
})
