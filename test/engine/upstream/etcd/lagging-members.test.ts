import t from 'tap'
import { type Revision, toRevision as rev } from '../../../../src/engine/model/revision.js'
import { LaggingMembers } from '../../../../src/engine/upstream/etcd/lagging-members.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

type Name = 'a' | 'b' | 'c'

/** The revisions of three members at each check, and which are found to lag at which. */
const cases: Record<string, { looks: readonly (readonly (number | null)[])[]; behind: readonly string[] }> = {
  'nobody, when all go along': {
    looks: [
      [5, 5, 5],
      [9, 9, 9],
    ],
    behind: [],
  },
  'nobody, when all are quiet': {
    looks: [
      [5, 5, 5],
      [5, 5, 5],
    ],
    behind: [],
  },
  'nobody at the first look': { looks: [[1, 50, 50]], behind: [] },
  'not one that is a moment late': {
    looks: [
      [5, 6, 7],
      [7, 8, 9],
    ],
    behind: [],
  },
  'one that stays where it was, while the others go on': {
    looks: [
      [5, 5, 5],
      [5, 6, 7],
      [5, 8, 8],
    ],
    behind: ['a at 5, not 7'],
  },
  'one that crawls': {
    looks: [
      [5, 50, 50],
      [6, 90, 90],
      [7, 120, 120],
    ],
    behind: ['a at 6, not 50', 'a at 7, not 90'],
  },
  'two of three': {
    looks: [
      [5, 5, 9],
      [5, 5, 9],
    ],
    behind: ['a at 5, not 9', 'b at 5, not 9'],
  },
  'not one that does not answer': {
    looks: [
      [5, 9, 9],
      [null, 12, 12],
    ],
    behind: [],
  },
  'none after a look that nobody answered': {
    looks: [
      [5, 9, 9],
      [null, null, null],
      [5, 9, 9],
    ],
    behind: [],
  },
}

for (const [name, { looks, behind }] of Object.entries(cases)) {
  void t.test(`members that are behind: ${name}`, async (t) => {
    const clock = new VirtualClock()
    const found: string[] = []
    let look = -1
    let asked = 0
    const members = new LaggingMembers<Name>({
      members: ['a', 'b', 'c'],
      revisionOf: async (member) => {
        if (asked++ % 3 === 0) look++
        const revision = looks[look]?.[['a', 'b', 'c'].indexOf(member)] ?? null
        return revision === null ? null : rev(revision)
      },
      onBehind: (member, own, others) => found.push(`${member} at ${own}, not ${others}`),
      clock,
      everyMs: 1_000,
    })
    members.start()
    members.start()
    await clock.advanceInTurns(looks.length * 1_000 + 500, 100)
    members.stop()
    t.same(found, behind)
    t.equal(clock.pending, 0, 'nothing runs after it was stopped')
  })
}

void t.test('a single member is not compared', async (t) => {
  const clock = new VirtualClock()
  const members = new LaggingMembers({
    members: ['a'],
    revisionOf: (): Promise<Revision | null> => Promise.reject(new Error('not asked')),
    onBehind: () => t.fail(),
    clock,
    everyMs: 1_000,
  })
  members.start()
  t.equal(clock.pending, 0)
})
