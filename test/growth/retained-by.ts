/** Who keeps objects alive: the shortest ways to them from a root, in two of V8's heap snapshots of one process. */
import { readFileSync } from 'node:fs'

interface Snapshot {
  readonly snapshot: {
    readonly meta: {
      readonly node_fields: readonly string[]
      readonly node_types: readonly [readonly string[], ...unknown[]]
      readonly edge_fields: readonly string[]
      readonly edge_types: readonly [readonly string[], ...unknown[]]
    }
  }
  readonly nodes: readonly number[]
  readonly edges: readonly number[]
  readonly strings: readonly string[]
}

type Field = 'type' | 'name' | 'id' | 'edge_count'

/** Ways printed for each kind of object. */
const MOST_WAYS = 2

/**
 * @param kinds as they were counted: a constructor, or `function` and a name. Others get no line of their own.
 * @returns a line for each way by which more objects of such a kind are reached that only the later snapshot has than
 * only the earlier one. So objects that have replaced others are not more, nor those that are now reached otherwise.
 */
export function retainingPaths(earlier: string, later: string, kinds: readonly string[]): string[] {
  const [before, after] = [new Heap(read(earlier)), new Heap(read(later))]
  return kinds.flatMap((kind) => {
    const known = before.waysTo(kind, after.ids)
    const more = [...after.waysTo(kind, before.ids)].map(([way, times]) => ({
      way,
      times: times - (known.get(way) ?? 0),
    }))
    const most = more.filter(({ times }) => times > 0).sort((one, other) => other.times - one.times)
    return most.slice(0, MOST_WAYS).map(({ way, times }) => `${times} more ${kind}: ${way}`)
  })
}

function read(path: string): Snapshot {
  return JSON.parse(readFileSync(path, 'utf8')) as Snapshot
}

class Heap {
  readonly #snapshot: Snapshot
  readonly #nodeSize: number
  readonly #edgeSize: number
  readonly #at: Readonly<Record<Field, number>>
  readonly #types: readonly string[]
  readonly #edgeTypes: readonly string[]
  /** For each node the edge by which it was first reached from the root, and where that edge began. */
  readonly #reachedBy: Int32Array
  readonly #reachedFrom: Int32Array
  /** The ids of all objects. Snapshots of a process use the same ids until an inspector disconnects. */
  readonly ids: ReadonlySet<number>

  constructor(snapshot: Snapshot) {
    const {
      node_fields: fields,
      edge_fields: edgeFields,
      node_types: types,
      edge_types: edgeTypes,
    } = snapshot.snapshot.meta
    this.#snapshot = snapshot
    this.#nodeSize = fields.length
    this.#edgeSize = edgeFields.length
    const at = (name: string): number => fields.indexOf(name)
    this.#at = { type: at('type'), name: at('name'), id: at('id'), edge_count: at('edge_count') }
    this.#types = types[0]
    this.#edgeTypes = edgeTypes[0]
    const count = snapshot.nodes.length / this.#nodeSize
    this.#reachedBy = new Int32Array(count).fill(-1)
    this.#reachedFrom = new Int32Array(count).fill(-1)
    this.#reach(count)
    this.ids = new Set(Array.from({ length: count }, (_, node) => this.#field(node, 'id')))
  }

  /** The ways to the objects of a kind but the known ones, and how many objects each leads to. */
  waysTo(kind: string, knownIds: ReadonlySet<number>): ReadonlyMap<string, number> {
    const ways = new Map<string, number>()
    for (const node of this.#nodesOf(kind)) {
      if (knownIds.has(this.#field(node, 'id'))) continue
      const way = this.#wayTo(node)
      if (way !== null) ways.set(way, (ways.get(way) ?? 0) + 1)
    }
    return ways
  }

  *#nodesOf(kind: string): Generator<number> {
    const isFunction = kind.startsWith('function ')
    const name = isFunction ? kind.slice('function '.length).replace(/^anonymous$/, '') : kind
    const type = isFunction ? ['closure'] : ['object', 'native', 'array']
    for (let node = 0; node < this.#reachedBy.length; node++) {
      if (type.includes(this.#types[this.#field(node, 'type')]!) && this.#name(node) === name) yield node
    }
  }

  /** @returns null for one that only weak references reach. */
  #wayTo(node: number): string | null {
    const parts: string[] = []
    for (let at = node; at !== 0; at = this.#reachedFrom[at]!) {
      const edge = this.#reachedBy[at]!
      if (edge < 0) return null
      const part = `${this.#edgeName(edge)} ${this.#name(at) || '(anonymous)'}`
      // Chains of promises and lists of any length are one way.
      if (parts.at(-1) !== part) parts.push(part)
    }
    return parts.reverse().join(' → ')
  }

  /** Breadth first, so that the first way to a node is the shortest. */
  #reach(count: number): void {
    const { edges } = this.#snapshot
    const firstEdge = new Int32Array(count + 1)
    for (let node = 0; node < count; node++) firstEdge[node + 1] = firstEdge[node]! + this.#field(node, 'edge_count')
    const queue = new Int32Array(count)
    let length = 1
    const isReached = new Uint8Array(count)
    isReached[0] = 1
    const weak = this.#edgeTypes.indexOf('weak')
    for (let next = 0; next < length; next++) {
      const node = queue[next]!
      for (let edge = firstEdge[node]!; edge < firstEdge[node + 1]!; edge++) {
        const at = edge * this.#edgeSize
        const to = edges[at + 2]! / this.#nodeSize
        if (edges[at] === weak || isReached[to] === 1) continue
        isReached[to] = 1
        this.#reachedBy[to] = at
        this.#reachedFrom[to] = node
        queue[length++] = to
      }
    }
  }

  #edgeName(edge: number): string {
    const { edges, strings } = this.#snapshot
    const type = this.#edgeTypes[edges[edge]!]!
    // Positions differ from object to object; the ways are the same.
    if (type === 'element' || type === 'hidden') return '[…]'
    return `.${strings[edges[edge + 1]!]!.replaceAll(/@\d+/g, '@')}`
  }

  #name(node: number): string {
    return this.#snapshot.strings[this.#field(node, 'name')]!.slice(0, 60)
  }

  #field(node: number, name: Field): number {
    return this.#snapshot.nodes[node * this.#nodeSize + this.#at[name]]!
  }
}
