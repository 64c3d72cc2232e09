import t from 'tap'

import {
  cellOfHead,
  cellsOf,
  containHash,
  containHead,
  type Hash,
  hashOf,
  headOf,
  joined,
  type Shard,
} from '../../../src/engine/model/shard.js'
import { seededRandom } from '../../../src/support/random.js'

const bigintOf = ({ high, low }: Hash): bigint => (BigInt(high) << 32n) + BigInt(low)
const hashFrom = (value: bigint): Hash => ({ high: Number(value >> 32n), low: Number(value & 0xffffffffn) })

/** FNV-1a as its authors describe it. */
function described(text: string): bigint {
  let hash = 0xcbf29ce484222325n
  for (const byte of Buffer.from(text)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n)
  return hash
}

void t.test('the hash is 64-bit FNV-1a of the UTF-8 text', async (t) => {
  // These values are from the authors' test suite.
  t.equal(bigintOf(hashOf('')), 0xcbf29ce484222325n)
  t.equal(bigintOf(hashOf('a')), 0xaf63dc4c8601ec8cn)
  t.equal(bigintOf(hashOf('foobar')), 0x85944171f73967e8n)
  const texts = ['default', 'kube-system', 'aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee', 'für 🦔', '\u0000\uffff']
  for (let i = 0; i < 500; i++) texts.push(`00000000-0000-4000-8000-${String(i).padStart(12, '0')}`)
  for (const text of texts) t.equal(bigintOf(hashOf(text)), described(text), text)
})

void t.test('ranges contain their start and not their end, whether decided by a few bits or by all', async (t) => {
  const random = seededRandom(5)
  const some = (): bigint => BigInt(Math.floor(random.next() * 2 ** 32)) * 2n ** BigInt(Math.floor(random.next() * 33))
  const values = [0n, 1n, 2n ** 33n - 1n, 2n ** 33n, 2n ** 33n + 1n, 2n ** 63n, 2n ** 64n - 1n]
  for (let i = 0; i < 300; i++) {
    const bounds = [some(), some(), some(), some(), 2n ** 64n].toSorted((a, b) => (a < b ? -1 : 1))
    const pairs = [bounds.slice(0, 2), bounds.slice(2, 4), bounds.slice(3, 5)].filter(([a, b]) => a! < b!)
    const shard: Shard = {
      field: 'identity',
      ranges: joined(pairs.toReversed().map(([start, end]) => ({ start: hashFrom(start!), end: hashFrom(end!) }))),
    }
    for (const value of [...values, some(), ...bounds, ...bounds.map((bound) => bound - 1n)]) {
      if (value < 0n || value >= 2n ** 64n) continue
      const expected = pairs.some(([start, end]) => start! <= value && value < end!)
      const hash = hashFrom(value)
      t.equal(containHash(shard, hash), expected)
      t.ok([expected, null].includes(containHead(shard, headOf(hash))), 'the first bits never decide wrongly')
      const cell = cellOfHead(headOf(hash), 12)
      const isInCells = cellsOf(shard, 12).some(({ first, last }) => first <= cell && cell <= last)
      t.ok(isInCells || !expected, 'every hash is in a cell of its range')
    }
  }
})

void t.test('ranges that overlap or touch are one', async (t) => {
  const range = (start: number, end: number) => ({ start: { high: start, low: 0 }, end: { high: end, low: 0 } })
  t.strictSame(joined([range(5, 9), range(1, 3), range(3, 4), range(6, 7), range(2, 3)]), [range(1, 4), range(5, 9)])
  const [start, end] = [
    { high: 1, low: 2 },
    { high: 1, low: 3 },
  ]
  const shard = { field: 'identity', ranges: [{ start, end }] } as const
  t.same([containHash(shard, start), containHash(shard, end)], [true, false], 'the low halves count')
})
