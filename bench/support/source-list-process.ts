/**
 * Reads a whole prefix from etcd in a separate process, and prints the costs. The arguments are `stream` or `pages`,
 * the prefix, and etcd's URL.
 */
import { readPages } from '../../src/engine/feed/read-pages.js'
import { keyFromText } from '../../src/engine/model/event.js'
import { connectEtcd } from '../../src/engine/upstream/etcd/etcd-upstream.js'
import type { UpstreamReader } from '../../src/engine/upstream/upstream.js'
import { systemClock } from '../../src/support/clock.js'
import type { SourceListFigures } from '../source-list.js'

const [way = '', prefix = '', url = ''] = process.argv.slice(2)
const requests: Record<string, number> = {}
const upstream = connectEtcd({
  endpoints: [url],
  metrics: { etcdRequestEnded: (operation) => void (requests[operation] = (requests[operation] ?? 0) + 1) },
})
// From the versions of the members it knows whether they have streams.
await upstream.status()
const source: UpstreamReader = way === 'stream' ? upstream : pagesOf(upstream)
const cpu = process.cpuUsage()
const startMs = performance.now()
let keys = 0
const options = { upstream: source, prefix: keyFromText(prefix), revision: null, clock: systemClock }
for await (const page of readPages(options)) {
  keys += page.keyValues.length
}
const listedMs = performance.now() - startMs
const { user, system } = process.cpuUsage(cpu)
const figures: SourceListFigures = {
  keys,
  requests,
  listedMs,
  cpuSeconds: (user + system) / 1e6,
  peakResidentBytes: process.resourceUsage().maxRSS * 1024,
}
process.stdout.write(`${JSON.stringify(figures)}\n`)
await upstream.close()

function pagesOf(reader: UpstreamReader): UpstreamReader {
  return {
    read: (request) => reader.read(request),
    readKey: (key, request) => reader.readKey(key, request),
    currentRevision: (signal) => reader.currentRevision(signal),
    status: (signal) => reader.status(signal),
  }
}
