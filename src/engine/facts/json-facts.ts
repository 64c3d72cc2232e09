/**
 * Extracts from an object's JSON text the few scalars that the selectors in use need, in one walk.
 *
 * Other values are skipped, and numbers keep their text. `JSON.parse` would build the whole tree and round integers
 * above 2^53. Keys are compared with a compiled plan and never become property names, so `__proto__` is a key like any
 * other. Of duplicate keys, the last one wins with its whole subtree.
 */
import { isAttributePath, parseAttributePath, parseFieldPath } from './field-path.js'
import { goNumber, printedNumber } from './numbers.js'
import { decodeString } from './json-strings.js'
import { endOfString, endOfValue, skipSpace } from '../../support/json-walk.js'
import { KeyTree, nextWalk } from './key-tree.js'
import type { FactPaths } from '../model/fact-source.js'
import type { StoredObject } from '../model/stored-object.js'

interface Wanted {
  /** Index into the values; -1 if no wanted field ends here. */
  fieldSlot: number
  attributeSlot: number
  /** Every slot at or under this key. */
  readonly slots: number[]
}

type PlanNode = KeyTree<Wanted>

const nothingWanted = (): Wanted => ({ fieldSlot: -1, attributeSlot: -1, slots: [] })

/** The facts to read from objects. A plan only grows, and the cost of `add` does not depend on the size of the plan. */
export class FactPlan {
  /** Slots by path. @internal */
  readonly slotOf: ReadonlyMap<string, number>
  /** @internal */
  readonly root: PlanNode = new KeyTree('', nothingWanted())
  readonly #paths: string[] = []
  readonly #slotOf = new Map<string, number>()
  #onlyAttributes = true

  constructor(readonly names: FactNames | null) {
    this.slotOf = this.#slotOf
  }

  /** The paths without duplicates, in the order of `Facts.values`. */
  get paths(): readonly string[] {
    return this.#paths
  }

  /** Whether all paths are those of attributes. */
  get onlyAttributes(): boolean {
    return this.#onlyAttributes
  }

  /**
   * Adds a path. Facts that were extracted earlier do not contain it.
   * @throws RangeError when the path is malformed.
   */
  add(path: string): void {
    if (this.#slotOf.has(path)) return
    const isAttribute = isAttributePath(path)
    const segments = isAttribute ? parseAttributePath(path) : parseFieldPath(path)
    if (segments === null) throw new RangeError(`not a field path: ${JSON.stringify(path)}`)
    const slot = this.#paths.push(path) - 1
    this.#slotOf.set(path, slot)
    this.#onlyAttributes &&= isAttribute
    let node = this.root
    for (const segment of segments) {
      node = node.child(segment, nothingWanted)
      node.data.slots.push(slot)
    }
    if (isAttribute) node.data.attributeSlot = slot
    else node.data.fieldSlot = slot
  }
}

/** The name and scope known from the key. They take precedence over the object's own fields. */
type KnownName = Pick<StoredObject, 'scope' | 'name'>
/** The paths of these fields. */
type FactNames = Pick<FactPaths, 'scope' | 'name'>

/**
 * Compiles paths into a plan. Compile once, extract many times.
 *
 * @param paths field and attribute paths (see field-path.ts), as in `Selector.paths`.
 * @param names the fields to read from the key, for objects extracted with a known name.
 */
export function planFacts(paths: Iterable<string>, names: FactNames | null = null): FactPlan {
  const plan = new FactPlan(names)
  for (const path of paths) plan.add(path)
  return plan
}

/**
 * The facts of one object, for selectors to match. They cover the plan's paths. Asking for any other path is an error,
 * because the result would be a guess.
 */
export class Facts {
  constructor(
    readonly plan: FactPlan,
    /** Values by the plan's slots. The value is undefined for an absent attribute and for a field that reads as ''. */
    readonly values: readonly (string | undefined)[],
    readonly known: KnownName | null,
  ) {}

  /**
   * Returns undefined when the object has no such attribute or its value is not a string.
   * @throws RangeError when the attribute is not in the plan.
   */
  attribute(path: string): string | undefined {
    const slot = this.plan.slotOf.get(path)
    // The plan may have grown since the extraction, so not every planned path has a value here.
    if (slot === undefined || slot >= this.values.length) throw new RangeError(`no fact was extracted for ${path}`)
    return this.values[slot]
  }

  /**
   * Returns '' when the field is missing, null, or not a scalar. Booleans, and numbers that are not whole, are returned
   * as written.
   * @throws RangeError when the field is not in the plan.
   */
  field(path: string): string {
    const { names } = this.plan
    if (this.known !== null && names !== null) {
      if (path === names.name) return this.known.name
      if (path === names.scope) return this.known.scope
    }
    return this.attribute(path) ?? ''
  }
}

/**
 * @param json one valid JSON object, already checked by `scanObject`. White space between tokens is allowed.
 * @param known the name from the key, for objects whose own metadata must be ignored.
 */
export function extractFacts(json: Buffer, plan: FactPlan, known: KnownName | null = null): Facts {
  const values: (string | undefined)[] = Array.from({ length: plan.paths.length })
  if (plan.root.children.length > 0) {
    readObject(json, skipSpace(json, 0), plan.root, { values, walk: nextWalk() })
  }
  return new Facts(plan, values, known)
}

interface Reading {
  readonly values: (string | undefined)[]
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
    const child = node.find(json, keyStart, keyEnd)
    i = child === null ? endOfValue(json, i) : readWanted(json, i, child, into)
  }
  return i
}

function readWanted(json: Buffer, at: number, node: PlanNode, into: Reading): number {
  const wanted = node.data
  if (node.seenInWalk === into.walk) {
    for (const slot of wanted.slots) into.values[slot] = undefined
  }
  node.seenInWalk = into.walk
  const first = json[at]
  if (first === 0x7b) {
    return node.children.length > 0 ? readObject(json, at, node, into) : endOfValue(json, at)
  }
  const end = endOfValue(json, at)
  if (first === 0x5b || first === 0x6e) return end
  if (first === 0x22) {
    const text = decodeString(json, at, end)
    if (wanted.fieldSlot !== -1) into.values[wanted.fieldSlot] = text
    if (wanted.attributeSlot !== -1) into.values[wanted.attributeSlot] = text
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
