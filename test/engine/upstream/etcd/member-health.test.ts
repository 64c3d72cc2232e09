import t from 'tap'
import { MemberHealth } from '../../../../src/engine/upstream/etcd/member-health.js'
import { type Revision, toRevision as rev } from '../../../../src/engine/model/revision.js'
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
  const watch = new MemberHealth<Name>({
    members,
    revisionOf: async (member, deadlineMs) => {
      asked++
      const { mode } = states[member]
      if (mode === 'answers') return rev(1)
      const lateMs = mode === 'unnoticed' ? 2_000 : 0
      await new Promise<void>((resolve) => clock.setTimer(deadlineMs + lateMs, resolve))
      return null
    },
    receivedFrom: (member) => states[member].heard,
    onSilent: (member) => silent.push(`${member} at ${clock.monotonic()}`),
    onBehind: (member) => silent.push(`${member} is behind`),
    clock,
  })
  watch.start()
  /** Advances the time in small steps, because responses arrive in separate turns. */
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

void t.test('a member that sends something else in the meantime is not silent', async (t) => {
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

void t.test('a deadline that this process noticed late does not count against the member', async (t) => {
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

type Third = Name | 'c'

/** The responses of three members, for longer than a member may be behind, and which members are found to be behind. */
const cases: Record<string, { answers: readonly (readonly (number | null)[])[]; behind: readonly string[] }> = {
  'nobody, when all keep up': {
    answers: [
      [5, 5, 5],
      [9, 9, 9],
    ],
    behind: [],
  },
  'nobody, when all are quiet': {
    answers: [
      [5, 5, 5],
      [5, 5, 5],
    ],
    behind: [],
  },
  'nobody at first': { answers: [[1, 50, 50]], behind: [] },
  'not one that is a moment late': {
    answers: [
      [5, 6, 7],
      [7, 8, 9],
    ],
    behind: [],
  },
  'one that stays where it was, while the others go on': {
    answers: [
      [5, 5, 5],
      [5, 6, 7],
      [5, 8, 8],
    ],
    behind: ['a at 5, not 7'],
  },
  'one that crawls': {
    answers: [
      [5, 50, 50],
      [6, 90, 90],
      [7, 120, 120],
    ],
    behind: ['a at 6, not 50', 'a at 7, not 90'],
  },
  'two of three': {
    answers: [
      [5, 5, 9],
      [5, 5, 9],
    ],
    behind: ['a at 5, not 9', 'b at 5, not 9'],
  },
  'not one that does not answer': {
    answers: [
      [5, 9, 9],
      [null, 12, 12],
    ],
    behind: [],
  },
  'none right after a time in which nobody answered': {
    answers: [
      [5, 9, 9],
      [null, null, null],
      [5, 9, 9],
    ],
    behind: [],
  },
  'none after an older copy was restored': {
    answers: [
      [9, 9, 9],
      [5, 5, 5],
    ],
    behind: [],
  },
}

for (const [name, { answers, behind }] of Object.entries(cases)) {
  void t.test(`members that are behind: ${name}`, async (t) => {
    const clock = new VirtualClock()
    const found = new Set<string>()
    const startMs = clock.monotonic()
    const health = new MemberHealth<Third>({
      members: ['a', 'b', 'c'],
      revisionOf: async (member): Promise<Revision | null> => {
        const at = Math.floor((clock.monotonic() - startMs - 1) / (3 * EVERY_MS))
        const revision = answers[at]?.[['a', 'b', 'c'].indexOf(member)] ?? null
        return revision === null ? null : rev(revision)
      },
      receivedFrom: () => 0,
      onSilent: () => {},
      onBehind: (member, own, others) => found.add(`${member} at ${own}, not ${others}`),
      clock,
    })
    health.start()
    health.start()
    await clock.advanceInTurns(answers.length * 3 * EVERY_MS, 50)
    health.stop()
    t.same([...found], behind)
    t.equal(clock.pending, 0, 'nothing runs after it was stopped')
  })
}
