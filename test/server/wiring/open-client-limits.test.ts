import t from 'tap'
import { load } from '../../../src/server/config/load.js'
import { Metrics } from '../../../src/server/metrics/metrics.js'
import { openSemaphore } from '../../../src/server/wiring/open-client-limits.js'
import { VirtualClock } from '../../support/virtual-clock.js'

void t.test('a request beyond a limit is told which limit, and not that of lists', async (t) => {
  const loaded = load([], {}, () => '')
  if (loaded.kind !== 'run') throw new Error('it must run')
  const { config } = loaded
  const clock = new VirtualClock()
  const live = { current: config, onChange: () => {} }
  for (const [name, message] of [
    ['writes', 'too many writes are in progress'],
    ['write-threads', 'too many writes of large or custom objects are in progress'],
    ['past-states', 'too many past states are being rebuilt'],
    ['lists', 'too many lists and initial states are being sent'],
  ] as const) {
    const semaphore = openSemaphore({ config, live, clock, metrics: new Metrics('0') } as never, name)
    for (let leave = semaphore.tryAcquire('a'); leave !== null; leave = semaphore.tryAcquire('a'));
    const late = semaphore.acquire('a')
    clock.advance(60_000)
    await t.rejects(late, { name: 'BusyError', message }, name)
  }
})
