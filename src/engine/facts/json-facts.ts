/**
 * Extracts from an object's JSON text the few scalars that the selectors in use need, in one walk.
 *
 * Other values are skipped, and numbers keep their text. `JSON.parse` would build the whole tree and round integers
 * above 2^53. Keys are compared with a compiled plan and never become property names, so `__proto__` is a key like any
 * other. Of duplicate keys, the last one wins with its whole subtree.
 */
import { labelKeyOfPath, parseFieldPath } from './field-path.js'
import { goNumber, printedNumber } from './numbers.js'
import { decodeString } from './json-strings.js'
import { endOfString, endOfValue, skipSpace } from '../../support/json-walk.js'
import { KeyTree, nextWalk } from './key-tree.js'

interface Wanted {
  /** Index into the values; -1 if no wanted field ends here. */
  fieldSlot: number
  labelSlot: number
  /** Every slot at or under this key. */
  readonly slots: number[]
  holdsLabels: boolean
}

type PlanNode = KeyTree<Wanted>

const nothingWanted = (): Wanted => ({ fieldSlot: -1, labelSlot: -1, slots: [], holdsLabels: false })

/** The facts to read from objects. A plan only grows, and the cost of `add` does not depend on the size of the plan. */
export class FactPlan {
  /** Slots by path. @internal */
  readonly slotOf: ReadonlyMap<string, number>
  /** Slots by label key. @internal */
  readonly labelSlotOf: ReadonlyMap<string, number>
  /** @internal */
  readonly root: PlanNode = new KeyTree('', nothingWanted())
  readonly #paths: string[] = []
  readonly #slotOf = new Map<string, number>()
  readonly #labelSlotOf = new Map<string, number>()
  #onlyLabels = true

  constructor(readonly allLabels: boolean) {
    this.slotOf = this.#slotOf
    this.labelSlotOf = this.#labelSlotOf
    if (!allLabels) return
    this.root.child('metadata', nothingWanted).child('labels', nothingWanted).data.holdsLabels = true
  }

  /** The paths without duplicates, in the order of `Facts.values`. */
  get paths(): readonly string[] {
    return this.#paths
  }

  /** Whether all paths are labels. */
  get onlyLabels(): boolean {
    return this.#onlyLabels
  }

  /**
   * Adds a path. Facts that were extracted earlier do not contain it.
   * @throws RangeError when the path is malformed.
   */
  add(path: string): void {
    if (this.#slotOf.has(path)) return
    const label = labelKeyOfPath(path)
    const segments = label === null ? parseFieldPath(path) : ['metadata', 'labels', label]
    if (segments === null) throw new RangeError(`not a field path: ${JSON.stringify(path)}`)
    const slot = this.#paths.push(path) - 1
    this.#slotOf.set(path, slot)
    if (label === null) this.#onlyLabels = false
    else this.#labelSlotOf.set(label, slot)
    let node = this.root
    for (const segment of segments) {
      node = node.child(segment, nothingWanted)
      node.data.slots.push(slot)
    }
    if (label === null) node.data.fieldSlot = slot
    else node.data.labelSlot = slot
  }
}

/** The name and namespace known from the key. They take precedence over the object's own metadata. */
export interface KnownName {
  readonly namespace: string
  readonly name: string
}

/**
 * Compiles paths into a plan. Compile once, extract many times.
 *
 * @param paths field paths (see field-path.ts) and label paths (`metadata.labels[KEY]`), as in `Selector.paths`.
 * @param options `allLabels`: collect every label, for subjects whose selectors are not known yet.
 * @throws RangeError when a path is malformed. This would be a bug, because selectors have been parsed before.
 */
export function planFacts(paths: Iterable<string>, options: { allLabels?: boolean } = {}): FactPlan {
  const plan = new FactPlan(options.allLabels === true)
  for (const path of paths) plan.add(path)
  return plan
}

/**
 * The facts of one object, for selectors to match. They cover the plan's paths and, with `allLabels`, every label.
 * Asking for any other path is an error, because the result would be a guess.
 */
export class Facts {
  constructor(
    readonly plan: FactPlan,
    /** Values by the plan's slots. The value is undefined for an absent label and for a field that reads as ''. */
    readonly values: readonly (string | undefined)[],
    readonly labels: ReadonlyMap<string, string> | null,
    readonly known: KnownName | null,
  ) {}

  /**
   * Returns undefined when the object has no such label or the label's value is not a string.
   * @throws RangeError when the label is not in the plan.
   */
  label(key: string): string | undefined {
    if (this.labels !== null) return this.labels.get(key)
    return this.#valueAt(this.plan.labelSlotOf.get(key), key)
  }

  /**
   * Returns '' when the field is missing, null, or not a scalar. Booleans, and numbers that are not whole, are returned
   * as written.
   * @throws RangeError when the field is not in the plan.
   */
  field(path: string): string {
    if (this.known !== null) {
      if (path === 'metadata.name') return this.known.name
      if (path === 'metadata.namespace') return this.known.namespace
    }
    return this.#valueAt(this.plan.slotOf.get(path), path) ?? ''
  }

  /** The plan may have grown since the extraction, so not every planned path has a value here. */
  #valueAt(slot: number | undefined, name: string): string | undefined {
    if (slot === undefined || slot >= this.values.length) throw new RangeError(`no fact was extracted for ${name}`)
    return this.values[slot]
  }
}

/**
 * @param json one valid JSON object, already checked by `scanObject`. White space between tokens is allowed.
 * @param known the name from the key, for objects whose own metadata must be ignored.
 */
export function extractFacts(json: Buffer, plan: FactPlan, known: KnownName | null = null): Facts {
  const values: (string | undefined)[] = Array.from({ length: plan.paths.length })
  const labels = plan.allLabels ? new Map<string, string>() : null
  if (plan.root.children.length > 0) {
    readObject(json, skipSpace(json, 0), plan.root, { values, labels, walk: nextWalk() })
  }
  return new Facts(plan, values, labels, known)
}

interface Reading {
  readonly values: (string | undefined)[]
  readonly labels: Map<string, string> | null
  readonly walk: number
}

/**
 * @param at the index of the opening brace.
 * @returns the index after the closing brace. Recursion is no deeper than the plan.
 */
function readObject(json: Buffer, at: number, node: PlanNode, into: Reading): number {
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
    if (node.data.holdsLabels && into.labels !== null) {
      const key = decodeString(json, keyStart, keyEnd)
      if (json[i] === 0x22) into.labels.set(key, decodeString(json, i, endOfString(json, i)))
      else into.labels.delete(key)
    }
    const child = node.find(json, keyStart, keyEnd)
    i = child === null ? endOfValue(json, i) : readWanted(json, i, child, into)
  }
  return i
}

function readWanted(json: Buffer, at: number, node: PlanNode, into: Reading): number {
  const wanted = node.data
  if (node.seenInWalk === into.walk) {
    for (const slot of wanted.slots) into.values[slot] = undefined
    if (wanted.holdsLabels || node.children.some((child) => child.data.holdsLabels)) into.labels?.clear()
  }
  node.seenInWalk = into.walk
  const first = json[at]
  if (first === 0x7b) {
    return node.children.length > 0 || wanted.holdsLabels ? readObject(json, at, node, into) : endOfValue(json, at)
  }
  const end = endOfValue(json, at)
  if (first === 0x5b || first === 0x6e) return end
  if (first === 0x22) {
    const text = decodeString(json, at, end)
    if (wanted.fieldSlot !== -1) into.values[wanted.fieldSlot] = text
    if (wanted.labelSlot !== -1) into.values[wanted.labelSlot] = text
  } else if (wanted.fieldSlot !== -1) {
    into.values[wanted.fieldSlot] = comparedText(json.toString('latin1', at, end))
  }
  return end
}

/**
 * Returns a number as written, except that a whole number written as a fraction or with an exponent is normalized. The
 * API server decodes `1.0` to 1, and only whole numbers are selectable there.
 */
function comparedText(scalar: string): string {
  if (!/^-?\d+(\.\d+)?([eE][-+]?\d+)?$/.test(scalar)) return scalar
  if (Number(scalar) === 0) return '0'
  if (/^-?\d+$/.test(scalar)) return scalar
  return Number.isInteger(Number(scalar)) ? printedNumber(goNumber({ text: scalar })) : scalar
}
