/**
 * The whole server over the embedded store, under a seeded random schedule: writes of one and of many keys, watchers
 * that come, go, stop reading and resume too early or too late, an upstream that is cut, stalled and compacted.
 * Whatever the schedule, every stream and every list must satisfy every guarantee.
 */
import t, { type Test } from 'tap'
import { type Batch, keyFromText } from '../../src/engine/model/event.js'
import type { Revision } from '../../src/engine/model/revision.js'
import { randomInteger, type Random, seededRandom } from '../../src/support/random.js'
import { createEmbeddedUpstream } from '../support/faulty-store.js'
import type { Upstream, WatchHandlers, WriteOperation } from '../../src/engine/upstream/upstream.js'
import { type AppHarness, startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'
import { ReferenceHistory, type WriteRecord } from '../support/history.js'
import {
  ListError,
  type RecordedWatch,
  type RequestScope,
  type Target,
  WatchRecorder,
} from '../support/watch-recorder.js'
import { nextTurn } from '../support/virtual-clock.js'
import { assertGuarantees, validate } from './validate.js'
import { testSeeds } from '../support/test-seeds.js'

const pods: Target = { groupVersionPath: '/api/v1', plural: 'pods', prefix: keyFromText('/registry/pods/') }
const namespaces = ['a', 'ab', 'b']
const apps = ['web', 'db', 'api']
const nodes = ['n1', 'n2']

interface TestPod {
  readonly metadata: { readonly labels: { readonly app: string } }
  readonly spec: { readonly nodeName: string }
}

const scopes: readonly RequestScope[] = [
  { target: pods },
  { target: pods, namespace: 'a' },
  { target: pods, labelSelector: 'app=web', selects: (object) => (object as TestPod).metadata.labels.app === 'web' },
  {
    target: pods,
    labelSelector: 'app in (db,api)',
    fieldSelector: 'spec.nodeName!=n1',
    selects: (object) =>
      (object as TestPod).metadata.labels.app !== 'web' && (object as TestPod).spec.nodeName !== 'n1',
  },
  { target: pods, fieldSelector: 'spec.nodeName=n1', selects: (object) => (object as TestPod).spec.nodeName === 'n1' },
]

const watchersAtOnce = 24
const steps = 2_500

for (const seed of testSeeds(2)) {
  void t.test(`every guarantee holds (seed ${seed})`, async (t) => {
    const random = seededRandom(seed)
    const h = await startApp(t, {
      config: { watchCacheBytes: 100_000, bookmarkInterval: 100 },
    })
    const recorder = new WatchRecorder({ url: h.url })
    t.teardown(() => recorder.close())
    const schedule = new Schedule(h, recorder, random)
    for (let step = 0; step < steps; step++) {
      await schedule.step()
      await nextTurn()
    }
    const { batches, writes, last } = await schedule.settle()
    const history = recorder.history(writes)
    const reference = new ReferenceHistory(batches)
    assertGuarantees(t, history, reference, { settledRevision: last })
    const received = history.watches.reduce((sum, { items }) => sum + items.length, 0)
    t.ok(received > 500 && history.lists.length > 20, `${received} items and ${history.lists.length} lists were judged`)
    t.same(
      recorder.watches.flatMap(({ malformed }) => malformed ?? []),
      [],
    )
    const codes = new Set(history.watches.flatMap(({ code }) => code ?? []))
    // Too old; or too new, when the upstream was stalled for longer than a consistent start waits.
    t.same(
      [...codes].filter((code) => code !== 410 && code !== 504),
      [],
      'no stream ends in any other error',
    )
  })
}

type Fault = (handlers: WatchHandlers) => WatchHandlers

/** Does what etcd did (#15220): reports progress, then sends an earlier event. */
const earlyProgress: Fault = (handlers) => ({
  ...handlers,
  onBatches(batches) {
    const last = batches.at(-1)
    if (last !== undefined && last.revision % 5 === 0) handlers.onProgress(last.revision)
    handlers.onBatches(batches)
  },
})

/** Faults that a feed could have, and the guarantees that each of them violates. */
const faults: Record<string, Fault> = {
  'skips a revision now and then': (handlers) => ({
    ...handlers,
    onBatches: (batches) => handlers.onBatches(batches.filter(({ revision }) => revision % 37 !== 0)),
  }),
  'splits a revision and loses its rest': (handlers) => ({
    ...handlers,
    onBatches: (batches) =>
      handlers.onBatches(batches.map(({ revision, events }) => ({ revision, events: events.slice(0, 1) }))),
  }),
}
for (const [name, breakHandlers] of Object.entries(faults)) {
  void t.test(`the harness detects a server that ${name}`, async (t) => {
    const { violations } = await judged(t, breakHandlers)
    const broken = [...new Set(violations.map(({ guarantee }) => guarantee))]
    t.ok(
      broken.some((guarantee) => guarantee === 'reliable' || guarantee === 'atomic'),
      `not ${broken.join(', ')}`,
    )
  })
}

void t.test('no watcher silently loses an event that follows progress covering it (etcd #15220)', async (t) => {
  const { violations, ends } = await judged(t, earlyProgress)
  t.same(violations.map(String), [])
  t.same(ends, ['error 410', 'error 410'], 'every watch ends with 410')
})

/** Judges two clients' watches, during 150 revisions, of a server whose own watch of the pods is broken. */
async function judged(t: Test, breakHandlers: Fault) {
  const embedded = createEmbeddedUpstream()
  const upstream: Upstream = {
    read: (options) => embedded.read(options),
    readKey: (key, options) => embedded.readKey(key, options),
    currentRevision: (signal) => embedded.currentRevision(signal),
    status: (signal) => embedded.status(signal),
    watch: (options, handlers) =>
      embedded.watch(options, options.prefix === pods.prefix ? breakHandlers(handlers) : handlers),
    write: (compares, operations) => embedded.write(compares, operations),
    grantLease: (ttlSeconds) => embedded.grantLease(ttlSeconds),
    dropLease: (leaseId) => embedded.dropLease(leaseId),
    close: () => embedded.close(),
  }
  const h = await startApp(t, { upstream, config: { bookmarkInterval: 50 } })
  const recorder = new WatchRecorder({ url: h.url })
  t.teardown(() => recorder.close())
  recorder.watch({ target: pods, sendInitialEvents: true })
  recorder.watch({ target: pods, resourceVersion: '1' })
  const schedule = new Schedule({ ...h, upstream: embedded }, recorder, seededRandom(1))
  for (let i = 0; i < 150; i++) {
    schedule.write()
    await nextTurn()
  }
  const { batches, writes, last } = await schedule.settle()
  const history = recorder.history(writes)
  const violations = validate(history, new ReferenceHistory(batches), { settledRevision: last })
  return { violations, ends: history.watches.map(({ end, code }) => `${end} ${code ?? ''}`.trim()) }
}

class Schedule {
  readonly #h: AppHarness
  readonly #recorder: WatchRecorder
  readonly #random: Random
  readonly #batches: Batch[] = []
  readonly #writes: WriteRecord[] = []
  readonly #paused = new Set<RecordedWatch>()
  readonly #lists: Promise<unknown>[] = []
  #isHeld = false

  constructor(h: AppHarness, recorder: WatchRecorder, random: Random) {
    this.#h = h
    this.#recorder = recorder
    this.#random = random
  }

  async step(): Promise<void> {
    const { upstream } = this.#h
    const choice = this.#random.next()
    if (choice < 0.6) this.write()
    else if (choice < 0.72) this.#watch()
    else if (choice < 0.76) this.#running()?.destroy()
    else if (choice < 0.8) this.#pause()
    else if (choice < 0.86) this.#unpause()
    else if (choice < 0.93) this.#list()
    else if (choice < 0.935) upstream.cutWatches()
    else if (choice < 0.955) this.#hold()
    else if (choice < 0.957) this.#compact()
    else await new Promise((resolve) => setTimeout(resolve, randomInteger(this.#random, 0, 15)))
  }

  /** Releases everything that is stalled, and waits until every running watch has received the last revision. */
  async settle(): Promise<{ batches: readonly Batch[]; writes: readonly WriteRecord[]; last: Revision }> {
    this.#h.upstream.releaseDelivery()
    for (const watch of this.#paused) watch.unpause()
    this.#writeToAll()
    const last = this.#h.upstream.revision
    await Promise.all(this.#lists)
    await this.#listOnceItAnswers()
    // A watch that started in the future receives nothing before that; one that started here gets a bookmark.
    const running = this.#recorder.watches.filter(
      ({ end, request }) => end === 'open' && !(Number(request.resourceVersion) > last),
    )
    const reached = ({ end, items }: RecordedWatch): boolean => end !== 'open' || (items.at(-1)?.revision ?? 0) >= last
    const late = (): string =>
      running
        .filter((watch) => !reached(watch))
        .map(({ request, items }) => `${JSON.stringify(request)} is at ${items.at(-1)?.revision}`)
        .join('; ')
    await until(
      () => running.every(reached),
      () => `${running.length} watches come to revision ${last}: ${late()}`,
      20_000,
    )
    await new Promise((resolve) => setTimeout(resolve, 200))
    return { batches: this.#batches, writes: this.#writes, last }
  }

  /** After a dozen cuts in a few seconds, the feed's retry interval exceeds the time that a consistent read waits. */
  async #listOnceItAnswers(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#recorder.list({ target: pods })
        return
      } catch (error) {
        if (!(error instanceof ListError) || error.status !== 504 || attempt === 5) throw error
      }
    }
  }

  write(): void {
    const count = this.#random.next() < 0.15 ? randomInteger(this.#random, 2, 30) : 1
    const keys = new Set(
      Array.from({ length: count }, () => `${this.#pick(namespaces)}/p${randomInteger(this.#random, 0, 19)}`),
    )
    const operations = [...keys].map((id): WriteOperation => {
      const key = keyFromText(`/registry/pods/${id}`)
      const [namespace = '', name = ''] = id.split('/')
      if (this.#random.next() < 0.25) return { type: 'delete', key }
      const labels = { app: this.#pick(apps), note: String(randomInteger(this.#random, 0, 1e9)) }
      const object = pod(name, { namespace, labels, spec: { nodeName: this.#pick(nodes) } })
      return { type: 'put', key, value: Buffer.from(JSON.stringify(object)) }
    })
    this.#commit(operations)
  }

  /** Writes one revision that every watch receives, whatever it selects. */
  #writeToAll(): void {
    const note = String(randomInteger(this.#random, 0, 1e9))
    const pods = { 'last-web': { app: 'web', nodeName: 'n1' }, 'last-api': { app: 'api', nodeName: 'n2' } }
    this.#commit(
      Object.entries(pods).map(([name, { app, nodeName }]): WriteOperation => {
        const object = pod(name, { namespace: 'a', labels: { app, note }, spec: { nodeName } })
        return { type: 'put', key: keyFromText(`/registry/pods/a/${name}`), value: Buffer.from(JSON.stringify(object)) }
      }),
    )
  }

  #commit(operations: readonly WriteOperation[]): void {
    const batch = this.#h.upstream.commit(operations)
    if (batch === null) return
    this.#batches.push(batch)
    this.#writes.push({ revision: batch.revision, returnedAtMs: performance.now() })
  }

  /** A new watch, or an ended one resumed; up to the number that suits a test. */
  #watch(): void {
    const open = this.#recorder.watches.filter(({ end }) => end === 'open')
    if (open.length >= watchersAtOnce) return
    const ended = this.#recorder.watches.filter(({ end }) => end === 'cut' || end === 'eof')
    const again = ended[randomInteger(this.#random, 0, ended.length - 1)]
    if (again !== undefined && this.#random.next() < 0.5) {
      this.#recorder.resume(again, this.#random.next() < 0.5 ? 'bookmark' : 'event')
      return
    }
    const scope = this.#pick(scopes)
    const choice = this.#random.next()
    const offset = this.#h.upstream.revision + randomInteger(this.#random, -100, 20)
    if (choice < 0.4) this.#recorder.watch({ ...scope, resourceVersion: String(Math.max(1, offset)) })
    else if (choice < 0.7) this.#recorder.watch({ ...scope, sendInitialEvents: true })
    else if (choice < 0.8) this.#recorder.watch({ ...scope, resourceVersion: '0' })
    else if (choice < 0.9) this.#recorder.watch({ ...scope, resourceVersion: '0', allowWatchBookmarks: false })
    else this.#recorder.watch({ ...scope, sendInitialEvents: true, timeoutSeconds: 1 })
  }

  #running(): RecordedWatch | undefined {
    return this.#pick(this.#recorder.watches.filter(({ end }) => end === 'open'))
  }

  #pause(): void {
    const watch = this.#running()
    if (watch === undefined) return
    watch.pause()
    this.#paused.add(watch)
  }

  #unpause(): void {
    const [watch] = this.#paused
    if (watch === undefined) return
    watch.unpause()
    this.#paused.delete(watch)
  }

  #list(): void {
    const scope = this.#pick(scopes)
    const choice = this.#random.next()
    const revision = String(Math.max(1, this.#h.upstream.revision - randomInteger(this.#random, 0, 50)))
    const limit = randomInteger(this.#random, 1, 20)
    const request =
      choice < 0.4
        ? scope
        : choice < 0.55
          ? { ...scope, resourceVersion: '0' }
          : choice < 0.7
            ? { ...scope, resourceVersion: revision, resourceVersionMatch: 'NotOlderThan' as const }
            : choice < 0.85
              ? { ...scope, limit }
              : { ...scope, resourceVersion: revision, resourceVersionMatch: 'Exact' as const }
    const list = this.#recorder.list(request).catch((error: unknown) => {
      // Compacted in the meantime, or stalled for too long: correct answers. Anything else is a failure.
      if (!(error instanceof ListError) || ![410, 429, 504].includes(error.status)) throw error
    })
    this.#lists.push(list)
  }

  #hold(): void {
    this.#isHeld = !this.#isHeld && this.#random.next() < 0.3
    if (this.#isHeld) this.#h.upstream.holdDelivery(pods.prefix)
    else this.#h.upstream.releaseDelivery()
  }

  #compact(): void {
    const { upstream } = this.#h
    if (upstream.revision > upstream.compactRevision) upstream.compact(upstream.revision)
  }

  #pick<T>(from: readonly T[]): T {
    return from[randomInteger(this.#random, 0, from.length - 1)] as T
  }
}
