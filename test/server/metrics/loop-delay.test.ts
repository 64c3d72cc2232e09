import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { LoopDelay } from '../../../src/server/metrics/loop-delay.js'

void t.test('a delay is seen by everybody who scrapes, until a whole window without one has passed', async (t) => {
  let ms = 0
  const loop = new LoopDelay(() => ms)
  await delay(50)
  const end = performance.now() + 500
  while (performance.now() < end);
  await delay(50)
  t.equal(loop.p99Seconds(), 0, 'the first window is not over')
  ms = 60_000
  t.ok(loop.p99Seconds() > 0.4, 'an earlier scrape hides nothing')
  await delay(100)
  ms = 90_000
  t.ok(loop.p99Seconds() > 0.4, 'its result stays until the next is')
  ms = 120_000
  t.ok(loop.p99Seconds() < 0.4)
})
