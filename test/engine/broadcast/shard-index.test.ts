/** An event finds the shard that owns it, however many there are, and no selector fills the index. */
import t from 'tap'
import { nodesOf, ShardIndex } from '../../../src/engine/broadcast/shard-index.js'
import { hashOf, headOf, type Shard } from '../../../src/engine/model/shard.js'
import { parseShardedSelector } from '../../support/parse-selector.js'
import { rangesText, shardTexts, uidOf } from '../../support/shards.js'

const MAX_NODES = 512

function indexOf(shards: readonly string[]): ShardIndex<number> {
  const index = new ShardIndex<number>()
  for (const [i, text] of shards.entries()) index.add(shardOf(text), i)
  return index
}

function shardOf(text: string): Shard {
  return parseShardedSelector(text).shard!
}

void t.test('a hash finds its shard, and rarely a second one, among any number', async (t) => {
  for (const count of [1, 3, 100, 1_000]) {
    const shards = shardTexts(count)
    const index = indexOf(shards)
    let found = 0
    for (let i = 0; i < 1_000; i++) {
      const hash = hashOf(uidOf(i))
      const owner = Math.floor((hash.high / 2 ** 32) * count)
      const all: number[] = []
      index.find(headOf(hash), all)
      t.ok(all.includes(owner))
      t.equal(new Set(all).size, all.length, 'each once')
      found += all.length
    }
    t.ok(found <= 1_000 * (count === 1_000 ? 1.5 : 1.1), `${found} candidates of ${count} shards`)
    for (const [i, text] of shards.entries()) index.remove(shardOf(text), i)
    t.ok(index.isEmpty, 'nothing stays behind')
  }
})

void t.test('the largest selectors take a bounded place in the index', async (t) => {
  const part = 2n ** 64n / 200n
  const scattered = rangesText(
    Array.from({ length: 200 }, (_, i) => [part * BigInt(i) + 5n, part * BigInt(i) + part / 2n]),
  )
  const wide = rangesText([[1n, 2n ** 64n - 1n]])
  for (const text of [scattered, wide, ...shardTexts(7)]) t.ok(nodesOf(shardOf(text)).length <= MAX_NODES)
  t.equal(nodesOf(shardOf(rangesText([[0n, 2n ** 64n]]))).length, 1)
})
