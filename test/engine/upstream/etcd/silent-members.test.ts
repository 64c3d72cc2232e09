import t from 'tap'
import { SilentMembers } from '../../../../src/engine/upstream/etcd/silent-members.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

type Name = 'a' | 'b'

interface Member {
  /** When it answers a question: at once, never, or unnoticed after the deadline. */
  mode: 'answers' | 'silent' | 'unnoticed'
  heard: number
}

const EVERY_MS = 750
const DEADLINE_MS = 1_250

function observe(members: readonly Name[] = ['a', 'b']) {
  const clock = new VirtualClock()
  const states: Record<Name, Member> = { a: { mode: 'answers', heard: 0 }, b: { mode: 'answers', heard: 0 } }
  const silent: string[] = []
  let asked = 0
  const watch = new SilentMembers<Name>({
    members,
    answers: async (member, deadlineMs) => {
      asked++
      const { mode } = states[member]
      if (mode === 'answers') return true
      const lateMs = mode === 'unnoticed' ? 2_000 : 0
      await new Promise<void>((resolve) => clock.setTimer(deadlineMs + lateMs, resolve))
      return false
    },
    heardFrom: (member) => states[member].heard,
    onSilent: (member) => silent.push(`${member} at ${clock.monotonic()}`),
    clock,
    everyMs: EVERY_MS,
    deadlineMs: DEADLINE_MS,
  })
  watch.start()
  /** In small steps, because answers arrive in separate turns. */
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 50) {
      clock.advance(50)
      for (let i = 0; i < 5; i++) await Promise.resolve()
    }
  }
  return { clock, states, silent, watch, pass, asked: () => asked }
}

void t.test('a member that misses the deadline is silent, and no other is', async (t) => {
  const h = observe()
  const startedAt = h.clock.monotonic()
  h.states.a.mode = 'silent'
  await h.pass(EVERY_MS + DEADLINE_MS - 50)
  t.same(h.silent, [])
  await h.pass(50)
  t.same(h.silent, [`a at ${startedAt + EVERY_MS + DEADLINE_MS}`])
  await h.pass(EVERY_MS + DEADLINE_MS)
  t.equal(h.silent.length, 2, 'the silence is reported as long as it lasts')
  t.ok(h.watch.isSilent('a'))
  t.notOk(h.watch.isSilent('b'))
  h.states.a.mode = 'answers'
  await h.pass(10_000)
  t.equal(h.silent.length, 2)
  t.notOk(h.watch.isSilent('a'), 'and it is welcome again')
})

void t.test('a member that sends something else meanwhile is not silent', async (t) => {
  const h = observe()
  h.states.a.mode = 'silent'
  for (let i = 0; i < 100; i++) {
    h.states.a.heard++
    await h.pass(50)
  }
  t.same(h.silent, [])
})

void t.test('when no other member answers, no member is abandoned', async (t) => {
  const h = observe()
  h.states.a.mode = 'silent'
  h.states.b.mode = 'silent'
  await h.pass(20_000)
  t.same(h.silent, [])
})

void t.test('a deadline that this process noticed late proves nothing', async (t) => {
  const h = observe()
  h.states.a.mode = 'unnoticed'
  await h.pass(20_000)
  t.same(h.silent, [])
})

void t.test('a single member is never queried, and none is queried after the end', async (t) => {
  const alone = observe(['a'])
  await alone.pass(5_000)
  t.equal(alone.asked(), 0)
  const h = observe()
  h.states.a.mode = 'silent'
  await h.pass(EVERY_MS + 50)
  h.watch.stop()
  const asked = h.asked()
  await h.pass(10_000)
  t.equal(h.asked(), asked)
  t.same(h.silent, [])
})
