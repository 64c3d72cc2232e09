/**
 * Random histories of writes, compactions, cuts, stalls, restored backups, repeated and out-of-order events. Whatever
 * happens, the sink receives etcd's own log without a hole, or a whole state with its reason; and in the end both are
 * equal.
 */
import t, { type Test } from 'tap'
import type { Batch, Key } from '../../../../src/engine/model/event.js'
import type { Revision } from '../../../../src/engine/model/revision.js'
import { randomInteger, seededRandom } from '../../../../src/support/random.js'
import type { WriteOperation } from '../../../../src/engine/upstream/upstream.js'
import { elsewhere, harness, put, remove } from '../harness.js'
import { testSeeds } from '../../../support/test-seeds.js'

const prefix = '/p/' as Key

for (const seed of testSeeds(40)) void t.test(`seed ${seed}`, (t) => history(t, seed))

async function history(t: Test, seed: number): Promise<void> {
  const random = seededRandom(seed)
  const chance = (p: number): boolean => random.next() < p
  const oneOf = <T>(list: readonly T[]): T => list[randomInteger(random, 0, list.length - 1)]!
  const said: Batch[] = []
  const isRestoring = chance(0.5)
  const { feed, sink, etcd, metrics, pass } = harness(
    t,
    {
      onGap: oneOf(['expire', 'coalesce'] as const),
      backfillRevisions: oneOf([0, 3, 50, 10_000]),
      random: seededRandom(seed + 1),
    },
    { trustsProgress: chance(0.5), progressIntervalMs: oneOf([200, 5_000, 1e9]) },
    {
      batches: (batches, say) => {
        said.push(...batches)
        say.onBatches(batches)
        if (chance(0.1)) say.onBatches(batches)
        // Repeat only events of this history, because those of another one are not repetitions.
        if (chance(0.05)) say.onBatches(said.slice(-randomInteger(random, 1, 5)))
      },
    },
  )

  let log: Batch[] = []
  const commit = (operations: WriteOperation[]): void => {
    const batch = etcd.commit(operations)
    const events = batch?.events.filter((event) => keyOf(event).startsWith(prefix)) ?? []
    if (batch !== null && events.length > 0) log.push({ revision: batch.revision, events })
  }
  const expected = (after: Revision, through: Revision): Batch[] =>
    log.filter(({ revision }) => revision > after && revision <= through)

  let restoresSinceList = 0
  // Whenever a state replaces another of the same history, what came before it is checked.
  const replace = sink.replace.bind(sink)
  sink.replace = (revision, reason) => {
    // After a restore hidden by compaction the history may be another one, which is why all watches below end with 410.
    if (restoresSinceList === 0 && (reason === 'gap' || reason === 'coalesce')) {
      t.strictSame(sink.batches, expected(sink.base, sink.revision), `before the ${reason} at ${revision}`)
    }
    restoresSinceList = 0
    return replace(revision, reason)
  }

  const write = (): void => {
    const operations = new Map<Key, WriteOperation>()
    for (let n = randomInteger(random, 1, 3); n > 0; n--) {
      const operation = chance(0.3)
        ? elsewhere
        : chance(0.3)
          ? remove(oneOf('abcdefgh'.split('')))
          : put(oneOf('abcdefgh'.split('')), `${random.next()}`)
      operations.set(operation.key, operation)
    }
    commit([...operations.values()])
  }

  for (let n = randomInteger(random, 0, 30); n > 0; n--) write()
  feed.start()
  let backup = { snapshot: etcd.snapshot(), log: [...log] }
  let restores = 0
  for (let step = 0; step < 150; step++) {
    const dice = random.next()
    if (dice < 0.55) write()
    else if (dice < 0.75) await pass(oneOf([0, 20, 100, 500, 5_000]))
    else if (dice < 0.8) etcd.cutWatches()
    else if (dice < 0.84) etcd.setUnavailable(chance(0.5))
    else if (dice < 0.88) etcd.setStalled(chance(0.4))
    else if (dice < 0.91) etcd.setDelays({ readMs: oneOf([0, 0, 30, 200]), watchMs: oneOf([0, 0, 50]) })
    else if (dice < 0.93) for (let n = randomInteger(random, 1, 1_500); n > 0; n--) commit([elsewhere])
    else if (dice < 0.96) compact(randomInteger(random, etcd.compactRevision, etcd.revision))
    else if (dice < 0.98) backup = { snapshot: etcd.snapshot(), log: [...log] }
    else if (isRestoring) {
      etcd.restore(backup.snapshot, { clusterId: chance(0.7) ? '1' : '2' })
      log = [...backup.log]
      said.length = 0
      restores++
      restoresSinceList++
      if (chance(0.5)) for (let n = randomInteger(random, 1, 60); n > 0; n--) write()
    }
  }

  function compact(revision: number): void {
    if (revision > etcd.compactRevision) etcd.compact(revision as Revision)
  }

  etcd.setUnavailable(false)
  etcd.setStalled(false)
  etcd.setDelays({ readMs: 0, watchMs: 0 })
  await pass(60_000)
  write()
  await pass(1_000)

  t.equal(feed.status.state, 'watching')
  t.equal(sink.calls.filter((call) => call === 'synced').length > 0, true)
  t.strictSame(sink.batches, expected(sink.base, etcd.revision), 'etcd\u2019s log since the last list')
  const { keyValues } = await etcd.read({ prefix })
  t.strictSame(
    [...sink.state.values()].sort((a, b) => (a.key < b.key ? -1 : 1)),
    keyValues,
    'the state is etcd\u2019s',
  )
  if (restores === 0)
    t.equal(metrics.of('relisted history-changed'), 0, 'no other history was seen where there was none')
}

function keyOf(event: Batch['events'][number]): Key {
  return event.type === 'put' ? event.keyValue.key : event.key
}
