/**
 * The contract of every upstream, wherever the data is: run against a real etcd and against the embedded one, so that
 * what is tested fast on the second holds for the first.
 *
 * Each test uses its own prefix on one shared upstream: only compaction reaches across prefixes, and no test relies on
 * history that it did not just write.
 */
import type { Test } from 'tap'
import { keyFromBytes, keyFromText, type Key, type KeyEvent } from '../../../src/engine/model/event.js'
import { nextRevision, toRevision, type Revision } from '../../../src/engine/model/revision.js'
import { UpstreamError, type Upstream, type WriteOperation } from '../../../src/engine/upstream/upstream.js'
import { until } from '../../support/until.js'
import { describeBatches, recordWatch } from './watch-recorder.js'

export interface ContractSubject {
  readonly upstream: Upstream
  /** Compacts the history below `revision`; returns when reads there fail. */
  readonly compact: (revision: Revision) => Promise<void>
  /** Advances the time of leases, where the upstream's clock is virtual. Default: real time passes. */
  readonly elapse?: (milliseconds: number) => Promise<void> | void
}

/** A fresh subject; it registers its own teardown on `t`. */
export type ContractFactory = (t: Test) => Promise<ContractSubject>

export async function upstreamContract(t: Test, name: string, factory: ContractFactory): Promise<void> {
  await t.test(`${name} keeps the upstream contract`, async (t) => {
    const subject = await factory(t)
    await readContract(t, subject)
    await watchContract(t, subject)
    await writeContract(t, subject)
    await compactionContract(t, subject)
    await closeContract(t, factory)
  })
}

async function readContract(t: Test, { upstream }: ContractSubject): Promise<void> {
  await t.test('a read in pages at one revision sees one state during writes', async (t) => {
    const prefix = freshPrefix()
    for (let i = 0; i < 7; i++) await put(upstream, under(prefix, `k${i}`), `old${i}`)
    const first = await upstream.read({ prefix, limit: 3 })
    t.equal(first.keyValues.length, 3)
    t.equal(first.more, true)
    t.equal(first.count, 7)

    await put(upstream, under(prefix, 'k0a'), 'new')
    await put(upstream, under(prefix, 'k5'), 'new')
    const removed = await remove(upstream, under(prefix, 'k6'))

    const seen = [...first.keyValues]
    let page = first
    while (page.more) {
      const startKey = `${page.keyValues.at(-1)!.key}\0` as Key
      const remaining = 7 - seen.length
      page = await upstream.read({ prefix, startKey, revision: first.revision, limit: 3 })
      t.equal(page.revision, first.revision)
      t.equal(page.count, remaining, 'count is what remains from the start key on')
      t.ok(page.currentRevision >= removed, 'the answer names the current revision as well as the requested one')
      seen.push(...page.keyValues)
    }
    t.same(
      seen.map((keyValue) => `${keyValue.key.slice(prefix.length)}=${keyValue.value.toString()}`),
      ['k0=old0', 'k1=old1', 'k2=old2', 'k3=old3', 'k4=old4', 'k5=old5', 'k6=old6'],
    )
  })

  await t.test('limits at the boundary: one less, exactly, one more', async (t) => {
    const prefix = freshPrefix()
    for (let i = 0; i < 3; i++) await put(upstream, under(prefix, `k${i}`), '')
    for (const [limit, length, more] of [
      [1, 1, true],
      [2, 2, true],
      [3, 3, false],
      [4, 3, false],
    ] as const) {
      const page = await upstream.read({ prefix, limit })
      t.match({ length: page.keyValues.length, more: page.more, count: page.count }, { length, more, count: 3 })
    }
  })

  await t.test('an empty prefix is an empty page with a revision', async (t) => {
    const page = await upstream.read({ prefix: freshPrefix() })
    t.same(
      { ...page, revision: 0, currentRevision: 0 },
      { revision: 0, currentRevision: 0, keyValues: [], more: false, count: 0 },
    )
    t.ok(page.revision > 0)
    t.ok(page.currentRevision >= page.revision)
  })

  await t.test('keys are sorted by their bytes', async (t) => {
    const prefix = freshPrefix()
    const names = [[0x61], [0xff], [0x00], [0x7f], [0xc3, 0xa9], [0x80], [0x61, 0x00], [0x61, 0x2f], [0x41]]
    for (const bytes of names) await put(upstream, `${prefix}${keyFromBytes(Buffer.from(bytes))}` as Key, 'v')
    const page = await upstream.read({ prefix })
    const expected = names.map((bytes) => Buffer.from(bytes)).sort((a, b) => a.compare(b))
    t.same(
      page.keyValues.map(({ key }) => Buffer.from(key.slice(prefix.length), 'latin1').toString('hex')),
      expected.map((bytes) => bytes.toString('hex')),
    )
  })

  await t.test('a prefix contains no key before it or beside it', async (t) => {
    const root = freshPrefix()
    for (const name of ['a', 'a/', 'a/1', 'a/2/3', 'a0', 'ab', 'ab/1', 'A/1'])
      await put(upstream, under(root, name), name)
    const page = await upstream.read({ prefix: under(root, 'a/') })
    t.same(
      page.keyValues.map(({ value }) => value.toString()),
      ['a/', 'a/1', 'a/2/3'],
    )
    const last = await upstream.read({ prefix: keyFromBytes(Buffer.from([0xff, 0xff])) })
    t.equal(last.count, 0, 'a prefix that has no end among the keys reads to the end')
    const all = await upstream.read({ prefix: '' as Key, limit: 1 })
    t.equal(all.keyValues.length, 1, 'the empty prefix is everything')
    t.ok(all.count >= 8)
  })

  await t.test('keysOnly omits only the values', async (t) => {
    const prefix = freshPrefix()
    await put(upstream, under(prefix, 'k'), 'value')
    const [full] = (await upstream.read({ prefix })).keyValues
    const [bare] = (await upstream.read({ prefix, keysOnly: true })).keyValues
    t.equal(full?.value.toString(), 'value')
    t.equal(bare?.value.length, 0)
    t.same({ ...bare, value: null }, { ...full, value: null })
  })

  await t.test('a key carries the revisions and the count of its writes', async (t) => {
    const key = under(freshPrefix(), 'k')
    const created = await put(upstream, key, '1')
    await put(upstream, key, '2')
    const modified = await put(upstream, key, '3')
    t.match(await upstream.readKey(key), { createRevision: created, modRevision: modified, version: 3, leaseId: '0' })
    t.match(await upstream.readKey(key, { revision: created }), { modRevision: created, version: 1 })
    const removed = await remove(upstream, key)
    t.equal(await upstream.readKey(key), null)
    t.match(await upstream.readKey(key, { revision: modified }), { version: 3 }, 'history outlives the key')
    t.equal(await upstream.readKey(key, { revision: removed }), null)
    const again = await put(upstream, key, '4')
    t.match(await upstream.readKey(key), { createRevision: again, modRevision: again, version: 1 })
    t.equal(await upstream.readKey(`${key}2` as Key), null)
  })

  await t.test('a revision not yet reached cannot be read', async (t) => {
    const prefix = freshPrefix()
    const ahead = toRevision((await upstream.currentRevision()) + 1_000)
    await t.rejects(upstream.read({ prefix, revision: ahead }), { name: 'UpstreamError', code: 'future-revision' })
    await t.rejects(upstream.readKey(prefix, { revision: ahead }), { name: 'UpstreamError', code: 'future-revision' })
  })

  await t.test('currentRevision and status are never older than a completed write', async (t) => {
    const prefix = freshPrefix()
    for (let i = 0; i < 5; i++) {
      const revision = await put(upstream, under(prefix, 'k'), String(i))
      t.ok((await upstream.currentRevision()) >= revision)
    }
    const status = await upstream.status()
    t.match(status.clusterId, /^[1-9]\d*$/)
    t.equal((await upstream.status()).clusterId, status.clusterId)
  })

  await t.test('an aborted read rejects', async (t) => {
    await t.rejects(upstream.read({ prefix: freshPrefix(), signal: AbortSignal.abort() }), { name: 'UpstreamError' })
    await t.rejects(upstream.currentRevision(AbortSignal.abort()), { name: 'UpstreamError' })
  })
}

async function watchContract(t: Test, { upstream }: ContractSubject): Promise<void> {
  await t.test('a watch from the past delivers everything since, then new events', async (t) => {
    const prefix = freshPrefix()
    await put(upstream, under(prefix, 'before'), '0')
    const start = await put(upstream, under(prefix, 'a'), '1')
    await put(upstream, under(prefix, 'b'), '2')
    const recorder = recordWatch(upstream, prefix, start)
    await recorder.until('open', (r) => r.isOpen)
    await remove(upstream, under(prefix, 'a'))
    const last = await put(upstream, under(prefix, 'a'), '3')
    await recorder.untilRevision(last)
    recorder.watch.close()
    t.same(describeBatches(recorder.batches), [`+${prefix}a=1`, `+${prefix}b=2`, `-${prefix}a`, `+${prefix}a=3`])
    t.equal(recorder.brokenRule(), null)
    const [first, , , recreated] = recorder.batches.map((batch) => batch.events[0])
    t.match(first, { keyValue: { createRevision: start, modRevision: start, version: 1 } })
    t.match(
      recreated,
      { keyValue: { createRevision: last, version: 1 } },
      'a key put again after a delete is a new one',
    )
  })

  await t.test('a watch from a future revision delivers no older events', async (t) => {
    const prefix = freshPrefix()
    const now = await put(upstream, under(prefix, 'k'), '0')
    const recorder = recordWatch(upstream, prefix, toRevision(now + 3))
    await recorder.until('open', (r) => r.isOpen)
    let last = now
    for (let i = 1; i <= 5; i++) last = await put(upstream, under(prefix, 'k'), String(i))
    await recorder.untilRevision(last)
    recorder.watch.close()
    t.same(describeBatches(recorder.batches), [`+${prefix}k=3`, `+${prefix}k=4`, `+${prefix}k=5`])
    t.equal(recorder.brokenRule(), null)
  })

  await t.test('several keys of one revision arrive as one batch, in the order they were written', async (t) => {
    const prefix = freshPrefix()
    const before = await put(upstream, under(prefix, 'gone'), 'x')
    const live = recordWatch(upstream, prefix, nextRevision(before))
    await live.until('open', (r) => r.isOpen)
    const operations: WriteOperation[] = Array.from({ length: 99 }, (_, i) => ({
      type: 'put',
      key: under(prefix, `k${(i * 37) % 99}`),
      value: Buffer.from(String(i)),
    }))
    operations.splice(50, 0, { type: 'delete', key: under(prefix, 'gone') })
    const result = await upstream.write([], operations)
    await live.untilRevision(result.revision)
    const replayed = recordWatch(upstream, prefix, result.revision)
    await replayed.untilRevision(result.revision)
    for (const recorder of [live, replayed]) {
      recorder.watch.close()
      t.equal(recorder.batches.length, 1)
      t.equal(recorder.batches[0]?.revision, result.revision)
      t.same(
        recorder.batches[0]?.events.map(keyOf),
        operations.map((operation) => operation.key),
      )
      t.equal(recorder.brokenRule(), null)
    }
  })

  await t.test('a watch gets no events from beside its prefix', async (t) => {
    const root = freshPrefix()
    const recorder = recordWatch(upstream, under(root, 'a/'), nextRevision(await upstream.currentRevision()))
    for (const name of ['a', 'ab', 'ab/1', 'a0', 'a.']) await put(upstream, under(root, name), '')
    const both = await upstream.write(
      [],
      [
        { type: 'put', key: under(root, 'ab/2'), value: Buffer.alloc(0) },
        { type: 'put', key: under(root, 'a/1'), value: Buffer.alloc(0) },
      ],
    )
    await recorder.untilRevision(both.revision)
    recorder.watch.close()
    t.same(describeBatches(recorder.batches), [`+${root}a/1=`], 'not even from a revision that it shares')
  })

  await t.test('a watch that is far behind catches up, complete and in order, during writes', async (t) => {
    const prefix = freshPrefix()
    const start = nextRevision(await upstream.currentRevision())
    const total = 2_400
    let written = 0
    let last = 0
    const write = async (): Promise<void> => {
      while (written < total) {
        const i = written++
        // Awaited first: `last` read earlier would be before another writer's revisions.
        const revision = await put(upstream, under(prefix, `k${i % 50}`), String(i))
        last = Math.max(last, revision)
        if (i === 1_800) started()
      }
    }
    let started = (): void => {}
    const deep = new Promise<void>((resolve) => {
      started = resolve
    })
    const writers = Promise.all(Array.from({ length: 16 }, write))
    await deep
    const recorder = recordWatch(upstream, prefix, start)
    await writers
    await recorder.untilRevision(last as Revision)
    recorder.watch.close()
    t.equal(recorder.batches.length, total)
    t.equal(recorder.brokenRule(), null)
  })

  await t.test('keys and values are bytes', async (t) => {
    const prefix = freshPrefix()
    const every = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
    const key = `${prefix}${keyFromBytes(every)}` as Key
    const recorder = recordWatch(upstream, prefix, nextRevision(await upstream.currentRevision()))
    const result = await upstream.write([], [{ type: 'put', key, value: every }])
    await recorder.untilRevision(result.revision)
    recorder.watch.close()
    const event = recorder.batches[0]?.events[0]
    if (event?.type !== 'put') throw new Error('the event is not a put')
    t.equal(event.keyValue.key, key)
    t.ok(event.keyValue.value.equals(every))
    const read = await upstream.readKey(key)
    t.equal(read?.key, key)
    t.ok(read?.value.equals(every))
    t.equal((await upstream.read({ prefix })).keyValues[0]?.key, key)
  })

  await t.test('a value of 1.4 MB is written, read and watched', async (t) => {
    const prefix = freshPrefix()
    const value = Buffer.alloc(1_400_000, 'v')
    const recorder = recordWatch(upstream, prefix, nextRevision(await upstream.currentRevision()))
    const result = await upstream.write([], [{ type: 'put', key: under(prefix, 'big'), value }])
    await recorder.untilRevision(result.revision)
    recorder.watch.close()
    const event = recorder.batches[0]?.events[0]
    t.ok(event?.type === 'put' && event.keyValue.value.equals(value))
    t.ok((await upstream.readKey(under(prefix, 'big')))?.value.equals(value))
    await remove(upstream, under(prefix, 'big'))
  })

  await t.test(
    'progress on demand arrives where it is trusted, never before the events it covers, and not at all elsewhere',
    async (t) => {
      const prefix = freshPrefix()
      const { trustsProgress } = await upstream.status()
      const recorder = recordWatch(upstream, prefix, nextRevision(await upstream.currentRevision()))
      await recorder.until('open', (r) => r.isOpen)
      await put(upstream, under(prefix, 'k'), '1')
      const elsewhere = await put(upstream, freshPrefix(), 'other')
      recorder.watch.requestProgress()
      if (trustsProgress) {
        const asking = setInterval(() => recorder.watch.requestProgress(), 100)
        await recorder
          .until('progress', (r) => (r.progress.at(-1) ?? 0) >= elsewhere)
          .finally(() => clearInterval(asking))
      }
      const last = await put(upstream, under(prefix, 'k'), '2')
      await recorder.untilRevision(last)
      recorder.watch.close()
      if (!trustsProgress) t.same(recorder.progress, [])
      t.equal(recorder.brokenRule(), null)
      t.equal(recorder.batches.length, 2)
    },
  )

  await t.test('no callback runs after close', async (t) => {
    const prefix = freshPrefix()
    const start = nextRevision(await upstream.currentRevision())
    const closed = recordWatch(upstream, prefix, start)
    const atOnce = recordWatch(upstream, prefix, start)
    atOnce.watch.close()
    const fingerprint = recordWatch(upstream, prefix, start)
    const first = await put(upstream, under(prefix, 'k'), '1')
    await Promise.all([closed.untilRevision(first), fingerprint.untilRevision(first)])
    closed.watch.close()
    closed.watch.close()
    closed.watch.requestProgress()
    const entries = closed.log.length
    const second = await put(upstream, under(prefix, 'k'), '2')
    await fingerprint.untilRevision(second)
    fingerprint.watch.close()
    t.equal(closed.log.length, entries)
    t.equal(atOnce.log.length, 0)
  })

  await t.test('a watch closed by its own handler stays silent', async (t) => {
    const prefix = freshPrefix()
    const start = nextRevision(await upstream.currentRevision())
    let last = await put(upstream, under(prefix, 'k'), '0')
    for (let i = 1; i < 10; i++) last = await put(upstream, under(prefix, 'k'), String(i))
    let calls = 0
    const watch = upstream.watch(
      { prefix, startRevision: start },
      {
        onOpen() {},
        onBatches() {
          calls++
          watch.close()
        },
        onProgress: () => calls++,
        onEnd: () => calls++,
      },
    )
    const fingerprint = recordWatch(upstream, prefix, start)
    await fingerprint.untilRevision(last)
    // etcd may serve one of two new watches later than the other.
    await until(() => calls > 0, 'it has heard something')
    await fingerprint.untilRevision(await put(upstream, under(prefix, 'k'), 'after'))
    fingerprint.watch.close()
    t.equal(calls, 1)
  })
}

async function writeContract(t: Test, { upstream, elapse }: ContractSubject): Promise<void> {
  await t.test('a write is one revision, all or nothing', async (t) => {
    const prefix = freshPrefix()
    const before = await upstream.currentRevision()
    const result = await upstream.write(
      [{ key: under(prefix, 'a'), modRevision: toRevision(0) }],
      [
        { type: 'put', key: under(prefix, 'a'), value: Buffer.from('1') },
        { type: 'put', key: under(prefix, 'b'), value: Buffer.from('2') },
      ],
    )
    t.equal(result.kind, 'written')
    t.ok(result.revision > before)
    const page = await upstream.read({ prefix })
    t.same(
      page.keyValues.map(({ modRevision }) => modRevision),
      [result.revision, result.revision],
    )

    const conflict = await upstream.write(
      [
        { key: under(prefix, 'missing'), modRevision: toRevision(0) },
        { key: under(prefix, 'a'), modRevision: toRevision(result.revision - 1) },
        { key: under(prefix, 'b'), modRevision: result.revision },
      ],
      [
        { type: 'put', key: under(prefix, 'c'), value: Buffer.from('3') },
        { type: 'delete', key: under(prefix, 'b') },
      ],
    )
    t.match(conflict, {
      kind: 'conflict',
      current: [null, { key: under(prefix, 'a'), modRevision: result.revision }, { key: under(prefix, 'b') }],
    })
    t.equal((await upstream.read({ prefix })).count, 2, 'a conflict writes nothing')
    t.equal((await upstream.read({ prefix })).keyValues[1]?.value.toString(), '2')
  })

  await t.test('exactly one of several writers that compare the same revision wins', async (t) => {
    const key = under(freshPrefix(), 'k')
    const revision = await put(upstream, key, 'start')
    const results = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        upstream.write([{ key, modRevision: revision }], [{ type: 'put', key, value: Buffer.from(`w${i}`) }]),
      ),
    )
    const winners = results.filter(({ kind }) => kind === 'written')
    t.equal(winners.length, 1)
    for (const result of results) {
      if (result.kind === 'conflict') t.equal(result.current[0]?.modRevision, winners[0]?.revision)
    }
    const gone = await upstream.write([{ key, modRevision: winners[0]!.revision }], [{ type: 'delete', key }])
    t.equal(gone.kind, 'written')
    const late = await upstream.write([{ key, modRevision: winners[0]!.revision }], [{ type: 'delete', key }])
    t.match(late, { kind: 'conflict', current: [null] })
  })

  await t.test('deleting a missing key makes no revision and no event', async (t) => {
    const prefix = freshPrefix()
    const start = nextRevision(await upstream.currentRevision())
    const nothing = await upstream.write([], [{ type: 'delete', key: under(prefix, 'never') }])
    t.equal(nothing.kind, 'written')
    t.equal(nothing.revision, start - 1)
    const recorder = recordWatch(upstream, prefix, start)
    await recorder.untilRevision(await put(upstream, under(prefix, 'k'), ''))
    recorder.watch.close()
    t.same(describeBatches(recorder.batches), [`+${prefix}k=`])
  })

  await t.test('a lease is dropped when no key uses it, and not before', async (t) => {
    const leaseId = await upstream.grantLease(600)
    const key = under(freshPrefix(), 'a')
    const value = Buffer.from('v')
    await upstream.write([], [{ type: 'put', key, value, leaseId }])
    await upstream.dropLease(leaseId)
    t.equal((await upstream.readKey(key))?.leaseId, leaseId, 'the key is still there')
    await upstream.write([], [{ type: 'delete', key }])
    await upstream.dropLease(leaseId)
    await t.rejects(upstream.write([], [{ type: 'put', key, value, leaseId }]), {
      code: 'lease-not-found',
      message: /lease not found/,
    })
    await upstream.dropLease(leaseId)
  })

  await t.test('a put keeps its lease, and when the lease expires its keys are deleted', async (t) => {
    const prefix = freshPrefix()
    const recorder = recordWatch(upstream, prefix, nextRevision(await upstream.currentRevision()))
    await recorder.until('open', ({ isOpen }) => isOpen)
    let leaseId = ''
    await until(async () => {
      leaseId = await upstream.grantLease(1)
      const both = ['a', 'b'].map(
        (name) => ({ type: 'put', key: under(prefix, name), value: Buffer.from('v') }) as const,
      )
      await upstream.write(
        [],
        both.map((one) => ({ ...one, leaseId })),
      )
      return true
    }, 'the keys are written before their lease expires')
    t.match(leaseId, /^[1-9]\d*$/)
    const kept = await put(upstream, under(prefix, 'c'), 'stays')
    await recorder.untilRevision(kept)
    await elapse?.(5_000)
    const deleted = (): string[] =>
      recorder.batches
        .flatMap((batch) => batch.events)
        .filter((event) => event.type === 'delete')
        .map(keyOf)
        .sort()
    await recorder.until('both deletes', () => deleted().length >= 2)
    recorder.watch.close()
    t.same(deleted(), [under(prefix, 'a'), under(prefix, 'b')])
    const event = recorder.batches[0]?.events[0]
    t.equal(event?.type === 'put' && event.keyValue.leaseId, leaseId)
    t.equal((await upstream.read({ prefix })).count, 1)
    t.equal(recorder.brokenRule(), null)
  })
}

async function compactionContract(t: Test, { upstream, compact }: ContractSubject): Promise<void> {
  await t.test('compacted revisions cannot be read, but later ones can', async (t) => {
    const prefix = freshPrefix()
    const revisions: Revision[] = []
    for (let i = 0; i < 6; i++) revisions.push(await put(upstream, under(prefix, 'k'), String(i)))
    const compacted = revisions[3]!
    await compact(compacted)
    await t.rejects(upstream.read({ prefix, revision: revisions[2]! }), { name: 'UpstreamError', code: 'compacted' })
    await t.rejects(upstream.readKey(under(prefix, 'k'), { revision: revisions[2]! }), { code: 'compacted' })
    for (const [at, expected] of [
      [3, '3'],
      [4, '4'],
      [5, '5'],
    ] as const) {
      const page = await upstream.read({ prefix, revision: revisions[at]! })
      t.equal(page.keyValues[0]?.value.toString(), expected)
    }
  })

  await t.test('a compaction between two pages of one read is reported', async (t) => {
    const prefix = freshPrefix()
    for (const name of ['a', 'b', 'c']) await put(upstream, under(prefix, name), '')
    const first = await upstream.read({ prefix, limit: 1 })
    await compact(await put(upstream, under(prefix, 'd'), ''))
    const rest = upstream.read({ prefix, startKey: under(prefix, 'b'), revision: first.revision, limit: 1 })
    await t.rejects(rest, { name: 'UpstreamError', code: 'compacted' })
  })

  await t.test('a watch from a compacted revision ends with the first readable revision', async (t) => {
    const prefix = freshPrefix()
    const start = await put(upstream, under(prefix, 'k'), '1')
    await put(upstream, under(prefix, 'k'), '2')
    const compacted = await put(upstream, under(prefix, 'k'), '3')
    await compact(compacted)
    const recorder = recordWatch(upstream, prefix, start)
    t.same(await recorder.untilEnd(), { kind: 'compacted', compactRevision: compacted })
    t.equal(recorder.batches.length, 0)
    const after = recordWatch(upstream, prefix, nextRevision(compacted))
    const last = await put(upstream, under(prefix, 'k'), '4')
    await after.untilRevision(last)
    after.watch.close()
    t.same(describeBatches(after.batches), [`+${prefix}k=4`], 'the first revision after it can be watched')
  })

  await t.test('a compaction does not affect a watch that has caught up', async (t) => {
    const prefix = freshPrefix()
    const recorder = recordWatch(upstream, prefix, nextRevision(await upstream.currentRevision()))
    const first = await put(upstream, under(prefix, 'k'), '1')
    await recorder.untilRevision(first)
    await compact(await put(upstream, under(prefix, 'k'), '2'))
    await recorder.untilRevision(await put(upstream, under(prefix, 'k'), '3'))
    recorder.watch.close()
    t.same(describeBatches(recorder.batches), [`+${prefix}k=1`, `+${prefix}k=2`, `+${prefix}k=3`])
  })
}

async function closeContract(t: Test, factory: ContractFactory): Promise<void> {
  await t.test('a closed upstream calls no handler and answers no request', async (t) => {
    const { upstream } = await factory(t)
    const prefix = freshPrefix()
    const recorder = recordWatch(upstream, prefix, nextRevision(await upstream.currentRevision()))
    await recorder.untilRevision(await put(upstream, under(prefix, 'k'), '1'))
    const entries = recorder.log.length
    await upstream.close()
    await t.rejects(upstream.read({ prefix }), UpstreamError)
    await t.rejects(upstream.currentRevision(), { name: 'UpstreamError', code: 'unavailable' })
    t.equal(recorder.log.length, entries)
    await upstream.close()
  })
}

let prefixes = 0

/** A prefix that is unused in this process. */
function freshPrefix(): Key {
  return keyFromText(`/contract/${process.pid}-${prefixes++}/`)
}

function under(prefix: Key, name: string): Key {
  return `${prefix}${name}` as Key
}

function keyOf(event: KeyEvent): Key {
  return event.type === 'put' ? event.keyValue.key : event.key
}

async function put(upstream: Upstream, key: Key, value: string): Promise<Revision> {
  return (await upstream.write([], [{ type: 'put', key, value: Buffer.from(value) }])).revision
}

async function remove(upstream: Upstream, key: Key): Promise<Revision> {
  return (await upstream.write([], [{ type: 'delete', key }])).revision
}
