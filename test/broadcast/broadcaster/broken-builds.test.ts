/** The judge is judged: a build that is damaged in one place must not pass the random histories. */
import t from 'tap'
import type { Replay } from '../../../src/broadcast/group.js'
import { type Harness, runHistory } from '../random-history.js'

const groupsOf = (harness: Harness, change: (group: ReturnType<Harness['watch']>['cursor']['group']) => void): void => {
  const { broadcaster } = harness
  const open = broadcaster.open.bind(broadcaster)
  const seen = new WeakSet<object>()
  broadcaster.open = (request, sink) => {
    const cursor = open(request, sink)
    if (!seen.has(cursor.group)) {
      seen.add(cursor.group)
      change(cursor.group)
    }
    return cursor
  }
}

/** Every so many times. */
function everyNth(n: number): () => boolean {
  let count = 0
  return () => ++count % n === 0
}

const damages: Readonly<Record<string, (harness: Harness) => void>> = {
  'an event is skipped at the head': (harness) => {
    const isTime = everyNth(10)
    groupsOf(harness, (group) => {
      const append = group.append.bind(group)
      group.append = (batch, matchedEvents) => append(batch, isTime() ? matchedEvents.slice(1) : matchedEvents)
    })
  },
  'an event is skipped in the ring': (harness) => {
    const isTime = everyNth(10)
    groupsOf(harness, (group) => {
      const replay = group.replay.bind(group)
      group.replay = (batch, isFirst): Replay => {
        const whole = replay(batch, isFirst)
        return isTime() ? { ...whole, events: 0 } : whole
      }
    })
  },
  'a revision is told twice': (harness) => {
    const isTime = everyNth(10)
    groupsOf(harness, (group) => {
      const append = group.append.bind(group)
      group.append = (batch, matchedEvents) =>
        (isTime() ? append(batch, matchedEvents) : 0) + append(batch, matchedEvents)
    })
  },
  'a resume is one revision late': (harness) => {
    const open = harness.broadcaster.open.bind(harness.broadcaster)
    harness.broadcaster.open = (request, sink) => {
      const cursor = open(request, sink)
      if (request.start.kind === 'after' && cursor.state === 'lagging') cursor.revision++
      return cursor
    }
  },
  'a resume is one revision early': (harness) => {
    const open = harness.broadcaster.open.bind(harness.broadcaster)
    harness.broadcaster.open = (request, sink) => {
      const cursor = open(request, sink)
      if (request.start.kind === 'after' && cursor.state === 'lagging') cursor.revision--
      return cursor
    }
  },
  'a bookmark is one revision early': (harness) => {
    groupsOf(harness, (group) => {
      const bookmark = group.bookmark.bind(group)
      group.bookmark = (revision, isInitialEnd) => bookmark((revision + 1) as typeof revision, isInitialEnd)
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
      const sight = matcher.sight.bind(matcher)
      matcher.sight = (event) => {
        const matchedEvent = sight(event)
        return matchedEvent?.type === 'DELETED' && event.object !== null ? null : matchedEvent
      }
    })
  },
  'whoever is slow is ended although the ring has everything': (harness) => {
    const { broadcaster } = harness
    const advanceOther = broadcaster.advanceOther.bind(broadcaster)
    const isTime = everyNth(50)
    broadcaster.advanceOther = (cursor) => {
      if (cursor.state === 'lagging' && isTime()) {
        broadcaster.finish(cursor, 'expired')
        cursor.sink.end(null, null, null)
        return false
      }
      return advanceOther(cursor)
    }
  },
  'a watcher that has left stays in its group': (harness) => {
    groupsOf(harness, (group) => {
      group.size++
    })
  },
}

for (const [what, spoil] of Object.entries(damages)) {
  void t.test(`caught: ${what}`, async (t) => {
    let caught = 0
    for (let seed = 1; seed <= 3; seed++) caught += (await runHistory({ seed, steps: 120, spoil })).violations.length
    t.ok(caught > 0)
  })
}

void t.test('not caught: nothing is wrong', async (t) => {
  for (let seed = 1; seed <= 3; seed++) t.same((await runHistory({ seed, steps: 120 })).violations, [])
})
