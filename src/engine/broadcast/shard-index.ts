/**
 * Finds the shards that may contain a hash, in a time that does not depend on the number of shards.
 *
 * The hash space is a binary tree of cells. A shard is entered at the fewest nodes that together cover it, so the nodes
 * on the path from a hash's cell to the root name every shard that may contain the hash. A shard that ends inside a
 * cell is also found for hashes in the rest of that cell, so its matcher compares the hash itself. A sorted list of all
 * boundaries was rejected: with overlapping shards it grows with the square of their number.
 */
import { cellOfHead, cellsOf, type Shard } from '../model/shard.js'
import { getOrMake } from '../../support/memo.js'
import { MAX_SHARD_NODES } from '../model/limits.js'

/** This makes 4,096 cells. With a hundred shards, two shards are tried for one object in forty. */
const BITS = 12

export class ShardIndex<M> {
  /** By node: 1 is the root, and the children of n are 2n and 2n + 1. */
  readonly #nodes = new Map<number, Set<M>>()

  get isEmpty(): boolean {
    return this.#nodes.size === 0
  }

  add(shard: Shard, matcher: M): void {
    for (const node of nodesOf(shard)) getOrMake(this.#nodes, node, () => new Set<M>()).add(matcher)
  }

  remove(shard: Shard, matcher: M): void {
    for (const node of nodesOf(shard)) {
      const matchers = this.#nodes.get(node)
      matchers?.delete(matcher)
      if (matchers?.size === 0) this.#nodes.delete(node)
    }
  }

  /** Adds the matchers of all shards that may contain the hash, each once. @param head the first bits of the hash. */
  find(head: number, found: M[]): void {
    for (let node = (1 << BITS) + cellOfHead(head, BITS); node > 0; node >>>= 1) {
      const matchers = this.#nodes.get(node)
      if (matchers !== undefined) for (const matcher of matchers) found.push(matcher)
    }
  }
}

/** Returns the nodes at which a shard is entered. No node is below another. */
export function nodesOf(shard: Shard): readonly number[] {
  for (let bits = BITS; ; bits--) {
    const nodes = cellsOf(shard, bits).flatMap(({ first, last }) => nodesAbove((1 << bits) + first, (1 << bits) + last))
    if (nodes.length <= MAX_SHARD_NODES) return nodes
  }
}

/** Returns the fewest nodes that cover a row of leaves. */
function nodesAbove(first: number, last: number): number[] {
  const nodes: number[] = []
  let [low, high] = [first, last]
  while (low <= high) {
    if (low % 2 === 1) nodes.push(low++)
    if (high % 2 === 0) nodes.push(high--)
    low >>>= 1
    high >>>= 1
  }
  return nodes
}
