/**
 * The few scalars of an object that selectors in use ask for, picked out of its JSON text in one walk.
 *
 * Values nobody asked for are stepped over, none of them is parsed, and numbers stay as they are written: `JSON.parse`
 * would build the whole tree and round integers above 2^53. Keys are compared with a compiled plan and never become
 * property names, so `__proto__` is a key like any other. Of duplicate keys the last counts, whole subtrees included.
 */
import { labelKeyOfPath, labelPath, parseFieldPath } from './field-path.js'
import { decodeString, endOfString, endOfValue, skipSpace, stringEquals } from './json-walk.js'

/** One key on the way to something wanted. */
interface PlanNode {
  readonly key: string
  readonly keyBytes: Buffer
  readonly children: PlanNode[]
  /** Set when there are too many children to compare one by one. */
  byKey: Map<string, PlanNode> | null
  /** Index into the values, -1 for none. */
  fieldSlot: number
  labelSlot: number
  /** Every slot at or under this node. */
  readonly slots: number[]
  holdsLabels: boolean
  /** The last walk that met this key; a second time in one walk is a duplicate. */
  seenInWalk: number
}

/** Above this a map is faster than comparing bytes with each. */
const MAX_COMPARED_CHILDREN = 8

export interface FactPlan {
  /** Without repeats, in the order of `Facts.values`. */
  readonly paths: readonly string[]
  /** @internal */
  readonly slotOf: ReadonlyMap<string, number>
  /** @internal */
  readonly root: PlanNode
  readonly allLabels: boolean
}

/** What the caller knows from the key: it beats what the object says about itself. */
export interface KnownName {
  readonly namespace: string
  readonly name: string
}

/**
 * Compile once, extract many times.
 *
 * @param paths field paths (see field-path.ts) and label paths (`metadata.labels[KEY]`), as `Selector.paths` gives them.
 * @param options `allLabels`: gather every label, for subjects whose selectors are not known yet.
 * @throws RangeError when a path is malformed: selectors have been parsed before.
 */
export function planFacts(paths: Iterable<string>, options: { allLabels?: boolean } = {}): FactPlan {
  const unique = [...new Set(paths)]
  const root = newNode('')
  const slotOf = new Map<string, number>()
  for (const [slot, path] of unique.entries()) {
    slotOf.set(path, slot)
    const label = labelKeyOfPath(path)
    const segments = label === null ? parseFieldPath(path) : ['metadata', 'labels', label]
    if (segments === null) throw new RangeError(`not a field path: ${JSON.stringify(path)}`)
    let node = root
    for (const segment of segments) {
      node = childOf(node, segment)
      node.slots.push(slot)
    }
    if (label === null) node.fieldSlot = slot
    else node.labelSlot = slot
  }
  const allLabels = options.allLabels === true
  if (allLabels) childOf(childOf(root, 'metadata'), 'labels').holdsLabels = true
  indexChildren(root)
  return { paths: unique, slotOf, root, allLabels }
}

function newNode(key: string): PlanNode {
  return {
    key,
    keyBytes: Buffer.from(key),
    children: [],
    byKey: null,
    fieldSlot: -1,
    labelSlot: -1,
    slots: [],
    holdsLabels: false,
    seenInWalk: 0,
  }
}

function childOf(node: PlanNode, key: string): PlanNode {
  const found = node.children.find((child) => child.key === key)
  if (found !== undefined) return found
  const child = newNode(key)
  node.children.push(child)
  return child
}

function indexChildren(node: PlanNode): void {
  if (node.children.length > MAX_COMPARED_CHILDREN) {
    node.byKey = new Map(node.children.map((child) => [child.key, child]))
  }
  node.children.forEach(indexChildren)
}

/**
 * A selector's subject. It answers for the plan's paths (and, with `allLabels`, for every label); asking for another
 * is an error, because an answer would be a guess.
 */
export class Facts {
  constructor(
    readonly plan: FactPlan,
    /** By slot of the plan; undefined: a label that is not there, or a field that reads as ''. */
    readonly values: readonly (string | undefined)[],
    readonly labels: ReadonlyMap<string, string> | null,
    private readonly known: KnownName | null,
  ) {}

  has(path: string): boolean {
    return this.plan.slotOf.has(path) || (this.known !== null && isNamePath(path))
  }

  /** undefined when the object has no such label, or one that is not a string. @throws RangeError when not in the plan. */
  label(key: string): string | undefined {
    if (this.labels !== null) return this.labels.get(key)
    return this.values[this.slot(labelPath(key))]
  }

  /** '' when missing, null, or not a scalar; numbers and booleans as written. @throws RangeError when not in the plan. */
  field(path: string): string {
    if (this.known !== null) {
      if (path === 'metadata.name') return this.known.name
      if (path === 'metadata.namespace') return this.known.namespace
    }
    return this.values[this.slot(path)] ?? ''
  }

  private slot(path: string): number {
    const slot = this.plan.slotOf.get(path)
    if (slot === undefined) throw new RangeError(`no fact was extracted for ${path}`)
    return slot
  }
}

function isNamePath(path: string): boolean {
  return path === 'metadata.name' || path === 'metadata.namespace'
}

let walk = 0

/**
 * @param json one valid JSON object (`scanObject` has passed it); white space between tokens is allowed.
 * @param known the name from the key, for objects whose own metadata should not be asked.
 */
export function extractFacts(json: Buffer, plan: FactPlan, known: KnownName | null = null): Facts {
  const values: (string | undefined)[] = Array.from({ length: plan.paths.length })
  const labels = plan.allLabels ? new Map<string, string>() : null
  walk++
  if (plan.root.children.length > 0) readObject(json, skipSpace(json, 0), plan.root, values, labels)
  return new Facts(plan, values, labels, known)
}

/** @param at the opening brace. @returns the index after the closing one. Recursion is as deep as the plan. */
function readObject(
  json: Buffer,
  at: number,
  node: PlanNode,
  values: (string | undefined)[],
  labels: Map<string, string> | null,
): number {
  let i = at + 1
  while (i < json.length) {
    const byte = json[i]!
    if (byte === 0x7d) return i + 1
    if (byte !== 0x22) {
      // A comma or white space.
      i++
      continue
    }
    const keyStart = i
    const keyEnd = endOfString(json, i)
    i = keyEnd
    while (i < json.length && json[i] !== 0x3a) i++
    i = skipSpace(json, i + 1)
    if (node.holdsLabels && labels !== null) {
      const key = decodeString(json, keyStart, keyEnd)
      if (json[i] === 0x22) labels.set(key, decodeString(json, i, endOfString(json, i)))
      else labels.delete(key)
    }
    const child = findChild(json, keyStart, keyEnd, node)
    i = child === null ? endOfValue(json, i) : readWanted(json, i, child, values, labels)
  }
  return i
}

function findChild(json: Buffer, start: number, end: number, node: PlanNode): PlanNode | null {
  if (node.byKey !== null) return node.byKey.get(decodeString(json, start, end)) ?? null
  for (const child of node.children) {
    if (stringEquals(json, start, end, child.key, child.keyBytes)) return child
  }
  return null
}

function readWanted(
  json: Buffer,
  at: number,
  node: PlanNode,
  values: (string | undefined)[],
  labels: Map<string, string> | null,
): number {
  if (node.seenInWalk === walk) {
    for (const slot of node.slots) values[slot] = undefined
    if (labels !== null && (node.holdsLabels || node.children.some((child) => child.holdsLabels))) labels.clear()
  }
  node.seenInWalk = walk
  const first = json[at]
  if (first === 0x7b) {
    return node.children.length > 0 || node.holdsLabels
      ? readObject(json, at, node, values, labels)
      : endOfValue(json, at)
  }
  const end = endOfValue(json, at)
  if (first === 0x5b || first === 0x6e) return end
  if (first === 0x22) {
    const text = decodeString(json, at, end)
    if (node.fieldSlot !== -1) values[node.fieldSlot] = text
    if (node.labelSlot !== -1) values[node.labelSlot] = text
  } else if (node.fieldSlot !== -1) {
    values[node.fieldSlot] = json.toString('latin1', at, end)
  }
  return end
}
