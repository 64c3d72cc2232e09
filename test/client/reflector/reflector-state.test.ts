import t from 'tap'
import { backoffMs } from '../../../src/support/backoff.js'
import { randomInteger, type Random, seededRandom } from '../../../src/support/random.js'
import type { FailureKind } from '../../../src/client/reflector/watch-failure.js'
import {
  idle,
  next,
  type ReflectorInput,
  type ReflectorState,
  type Failure,
} from '../../../src/client/reflector/reflector-state.js'
import { testSeeds } from '../../support/test-seeds.js'

const HEALTHY_MS = 10_000

const trouble = (kind: FailureKind, retryAfterMs: number | null = null): Failure => ({
  kind,
  message: kind,
  retryAfterMs,
})

/** Applies all inputs in order. Returns the state, and the effects of the last input. */
function after(inputs: readonly ReflectorInput[], options = { canStream: true }): ReturnType<typeof next> {
  let transition: ReturnType<typeof next> = { state: idle(options), effects: [] }
  for (const input of inputs) transition = next(transition.state, input)
  return transition
}

const start: ReflectorInput = { kind: 'start' }
const timer: ReflectorInput = { kind: 'timer' }
const committed: ReflectorInput = { kind: 'committed', resourceVersion: '10', at: 0 }
const moved: ReflectorInput = { kind: 'progress', position: '12', safePosition: '11', isBookmark: false }
const failed = (kind: FailureKind): ReflectorInput => ({ kind: 'failed', failure: trouble(kind) })
const ended = (kind: FailureKind | null, at = 1): ReflectorInput => ({
  kind: 'watch-ended',
  at,
  failure: kind === null ? null : trouble(kind),
})

void t.test('the state is streamed first, and the same answer continues as the watch', async (t) => {
  t.match(after([start]), { state: { kind: 'streaming' }, effects: [{ kind: 'stream', resourceVersion: '' }] })
  t.match(after([start, committed]), { state: { kind: 'watching', known: { position: '10' } }, effects: [] })
})

void t.test('a server that cannot stream the state is listed from then on', async (t) => {
  for (const no of [failed('unsupported'), { kind: 'cannot-stream', why: 'silence' } as const]) {
    t.match(after([start, no]), { state: { kind: 'listing' }, effects: [{ kind: 'list', resourceVersion: '0' }] })
    const listed = [start, no, committed] as const
    t.match(after(listed), { state: { kind: 'watching' }, effects: [{ kind: 'watch', resourceVersion: '10' }] })
    t.match(after([...listed, ended('expired')]).effects, [{ kind: 'list', resourceVersion: '10' }])
  }
})

void t.test('a watch continues at the right resourceVersion', async (t) => {
  const watching = [start, committed, moved] as const
  const cases: readonly [string, ReflectorInput, object][] = [
    ['a break goes on from the last safe point', ended('network'), { effects: [{ kind: 'wait', attempt: 1 }] }],
    [
      '410 starts a new stream, no older than the known revision',
      ended('expired'),
      { effects: [{ kind: 'stream', resourceVersion: '12' }] },
    ],
    ['too large asks for the most recent', ended('too-large'), { effects: [{ kind: 'stream', resourceVersion: '' }] }],
    ['silence goes on at once', { kind: 'silent', at: 1 }, { effects: [{ kind: 'watch', resourceVersion: '11' }] }],
    [
      'after the regular end of a healthy watch, the next one starts at once',
      ended(null, HEALTHY_MS),
      { effects: [{ kind: 'watch', resourceVersion: '12' }] },
    ],
    ['a proper end after some events waits a little', ended(null), { effects: [{ kind: 'wait', pace: 'pace' }] }],
  ]
  for (const [name, input, expected] of cases) t.match(after([...watching, input]), expected, name)
  t.match(after([...watching, ended('network'), timer]).effects, [{ kind: 'watch', resourceVersion: '11' }])
  t.match(after([...watching, ended(null), timer]).effects, [{ kind: 'watch', resourceVersion: '12' }])
})

void t.test(
  '410 and too large are retried at once only the first time, and end with the most recent state',
  async (t) => {
    for (const kind of ['expired', 'too-large'] as const) {
      const again = [start, committed, ended('expired'), failed(kind)] as const
      t.match(after(again).effects, [{ kind: 'stream', resourceVersion: '' }], 'then the most recent')
      t.match(after([...again, failed(kind)]).effects, [{ kind: 'wait', attempt: 2 }], 'then a wait')
    }
  },
)

void t.test('only a healthy watch makes the next failure count as the first', async (t) => {
  const broken = [start, failed('network'), timer, committed] as const
  t.match(after([...broken, ended('network', HEALTHY_MS - 1)]).effects, [{ kind: 'wait', attempt: 2 }])
  t.match(after([...broken, ended('network', HEALTHY_MS)]).effects, [{ kind: 'wait', attempt: 1 }])
})

void t.test('the wait requested by the server is passed on', async (t) => {
  const input: ReflectorInput = { kind: 'failed', failure: trouble('too-many-requests', 7_000) }
  t.match(after([start, input]).effects, [{ kind: 'wait', retryAfterMs: 7_000 }])
})

void t.test('silent watches on a server that sends bookmarks end, and the state is read again', async (t) => {
  const silent: ReflectorInput = { kind: 'silent', at: 1 }
  t.match(after([start, committed, silent]).effects, [{ kind: 'watch' }])
  t.match(after([start, committed, silent, silent]).effects, [{ kind: 'watch' }])
  t.match(after([start, committed, silent, silent, silent]).effects, [{ kind: 'stream', resourceVersion: '' }])
  const plain = [start, failed('unsupported'), committed] as const
  t.match(
    after([...plain, silent, silent, silent]).effects,
    [{ kind: 'watch' }],
    'without bookmarks silence means nothing',
  )
})

void t.test('whatever ends a request is followed by another one, from every state', async (t) => {
  const listing = [start, failed('unsupported')] as const
  for (const inputs of [[start], listing, [start, committed], [...listing, committed]] as const) {
    for (const input of [
      failed('network'),
      ended('network'),
      ended(null),
      { kind: 'cannot-stream', why: 'silence' },
      { kind: 'silent', at: 1 },
    ] as const) {
      const { state, effects } = after([...inputs, input])
      t.equal(effects.length, 1, `${input.kind} after ${inputs.map(({ kind }) => kind).join()}: ${state.kind}`)
    }
  }
})

void t.test('stop cancels everything, from every state', async (t) => {
  for (const inputs of [[start], [start, committed], [start, failed('network')], [start, failed('unsupported')]]) {
    t.match(after([...inputs, { kind: 'stop' }]), { state: { kind: 'idle' }, effects: [{ kind: 'cancel' }] })
  }
})

void t.test(
  'with random servers there are never two requests at once nor a hot loop, and a healthy server is always followed again',
  async (t) => {
    let most = 0
    const wrong: string[] = []
    for (const seed of testSeeds(300)) {
      const world = new World(seededRandom(seed))
      most = Math.max(most, ...world.run(30 * 60_000))
      world.becomeGood()
      world.run(90_000)
      if (world.overlaps > 0) wrong.push(`seed ${seed}: ${world.overlaps} requests at once`)
      if (world.state.kind !== 'watching')
        wrong.push(`seed ${seed}: ${world.state.kind} long after the server was well`)
      if (world.committedBack > 0) wrong.push(`seed ${seed}: back in time`)
    }
    t.same(wrong, [])
    // Short useful watches are the most frequent: one or two a second at first, then one in two seconds.
    t.ok(most <= 60, `${most} requests in a minute`)
    t.ok(most >= 10, 'and the servers were bad ones')
  },
)

/** A random server with a clock: each effect is a request, which is answered with an input some time later. */
class World {
  readonly #random: Random
  state: ReflectorState = idle({ canStream: true })
  now = 0
  overlaps = 0
  committedBack = 0
  #isGood = false
  #revision = 100
  #last = 0
  /** The next inputs and their times. */
  #pending: { at: number; input: ReflectorInput }[] = []
  #running = false
  #mood: FailureKind | 'eof' | 'fine' = 'fine'

  constructor(random: Random) {
    this.#random = random
  }

  becomeGood(): void {
    this.#isGood = true
  }

  /** The number of requests in each minute. */
  run(ms: number): number[] {
    const perMinute: number[] = []
    const until = this.now + ms
    const begin = this.now
    const send = (input: ReflectorInput): void => {
      if (input.kind === 'committed') {
        const revision = Number(input.resourceVersion)
        if (revision < this.#last) this.committedBack++
        this.#last = revision
      }
      const { state, effects } = next(this.state, input)
      this.state = state
      for (const effect of effects) {
        if (effect.kind === 'wait') {
          const pace = effect.pace === 'pace' ? { firstMs: 200, capMs: 2_000 } : { firstMs: 800, capMs: 30_000 }
          this.#pending.push({ at: this.now + backoffMs(pace, effect.attempt, this.#random), input: { kind: 'timer' } })
        } else if (effect.kind !== 'cancel') {
          if (this.#running) this.overlaps++
          this.#running = true
          const minute = Math.floor((this.now - begin) / 60_000)
          perMinute[minute] = (perMinute[minute] ?? 0) + 1
          this.#answer(effect.kind)
        }
      }
    }
    if (this.state.kind === 'idle') send({ kind: 'start' })
    while (this.#pending.length > 0) {
      this.#pending.sort((a, b) => a.at - b.at)
      const [first] = this.#pending
      if (first === undefined || first.at > until) break
      this.#pending.shift()
      this.now = first.at
      if (['committed', 'failed', 'cannot-stream', 'watch-ended', 'silent'].includes(first.input.kind)) {
        // A stream whose state has been committed continues as a watch.
        this.#running = this.state.kind === 'streaming' && first.input.kind === 'committed'
      }
      send(first.input)
    }
    this.now = until
    return Array.from(perMinute, (count) => count ?? 0)
  }

  #answer(kind: 'stream' | 'list' | 'watch'): void {
    const random = this.#random
    const kinds = [
      'expired',
      'too-large',
      'too-many-requests',
      'refused',
      'server-error',
      'network',
      'eof',
      'fine',
    ] as const
    if (random.next() < 0.1) this.#mood = kinds[randomInteger(random, 0, kinds.length - 1)] ?? 'fine'
    const mood = this.#isGood ? 'fine' : this.#mood
    this.#revision += randomInteger(random, 0, 5)
    const at = this.now + randomInteger(random, 1, 20)
    const resourceVersion = String(this.#revision)
    const isFirstOfWatch = kind !== 'watch'
    if (isFirstOfWatch) {
      if (mood !== 'fine' && mood !== 'eof') {
        this.#pending.push({ at, input: { kind: 'failed', failure: trouble(mood) } })
        return
      }
      this.#pending.push({ at, input: { kind: 'committed', resourceVersion, at } })
      if (kind === 'list') return
    } else this.#pending.push({ at, input: { kind: 'opened', at } })
    if (mood === 'fine' && this.#isGood) return
    const longMs = mood === 'fine' ? randomInteger(random, 1, 60_000) : randomInteger(random, 1, 20)
    if (random.next() < 0.5) {
      const progress = { kind: 'progress', position: resourceVersion, safePosition: resourceVersion } as const
      this.#pending.push({ at: at + 1, input: { ...progress, isBookmark: random.next() < 0.2 } })
    }
    const endAt = at + 1 + longMs
    const ending = mood === 'fine' || mood === 'eof' ? null : trouble(mood)
    this.#pending.push({ at: endAt, input: { kind: 'watch-ended', at: endAt, failure: ending } })
  }
}
