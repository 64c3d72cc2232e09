/** Tests the random histories themselves: a build with one defect must not pass them. */
import t from 'tap'
import type { EventUnit } from '../../../../src/engine/broadcast/wire-format.js'
import type { Cursor } from '../../../../src/engine/broadcast/cursor.js'
import type { Revision } from '../../../../src/engine/model/revision.js'
import { type Harness, runHistory } from '../random-history.js'

const groupsOf = (harness: Harness, change: (group: ReturnType<Harness['watch']>['cursor']['group']) => void): void => {
  const { dispatcher } = harness
  const open = dispatcher.open.bind(dispatcher)
  const seen = new WeakSet<object>()
  dispatcher.open = (request, output) => {
    const cursor = open(request, output)
    if (!seen.has(cursor.group)) {
      seen.add(cursor.group)
      change(cursor.group)
    }
    return cursor
  }
}

function shift(cursor: Cursor, by: number): void {
  cursor.passTo((cursor.revision + by) as Revision)
}

/** Returns true once in this many calls. */
function everyNth(n: number): () => boolean {
  let count = 0
  return () => ++count % n === 0
}

const damages: Readonly<Record<string, (harness: Harness) => void>> = {
  'an event is skipped at the head': (harness) => {
    const isTime = everyNth(10)
    groupsOf(harness, (group) => {
      const append = group.append.bind(group)
      group.append = (batch, matchedEvents, bodies) =>
        append(batch, isTime() ? matchedEvents.slice(1) : matchedEvents, bodies)
    })
  },
  'an event is skipped in the ring': (harness) => {
    const isTime = everyNth(10)
    groupsOf(harness, (group) => {
      const replay = group.replay.bind(group)
      group.replay = (batch, isFirst): EventUnit => {
        const whole = replay(batch, isFirst)
        return isTime() ? { ...whole, events: 0 } : whole
      }
    })
  },
  'a revision is sent twice': (harness) => {
    const isTime = everyNth(10)
    groupsOf(harness, (group) => {
      const append = group.append.bind(group)
      group.append = (batch, matchedEvents, bodies) =>
        (isTime() ? append(batch, matchedEvents, bodies) : 0) + append(batch, matchedEvents, bodies)
    })
  },
  'a resume is one revision late': (harness) => {
    const open = harness.dispatcher.open.bind(harness.dispatcher)
    harness.dispatcher.open = (request, output) => {
      const cursor = open(request, output)
      if (request.start.kind === 'after' && cursor.state === 'lagging') shift(cursor, 1)
      return cursor
    }
  },
  'a resume is one revision early': (harness) => {
    const open = harness.dispatcher.open.bind(harness.dispatcher)
    harness.dispatcher.open = (request, output) => {
      const cursor = open(request, output)
      if (request.start.kind === 'after' && cursor.state === 'lagging') shift(cursor, -1)
      return cursor
    }
  },
  'a bookmark is one revision early': (harness) => {
    groupsOf(harness, (group) => {
      const bookmark = group.bookmark.bind(group)
      group.bookmark = (told) => bookmark({ ...told, revision: (told.revision + 1) as typeof told.revision })
    })
  },
  'a point to resume from lies inside a revision': (harness) => {
    groupsOf(harness, (group) => {
      const frame = group.wire.frame.bind(group.wire)
      let last: Parameters<typeof frame>[2] = null
      const wire = {
        ...group.wire,
        frame: (...[type, body, resume]: Parameters<typeof frame>) => frame(type, body, (last = resume ?? last)),
      }
      Object.defineProperty(group, 'wire', { value: wire })
    })
  },
  'a state is without its last object': (harness) => {
    const isTime = everyNth(2)
    const { cache } = harness
    const snapshot = cache.snapshot.bind(cache)
    cache.snapshot = () => {
      const state = snapshot()
      if (isTime()) {
        const objects = state.objects.bind(state)
        state.objects = function* (prefix, startKey) {
          yield* [...objects(prefix, startKey)].slice(0, -1)
        }
      }
      return state
    }
  },
  'an object that leaves a selector is not told of': (harness) => {
    groupsOf(harness, (group) => {
      const { matcher } = group
      const match = matcher.match.bind(matcher)
      matcher.match = (event) => {
        const matchedEvent = match(event)
        return matchedEvent?.type === 'DELETED' && event.object !== null ? null : matchedEvent
      }
    })
  },
  'a slow watcher is ended although the ring still has every event': (harness) => {
    const { pump } = harness
    const isTime = everyNth(50)
    const enqueue = pump.enqueueCursor.bind(pump)
    pump.enqueueCursor = (cursor, advance) =>
      enqueue(cursor, {
        passed: (group) => advance.passed(group),
        advance: (other) => {
          if (other.state !== 'lagging' || !isTime()) return advance.advance(other)
          other.finish('expired')
          other.output.end(null, null, null)
          return false
        },
      })
  },
  'a watcher that has left stays in its group': (harness) => {
    groupsOf(harness, (group) => {
      group.enter('')
    })
  },
}

for (const [what, spoil] of Object.entries(damages)) {
  void t.test(`a damaged build is caught: ${what}`, async (t) => {
    let caught = 0
    for (let seed = 1; seed <= 3; seed++) caught += (await runHistory({ seed, steps: 120, spoil })).violations.length
    t.ok(caught > 0)
  })
}

void t.test('an undamaged build passes', async (t) => {
  for (let seed = 1; seed <= 3; seed++) t.same((await runHistory({ seed, steps: 120 })).violations, [])
})
