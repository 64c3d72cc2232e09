import t from 'tap'
import { activeClock } from '../../src/client/reflector/active-clock.js'
import { systemClock } from '../../src/support/clock.js'

void t.test('a timer waits for longer than 2^31 ms, and can be cancelled', async (t) => {
  for (const clock of [systemClock, activeClock]) {
    for (const days of [24, 25, 366, Infinity]) {
      let isOver = false
      const timer = clock.setTimer(days * 86_400_000, () => (isOver = true))
      await new Promise((resolve) => setTimeout(resolve, 20))
      timer.cancel()
      t.notOk(isOver, `${days} days are not over`)
    }
  }
})
