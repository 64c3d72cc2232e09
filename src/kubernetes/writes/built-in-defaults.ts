/**
 * Fills in the defaults of the built-in kinds. An object is walked along its messages, and the rows in
 * `default-facts.txt` for each message fill in what is unset. The rows follow the API server. Whether a member is
 * set is decided as in Go: a pointer is set when present, any other member when not empty.
 *
 * An object that already has its defaults stays unchanged, so writing back a stored object changes nothing.
 */
import {
  cloneTree,
  isEmptyRecord,
  isRecord,
  type Json,
  type JsonRecord,
  member,
  record,
  recordsAt,
  setMember,
  textMember,
  treeFrom,
} from '../codec/json-tree.js'
import { membersOf } from '../codec/openapi-facts.js'
import type { Field, Message, Schema } from '../codec/protobuf/schema.js'
import { type Condition, type DefaultFacts, defaultFacts, type DefaultRow, type DefaultValue } from './default-facts.js'
import { pullPolicyOf } from './pull-policy.js'

interface Plan {
  readonly rows: readonly Row[]
  /** Members whose values may need defaults, and messages that are inlined into this one. */
  readonly children: readonly Child[]
}

interface Row {
  readonly lists: readonly (readonly string[])[]
  readonly parents: readonly string[]
  readonly name: string
  readonly value: DefaultValue
  readonly when: readonly Condition[]
  /** A non-pointer counts as unset when it is '', 0 or []. */
  readonly isPointer: boolean
}

interface Child {
  /** The name is '' for an inlined message. */
  readonly name: string
  readonly label: Field['label']
  readonly messageName: string
}

const API = 'k8s.io.api.'
const NOTHING: Plan = { rows: [], children: [] }

export class BuiltInDefaults {
  readonly #source: Schema
  readonly #plans = new Map<string, Plan>()
  readonly #facts: DefaultFacts

  constructor(source: Schema, facts = defaultFacts()) {
    this.#source = source
    this.#facts = facts
  }

  /** Does nothing for a kind missing from the table of messages. @param object is changed. */
  fill(apiVersion: string, kind: string, object: JsonRecord): void {
    const message = this.#source.messageOfKind(apiVersion, kind)
    if (message !== undefined) this.#fill(this.#planOf(message), object)
  }

  #fill({ rows, children }: Plan, object: JsonRecord): void {
    for (const row of rows) if (row.when.every((condition) => holds(condition, object))) apply(row, object)
    for (const { name, label, messageName } of children) {
      const plan = this.#plan(messageName)
      if (name === '') this.#fill(plan, object)
      else this.#fillMember(plan, object, name, label)
    }
  }

  #fillMember(plan: Plan, object: JsonRecord, name: string, label: Child['label']): void {
    const value = object[name]
    if (label === 'value' && (value === undefined || value === null)) {
      // In Go this struct always exists, possibly empty. It is created here when something in it gets a default.
      const made = record()
      this.#fill(plan, made)
      if (!isEmptyRecord(made)) object[name] = made
      return
    }
    const items = label === 'map' && isRecord(value) ? Object.values(value) : Array.isArray(value) ? value : [value]
    for (const item of items) if (isRecord(item)) this.#fill(plan, item)
  }

  #plan(messageName: string): Plan {
    const message = this.#source.message(messageName)
    return message === undefined ? NOTHING : this.#planOf(message)
  }

  #planOf(message: Message): Plan {
    const known = this.#plans.get(message.fullName)
    if (known !== undefined) return known
    // Only schemas contain themselves, and no row applies inside one. So skip a member that leads back to a message
    // that is still being planned.
    this.#plans.set(message.fullName, NOTHING)
    const { fullName } = message
    const facts = fullName.startsWith(API) ? this.#facts[fullName.slice(API.length)] : undefined
    const rows = (facts ?? []).flatMap((row) => this.#row(message, row) ?? [])
    const plan: Plan = message.form === 'object' ? { rows, children: this.#childrenOf(message) } : NOTHING
    this.#plans.set(message.fullName, plan)
    return plan
  }

  #childrenOf(message: Message): readonly Child[] {
    const children: Child[] = []
    for (const { jsonName, label, type, messageName } of message.fields) {
      if (type !== 'message') continue
      const { rows, children: inner } = this.#plan(messageName)
      if (rows.length + inner.length > 0) children.push({ name: jsonName, label, messageName })
    }
    return children
  }

  /** Returns null if the table of messages lacks the member, as in a descriptor set of another release. */
  #row(message: Message, [path, value, ...when]: DefaultRow): Row | null {
    const lists = path.split('[].').map((part) => part.split('.'))
    let at: Message | undefined = message
    let field: Field | undefined
    for (const name of lists.flat()) {
      if (at === undefined) return null
      field = membersOf(at, this.#source).find(({ jsonName }) => jsonName === name)
      if (field === undefined) return null
      at = this.#source.message(field.messageName)
    }
    const parents = lists.pop()!
    const name = parents.pop()!
    return { lists, parents, name, value, when, isPointer: field!.label === 'pointer' }
  }
}

function holds(condition: Condition, object: JsonRecord): boolean {
  if ('hasOnly' in condition) {
    return Object.keys(object).every((name) => name === condition.hasOnly || object[name] === null)
  }
  const names = condition.path.split('.')
  if ('values' in condition) return condition.values.includes(textMember(object, ...names))
  const value = member(object, ...names)
  // Where a condition tests a number or an object, Go has a pointer, so 0 and {} count as set.
  const isThere = typeof value === 'number' || isRecord(value) || isSet(value, false)
  return isThere === condition.isThere
}

function apply(row: Row, object: JsonRecord): void {
  let bases: readonly JsonRecord[] = [object]
  for (const list of row.lists) bases = bases.flatMap((base) => recordsAt(base, ...list))
  for (const base of bases) applyAt(row, base)
}

function applyAt({ parents, name, value, isPointer }: Row, base: JsonRecord): void {
  const parent = member(base, ...parents)
  const present = isRecord(parent) ? parent[name] : undefined
  if (typeof value === 'object' && 'isRemoved' in value) {
    if (isRecord(parent)) delete parent[name]
    return
  }
  const isMerge = typeof value === 'object' && 'missingKeysOf' in value
  if (!isMerge && isSet(present, isPointer)) return
  const filled = isMerge ? merged(present, member(base, ...value.missingKeysOf.split('.'))) : valueOf(value, base)
  if (filled === undefined) return
  setMember(base, [...parents, name], filled)
}

function isSet(value: Json | undefined, isPointer: boolean): boolean {
  if (value === undefined || value === null) return false
  if (isPointer) return true
  if (Array.isArray(value)) return value.length > 0
  if (isRecord(value)) return !isEmptyRecord(value)
  return value !== '' && value !== 0 && value !== false
}

/** Returns undefined when there is nothing to fill in. */
function merged(present: Json | undefined, from: Json | undefined): Json | undefined {
  if (!isRecord(from) || (present !== undefined && present !== null && !isRecord(present))) return undefined
  const result = record({ ...cloneTree(from), ...present })
  return isEmptyRecord(result) ? undefined : result
}

function valueOf(
  value: Exclude<DefaultValue, { missingKeysOf: string } | { isRemoved: true }>,
  base: JsonRecord,
): Json | undefined {
  if (typeof value !== 'object') return value
  if ('literal' in value) return treeFrom(value.literal)
  if ('pullPolicyOf' in value) return pullPolicyOf(textMember(base, value.pullPolicyOf))
  const found = member(base, ...value.copyOf.split('.'))
  return found === undefined || found === null ? undefined : cloneTree(found)
}
