/** Tests when a member of etcd counts as having proved that it is up to date. */
import t from 'tap'
import { MemberPulse } from '../../../../src/engine/upstream/etcd/member-pulse.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

void t.test('all callers share one read of a member, whose age grows while it does not answer', async (t) => {
  const clock = new VirtualClock()
  const etcd = { asked: 0, answers: true }
  const pulse = new MemberPulse({
    inUse: () => [],
    confirms: async (_member: string, deadlineMs) => {
      etcd.asked++
      if (!etcd.answers) await new Promise<void>((resolve) => void clock.setTimer(deadlineMs, resolve))
      return etcd.answers
    },
    clock,
  })
  t.equal(pulse.confirmedAtMs('a'), null)
  await Promise.all([1, 2, 3].map(() => pulse.confirm('a')))
  t.equal(etcd.asked, 1)
  const confirmedAtMs = pulse.confirmedAtMs('a')
  t.equal(confirmedAtMs, clock.monotonic())
  await clock.advanceInTurns(400, 100)
  await pulse.confirm('a')
  t.equal(etcd.asked, 1, 'an answer of a moment ago will do')
  etcd.answers = false
  await clock.advanceInTurns(600, 100)
  let isOver = false
  const asking = pulse.confirm('a').then(() => (isOver = true))
  await clock.advanceInTurns(1_900, 100)
  t.notOk(isOver)
  await clock.advanceInTurns(200, 100)
  await asking
  t.equal(etcd.asked, 2)
  t.equal(pulse.confirmedAtMs('a'), confirmedAtMs)
})
