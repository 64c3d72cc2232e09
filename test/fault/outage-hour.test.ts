/**
 * An hour without etcd. The server stays ready and answers from its cache, stating its age; watches stay open, with
 * their bookmarks; reads that need etcd get 504; nothing grows, and the outage is logged once. When etcd is back,
 * everything continues from where it was. etcd and sockets are real, and the hour is skipped.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { SkippingClock } from '../support/skipping-clock.js'
import { until } from '../support/until.js'
import type { RecordedWatch } from '../support/watch-recorder.js'
import { startScenario } from './scenario.js'

const MINUTE_MS = 60_000
/** The skipped time per step, which is at most the retry interval of feeds. */
const STEP_MS = 2_000
/** Requests and retries leave garbage that one collection does not find. */
const HEAP_SLACK_BYTES = 16 * 2 ** 20

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

function heapBytes(): number {
  collect()
  collect()
  return process.memoryUsage().heapUsed
}

void t.test('during an hour without etcd, clients lose only freshness', async (t) => {
  const clock = new SkippingClock()
  const lines: { readonly level: string; readonly message: string }[] = []
  const at = (level: string) => (_fields: object, message: string) => void lines.push({ level, message })
  const logger = { debug: () => {}, info: at('info'), warn: at('warn'), error: at('error') }
  const s = await startScenario(t, {
    clock,
    logger,
    config: { bookmarkInterval: MINUTE_MS, minRequestTimeout: 24 * 60 * MINUTE_MS },
  })
  for (let i = 0; i < 30; i++) await s.write()
  const watches = await s.watchAll()
  await s.reached(await s.writeMarks())
  const pods = `${s.h.url}/api/v1/pods`
  const age = async (): Promise<number> => {
    const answer = await fetch(`${pods}?resourceVersion=0`)
    t.equal(answer.status, 200, 'the cache answers')
    t.ok(((await answer.json()) as { items: object[] }).items.length > 0)
    return Number(answer.headers.get('x-distributary-staleness-seconds') ?? '0')
  }
  /** Refused when the wait of 3 s for etcd is over. */
  const consistent = async (path: string): Promise<{ status: number; reason: string }> => {
    let answer: Response | null = null
    const asked = fetch(path).then((response) => (answer = response))
    while (answer === null) await clock.skip(500, 500)
    const response = await asked
    return { status: response.status, reason: ((await response.json()) as { reason: string }).reason }
  }
  const bookmarksOf = (): number[] => watches.map(({ items }) => items.filter(({ type }) => type === 'BOOKMARK').length)

  await until(async () => (await age()) === 0, 'it is fresh')
  const relists = await s.relists()
  const head = s.cacheRevision
  const startMs = clock.monotonic()
  await s.etcd.kill()
  await until(() => lines.some(({ message }) => message.startsWith('upstream is unavailable')), 'the outage is logged')
  const [logged, timers, before, bookmarks] = [lines.length, clock.pending, heapBytes(), bookmarksOf()]
  const late: RecordedWatch[] = []
  let last = 0
  for (let minute = 1; minute <= 60; minute++) {
    await clock.skip(MINUTE_MS, STEP_MS)
    const now = await age()
    if (now < minute * 60 || now <= last) t.fail(`in minute ${minute} it says that it is ${now} s old, after ${last} s`)
    last = now
    if ((await fetch(`${s.h.url}/readyz`)).status !== 200) t.fail(`it is not ready in minute ${minute}`)
    if (minute % 20 === 0) {
      t.match(await consistent(pods), { status: 504, reason: 'Timeout' }, 'a consistent list')
      const one = await consistent(`${s.h.url}/api/v1/namespaces/a/pods/mark-n1-web`)
      t.match(one, { status: 504, reason: 'Timeout' }, 'a consistent get')
      const openWatches = s.h.watchers
      late.push(s.recorder.watch({ target: watches[0]!.request.target, resourceVersion: String(head) }))
      await until(() => s.h.watchers > openWatches, 'a new watch is accepted')
    }
  }
  t.ok(last * 1_000 <= clock.monotonic() - startMs + 5_000, 'nor does it say more than the time that has passed')
  t.same(lines.slice(logged), [], 'an hour adds no line to the one that said so')
  t.match(
    await (await fetch(`${s.h.url}/readyz?verbose`)).text(),
    /served from the cache: .* last confirmed 3[67]\d\d s ago/,
  )
  t.same(
    [...watches, ...late].filter(({ end }) => end !== 'open').map(({ name }) => name),
    [],
    'every watch is open',
  )
  const during = bookmarksOf().map((count, i) => count - bookmarks[i]!)
  t.ok(
    during.every((count) => count >= 50 && count <= 75),
    `a bookmark a minute: ${during.join()}`,
  )
  t.equal(s.cacheRevision, head)
  t.ok(clock.pending <= timers + 20, `${clock.pending} timers after ${timers}`)
  const grown = heapBytes() - before
  t.ok(grown < HEAP_SLACK_BYTES, `the heap grew by ${grown} bytes`)

  await s.etcd.restart()
  const back = (): boolean => lines.some(({ message }) => message === 'upstream is back')
  while (!back()) await clock.skip(STEP_MS, STEP_MS)
  const settled = await s.settle()
  await until(async () => (await age()) === 0, 'it is fresh again')
  t.equal((await fetch(pods)).status, 200, 'a consistent list')
  t.equal(await s.relists(), relists, 'nothing was relisted, because etcd has the history')
  t.same(
    lines.slice(logged).map(({ message }) => message),
    ['upstream is back'],
  )
  t.same(
    [...watches, ...late].filter(({ end }) => end !== 'open').map(({ name }) => name),
    [],
    'and every watch has gone on',
  )
  await s.judge(t, settled)
})
