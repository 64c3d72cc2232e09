/**
 * A candidate in its own process: `node candidate.js SERVER IDENTITY FILE`. While it believes that it leads, it appends
 * its identity and the number of its run to the file, which shows in what order candidates acted.
 */
import { appendFileSync } from 'node:fs'
import { LeaderElection, nodeTransport } from '../../../src/client/index.js'

const [server = '', identity = '', file = ''] = process.argv.slice(2)
const election = new LeaderElection({
  transport: nodeTransport({ server }),
  name: 'controller',
  namespace: 'default',
  identity,
  leaseDurationMs: 2_000,
  renewDeadlineMs: 1_500,
  retryPeriodMs: 200,
})
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
for (let run = 1; ; run++) {
  const outcome = await election.run(
    async (signal) => {
      while (!signal.aborted) {
        if (election.isLeader) appendFileSync(file, `${identity} ${run}\n`)
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    },
    { signal: stop.signal },
  )
  process.stdout.write(`${outcome}\n`)
  if (outcome === 'aborted') break
}
process.exit(0)
