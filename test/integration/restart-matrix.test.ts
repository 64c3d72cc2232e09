/**
 * Watchers across a restart, while other programs write to etcd: quiet and busy watchers resume, in every form of the
 * server. `TEST_LONG` runs every combination; otherwise a few of them run.
 */
import t, { type Test } from 'tap'
import { keyFromText } from '../../src/engine/model/event.js'
import { connectEtcd } from '../../src/engine/upstream/etcd/etcd-upstream.js'
import { nextRevision, type Revision } from '../../src/engine/model/revision.js'
import { type Upstream, UpstreamError } from '../../src/engine/upstream/upstream.js'
import { startEtcd } from '../support/etcd-process.js'
import { startNats } from '../support/nats-process.js'
import { startServer } from '../support/server-process.js'
import { pause } from '../support/until.js'
import { type RecordedWatch, type Target, WatchRecorder } from '../support/watch-recorder.js'

const FORMS = ['plain', 'workers', 'NATS'] as const
const SIGNALS = ['SIGTERM', 'SIGKILL'] as const
const RATES = [0, 100, 1_000, 5_000] as const
const SIZES = [100, 10_000, 300_000] as const

interface Cell {
  readonly form: (typeof FORMS)[number]
  readonly signal: (typeof SIGNALS)[number]
  /** Foreign writes in a second, as far as this machine and `BYTES_PER_SECOND` allow. */
  readonly rate: number
  readonly valueBytes: number
}

const FEW: readonly Cell[] = [
  { form: 'plain', signal: 'SIGTERM', rate: 5_000, valueBytes: 100 },
  { form: 'plain', signal: 'SIGKILL', rate: 100, valueBytes: 300_000 },
  { form: 'workers', signal: 'SIGKILL', rate: 1_000, valueBytes: 10_000 },
  { form: 'NATS', signal: 'SIGTERM', rate: 1_000, valueBytes: 10_000 },
]
const ALL: readonly Cell[] = FORMS.flatMap((form) =>
  SIGNALS.flatMap((signal) => RATES.flatMap((rate) => SIZES.map((valueBytes) => ({ form, signal, rate, valueBytes })))),
)
const BYTES_PER_SECOND = 20_000_000
/** The default of `--backfill-revisions`: the one reason for 410 that such writes may give. */
const BACKFILL_REVISIONS = 10_000
/** The writes of the busy resource in a second, and the most bytes of each, so that the smallest history holds them. */
const BUSY_RATE = 10
const BUSY_BYTES = 10_000
const FOREIGN_AT_ONCE = 32
/** The time between the start of the writes and the signal. */
const BEFORE_MS = 700

const targetOf = (plural: string): Target => ({
  groupVersionPath: '/apis/distributary.io/v1',
  plural,
  prefix: keyFromText(`/${plural}/`),
})

/**
 * Writes to a key that no server serves, and in order to the busy resource, until it is stopped. This may be more than
 * etcd can take on this machine, so writes may fail.
 */
class Load {
  foreign = 0
  #isStopped = false
  readonly #done: Promise<unknown>

  constructor(etcd: Upstream, { rate, valueBytes }: Cell) {
    const value = Buffer.alloc(valueBytes, 'x')
    const perSecond = Math.min(rate, BYTES_PER_SECOND / valueBytes)
    const write = async (key: string, written: Buffer): Promise<boolean> => {
      try {
        await etcd.write([], [{ type: 'put', key: keyFromText(key), value: written }])
        return true
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error
        return false
      }
    }
    const paced = async (rateHere: number, write: () => Promise<void>): Promise<void> => {
      const startedMs = performance.now()
      for (let i = 0; !this.#isStopped; i++) {
        const waitMs = startedMs + (i * 1_000) / rateHere - performance.now()
        if (waitMs > 1) await pause(waitMs)
        await write()
      }
    }
    const foreign = async (_: unknown, i: number): Promise<void> => {
      if (perSecond === 0) return
      await paced(perSecond / FOREIGN_AT_ONCE, async () => {
        if (await write(`/elsewhere/${i}`, value)) this.foreign++
      })
    }
    this.#done = Promise.all([
      ...Array.from({ length: FOREIGN_AT_ONCE }, foreign),
      paced(BUSY_RATE, async () => void (await write('/busy/k', value.subarray(0, BUSY_BYTES)))),
    ])
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#done
  }
}

async function flagsOf(t: Test, { form }: Cell, etcdUrl: string): Promise<readonly string[]> {
  const flags = ['--etcd-servers', etcdUrl, '--resource', 'quiet=/quiet/,busy=/busy/', '--bookmark-interval=1s']
  if (form === 'workers') return [...flags, '--workers=2']
  if (form === 'plain') return flags
  const nats = await startNats(t)
  return [...flags, `--nats-servers=${nats.url}`, '--nats-stream-bytes=8MiB', '--nats-lease=1s']
}

/** Returns etcd's own revisions of the busy resource: a write that failed may still have happened. */
function busyRevisions(etcd: Upstream, after: Revision, until: Revision): Promise<Revision[]> {
  const seen: Revision[] = []
  return new Promise((resolve, reject) => {
    const watch = etcd.watch(
      { prefix: keyFromText('/busy/'), startRevision: nextRevision(after) },
      {
        onOpen: () => {},
        onProgress: () => {},
        onBatches: (batches) => {
          seen.push(...batches.map(({ revision }) => revision))
          if (seen.at(-1)! < until) return
          watch.close()
          resolve(seen)
        },
        onEnd: (end) => reject(new Error(`the watch of etcd ended: ${JSON.stringify(end)}`)),
      },
    )
  })
}

const revisionsOf = (watches: readonly RecordedWatch[]): number[] =>
  watches.flatMap(({ items }) => items.filter(({ type }) => type !== 'BOOKMARK').map(({ revision }) => revision))

for (const cell of process.env['TEST_LONG'] === undefined ? FEW : ALL) {
  const { form, signal, rate, valueBytes } = cell
  void t.test(`${form}, ${signal}, ${rate} foreign writes a second of ${valueBytes} bytes`, async (t) => {
    const etcd = await startEtcd(t, { flags: ['--quota-backend-bytes=4000000000'] })
    const upstream = connectEtcd({ endpoints: [etcd.url] })
    t.teardown(() => upstream.close())
    const put = async (key: string, value: Buffer): Promise<Revision> =>
      (await upstream.write([], [{ type: 'put', key: keyFromText(key), value }])).revision
    const start = await put('/quiet/k', Buffer.alloc(valueBytes, 'x'))
    const flags = await flagsOf(t, cell, etcd.url)
    const server = await startServer(t, { flags, isSurrounded: false })
    const load = new Load(upstream, cell)
    t.teardown(() => load.stop())
    const before = new WatchRecorder({ url: server.url })
    const [quiet, busy] = ['quiet', 'busy'].map((plural) =>
      before.watch({ target: targetOf(plural), resourceVersion: String(start) }),
    ) as [RecordedWatch, RecordedWatch]
    await busy.until(({ items }) => items.length > 0)
    await pause(BEFORE_MS)
    const { trustsProgress } = await upstream.status()
    const beforeSignal = await upstream.currentRevision()
    await server.kill(signal)
    await Promise.all([quiet.ended, busy.ended])
    if (trustsProgress && signal === 'SIGTERM')
      t.ok(quiet.lastRevision! >= beforeSignal, 'the last bookmark is current')

    const next = await startServer(t, { flags, isSurrounded: false })
    const after = new WatchRecorder({ url: next.url })
    t.teardown(() => after.close())
    const resume = (watch: RecordedWatch): RecordedWatch =>
      after.watch({ ...watch.request, resourceVersion: String(watch.lastRevision) })
    const [quietAgain, busyAgain] = [resume(quiet), resume(busy)]
    await load.stop()
    const lastBusy = await put('/busy/k', Buffer.from('changed'))
    const last = await put('/quiet/k', Buffer.from('changed'))
    const floor = Number(/"resumableAfter":(\d+)/.exec(next.log())?.[1])
    const written = await busyRevisions(upstream, start, lastBusy)
    t.same(
      revisionsOf([busy]),
      written.filter((revision) => revision <= busy.lastRevision!),
      'the busy watcher had all',
    )
    for (const [was, again, revision, missed] of [
      [quiet, quietAgain, last, [last]],
      [busy, busyAgain, lastBusy, written.filter((one) => one > busy.lastRevision!)],
    ] as const) {
      const [from, name] = [was.lastRevision!, was.name]
      const isResumed = await again.untilRevision(revision).then(
        () => true,
        () => false,
      )
      if (isResumed) t.same(revisionsOf([again]), missed, `${name} misses nothing, and nothing comes twice`)
      else {
        t.equal(again.code, 410, name)
        t.ok(from < floor && floor <= last - BACKFILL_REVISIONS, `${name}: more was written than is read back`)
      }
    }
    t.comment(`${load.foreign} foreign writes; the quiet watcher resumed ${last - quiet.lastRevision!} revisions back`)
  })
}
