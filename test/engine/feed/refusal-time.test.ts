import t from 'tap'
import { RefusalTime } from '../../../src/engine/feed/refusal-time.js'
import { VirtualClock } from '../../support/virtual-clock.js'

void t.test('a refusal lasts as long as nothing else comes between', (t) => {
  const clock = new VirtualClock()
  const refusal = new RefusalTime(clock)
  const failed = (code: Parameters<RefusalTime['failed']>[0], afterMs: number): number | null => {
    clock.advance(afterMs)
    return refusal.failed(code)
  }
  t.equal(failed('permission-denied', 50), 0)
  t.equal(failed('permission-denied', 1_000), 1_000)
  t.equal(failed('unauthenticated', 2_000), 3_000)
  t.equal(failed('unavailable', 1), null, 'an outage says nothing of permissions')
  t.equal(failed('permission-denied', 9_000), 0)
  t.equal(failed('permission-denied', 10_000), 10_000)
  refusal.ended()
  t.equal(failed('permission-denied', 1), 0)
  for (const code of ['protocol', 'too-large', 'compacted', 'future-revision'] as const) {
    t.equal(failed(code, 1), null, code)
  }
  t.end()
})
