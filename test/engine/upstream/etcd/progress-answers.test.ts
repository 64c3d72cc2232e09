/** Tests when a server stops relying on etcd's progress, and when it relies on it again. */
import t from 'tap'
import { ProgressAnswers } from '../../../../src/engine/upstream/etcd/progress-answers.js'
import { silentLogger } from '../../../../src/support/log.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

function setUp() {
  const clock = new VirtualClock()
  const asked = { times: 0 }
  const answers = new ProgressAnswers({ clock, logger: silentLogger, askAll: () => asked.times++ })
  const watch = answers.ofWatch()
  /** Requests progress for that long, as reads that wait for it do. */
  const request = (ms: number, of = watch): void => {
    for (let i = 0; i < ms; i += 100) {
      of.requested()
      clock.advance(100)
    }
  }
  return { clock, asked, answers, watch, request }
}

void t.test('three unanswered requests in a row on one watch are enough', (t) => {
  const { answers, watch, request } = setUp()
  request(2_400)
  t.notOk(answers.areDropped, 'the third may still be answered')
  watch.received()
  request(2_400)
  request(2_400, answers.ofWatch())
  t.notOk(answers.areDropped, 'an event in between, or another watch')
  request(100)
  t.ok(answers.areDropped)
  t.end()
})

void t.test(
  'every ten minutes, and soon after a watch has opened, all watches ask again until one is answered',
  (t) => {
    const { answers, asked, clock, request } = setUp()
    request(2_500)
    t.ok(answers.areDropped)
    clock.advance(11 * 60_000)
    t.equal(asked.times, 1)
    clock.advance(10 * 60_000)
    t.equal(asked.times, 2)
    answers.opened()
    clock.advance(1_000)
    t.equal(asked.times, 3)
    answers.answered()
    t.notOk(answers.areDropped)
    clock.advance(3_600_000)
    t.equal(asked.times, 3, 'nothing more is asked')
    t.end()
  },
)
