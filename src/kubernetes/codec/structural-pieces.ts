/**
 * Serializes the structural form of a large schema into pieces of text. The thread that compiles the schema sends
 * them to the event loop, which reassembles them in turns with other work.
 *
 * Each piece is a JSON array of records. A record describes one node and refers by number to the nodes inside it,
 * which come before it. Equal nodes are shared, because most properties are a plain string or number without further
 * rules.
 */
import { type Json, jsonText, parseJsonTree } from './json-tree.js'
import { inTurns } from '../../support/turns.js'
import type { Structural } from './structural-change.js'

/** Names of properties, each followed by the number of its node. */
type Properties = readonly (string | number)[]
type NodeRecord = readonly [
  flags: number,
  additional: number,
  items: number,
  byDefault: string | null,
  ...properties: (string | number)[],
]
/** A node, or more properties of the preceding node. */
type Piece = NodeRecord | Properties

const HEAD_VALUES = 4

/** Members that are bits of `flags`, the first the lowest. */
const FLAGS = ['keepsUnknown', 'isEmbedded', 'isNullable', 'hasDefaults', 'hasLongNumbers', 'hasEmbedded'] as const

const NONE = -1
const NOTHING = -2

/**
 * The most properties in one record, and roughly the most values in one piece, which take a fraction of a millisecond.
 */
const MAX_VALUES = 1_000

/** @returns pieces from which `structuralFrom` rebuilds the schema's structural form. */
export function structuralPieces(root: Structural): readonly string[] {
  const writer = new PieceWriter()
  writer.numberOf(root)
  return writer.finish()
}

class PieceWriter {
  readonly #numbers = new Map<string, number>()
  readonly #pieces: string[] = []
  #records: string[] = []
  #values = 0

  numberOf({ properties, additional, items, ...own }: Structural): number {
    const members: Properties = [...properties].flatMap(([name, inner]) => [name, this.numberOf(inner)])
    const head = [
      flagsOf(own),
      additional === null ? NONE : additional === 'nothing' ? NOTHING : this.numberOf(additional),
      items === null ? NONE : this.numberOf(items),
      own.defaultValue === undefined ? null : jsonText(own.defaultValue),
    ]
    const text = JSON.stringify([head, members])
    const known = this.#numbers.get(text)
    if (known !== undefined) return known
    const number = this.#numbers.size
    this.#numbers.set(text, number)
    this.#add([...head, ...members.slice(0, MAX_VALUES)])
    for (let at = MAX_VALUES; at < members.length; at += MAX_VALUES) this.#add(members.slice(at, at + MAX_VALUES))
    return number
  }

  finish(): readonly string[] {
    this.#endPiece()
    return this.#pieces
  }

  #add(record: readonly (string | number | null)[]): void {
    this.#records.push(JSON.stringify(record))
    this.#values += record.length
    if (this.#values >= MAX_VALUES) this.#endPiece()
  }

  #endPiece(): void {
    if (this.#records.length > 0) this.#pieces.push(`[${this.#records.join(',')}]`)
    this.#records = []
    this.#values = 0
  }
}

function flagsOf(own: Pick<Structural, (typeof FLAGS)[number]>): number {
  return FLAGS.reduce((flags, name, i) => (own[name] ? flags | (1 << i) : flags), 0)
}

interface Node extends Structural {
  readonly properties: Map<string, Structural>
  readonly defaulted: [name: string, value: Json, isNullable: boolean][]
}

/** Rebuilds the structural form in turns with other work. @param pieces from `structuralPieces`. */
export async function structuralFrom(pieces: readonly string[]): Promise<Structural> {
  const nodes: Node[] = []
  for await (const piece of inTurns(pieces)) {
    for (const record of JSON.parse(piece) as readonly Piece[]) addRecord(nodes, record)
  }
  return nodes.at(-1)!
}

function addRecord(nodes: Node[], record: Piece): void {
  if (!isNode(record)) return addProperties(nodes, nodes.at(-1)!, record, 0)
  const [flags, additional, items, byDefault] = record
  const own = FLAGS.map((name, i) => [name, (flags & (1 << i)) !== 0] as const)
  const node: Node = {
    properties: new Map(),
    additional: additional === NONE ? null : additional === NOTHING ? 'nothing' : nodes[additional]!,
    items: items === NONE ? null : nodes[items]!,
    defaultValue: byDefault === null ? undefined : parseJsonTree(Buffer.from(byDefault)).value,
    defaulted: [],
    ...(Object.fromEntries(own) as Pick<Structural, (typeof FLAGS)[number]>),
  }
  nodes.push(node)
  addProperties(nodes, node, record, HEAD_VALUES)
}

function addProperties(nodes: readonly Node[], node: Node, record: Piece, first: number): void {
  for (let at = first; at < record.length; at += 2) {
    const name = record[at] as string
    const inner = nodes[record[at + 1] as number]!
    node.properties.set(name, inner)
    const { defaultValue, isNullable } = inner
    if (defaultValue !== undefined) node.defaulted.push([name, defaultValue, isNullable])
  }
}

function isNode(record: Piece): record is NodeRecord {
  return typeof record[0] === 'number'
}
