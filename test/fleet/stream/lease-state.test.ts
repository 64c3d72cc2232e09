/** Tests the conclusions from each state of the lease: when a candidate may take it, and when a holder is certain. */
import t from 'tap'
import {
  isCertain,
  isExpired,
  type LeaseInput,
  type LeaseState,
  nextLeaseState,
  NOT_SEEN,
} from '../../../src/fleet/stream/lease-state.js'
import { seededRandom } from '../../../src/support/random.js'
import { testSeeds } from '../../support/test-seeds.js'

const LEASE_MS = 1_000

/** Reads these revisions, a quarter of a lease apart. @returns after which reads the lease had expired. */
function expiredAfter(revisions: readonly number[]): number[] {
  let state = NOT_SEEN
  return revisions.flatMap((revision, i) => {
    const nowMs = i * 250
    state = nextLeaseState(state, { kind: 'read', revision, nowMs, leaseMs: LEASE_MS })
    return isExpired(state, nowMs, LEASE_MS) ? [i] : []
  })
}

void t.test('a lease expires once no read has shown a renewal for its whole length', (t) => {
  t.strictSame(expiredAfter([5, 5, 5, 5, 5]), [4], 'unchanged')
  t.strictSame(expiredAfter([5, 5, 6, 6, 6, 6, 6]), [6], 'renewed once')
  t.strictSame(expiredAfter([5, 4, 5, 4, 5, 4]), [5], 'a replica that lags renews nothing by alternating')
  t.strictSame(expiredAfter([5, 1, 2, 3, 4, 4, 4, 4, 4]), [8], 'NATS lost writes, and the holder renews below')
  t.end()
})

void t.test('while NATS is silent no time passes for a candidate', (t) => {
  const read = (nowMs: number): LeaseInput => ({ kind: 'read', revision: 5, nowMs, leaseMs: LEASE_MS })
  let state = nextLeaseState(NOT_SEEN, read(0))
  state = nextLeaseState(state, read(10_000))
  t.equal(isExpired(state, 10_000, LEASE_MS), false)
  for (const nowMs of [10_250, 10_500, 10_750, 11_000]) state = nextLeaseState(state, read(nowMs))
  t.equal(isExpired(state, 11_000, LEASE_MS), true)
  t.end()
})

void t.test(
  'a lease is certain only for most of its length after it was taken or renewed, and its revision never goes back by itself',
  (t) => {
    for (const seed of testSeeds(50)) {
      const random = seededRandom(seed)
      let state: LeaseState = NOT_SEEN
      /** When the lease can no longer be certain. */
      let certainUntilMs = 0
      const wrong: unknown[] = []
      for (let i = 0; i < 300; i++) {
        const nowMs = i * 100
        const revision = Math.floor(random.next() * 20)
        const inputs: readonly LeaseInput[] = [
          { kind: 'read', revision, nowMs, leaseMs: LEASE_MS },
          { kind: 'taken', revision, requestedAtMs: nowMs },
          { kind: 'renewed', revision, requestedAtMs: nowMs - 300 },
          { kind: 'set-back', revision },
          { kind: 'lost' },
        ]
        const input = inputs[Math.floor(random.next() * inputs.length)]!
        const before = state
        state = nextLeaseState(before, input)
        if (state.kind === 'waiting') certainUntilMs = nowMs
        else if ((input.kind === 'taken' || input.kind === 'renewed') && state !== before) {
          certainUntilMs = input.requestedAtMs + 0.8 * LEASE_MS
        }
        const goesBack =
          before.kind === 'holding' &&
          state.kind === 'holding' &&
          input.kind !== 'set-back' &&
          state.revision < before.revision
        const takesItsOwn = state.kind === 'holding' && isExpired(state, 1e9, LEASE_MS)
        const isWrong = isCertain(state, nowMs, LEASE_MS) !== nowMs < certainUntilMs
        if (isWrong || goesBack || takesItsOwn) wrong.push({ before, input, state })
      }
      t.strictSame(wrong, [], `seed ${seed}`)
    }
    t.end()
  },
)
