/**
 * Grows rich objects of any kind field by field from the API server's own OpenAPI, and checks each step with a dry run.
 * Kinds of later releases need no changes here.
 *
 * An object starts with its required fields. Further fields are added together; when the server rejects them, those
 * that it names are tried alone, and the rest by bisection. A rejected value is replaced by the next candidate, or by
 * what the message asks for. Since many fields exclude each other, an object has several variants: each tries the
 * fields that no earlier variant could hold.
 */
import type { Schema, Schemas } from './discovered.js'
import { byFormat, byName, MICRO_TIME, plainTexts } from './grow-values.js'

export type Value = null | boolean | number | string | Value[] | { [name: string]: Value }
type Members = { [name: string]: Value }
type Path = readonly (string | number)[]

export interface Verdict {
  /** The object as it would be stored; null when it was rejected. */
  readonly object: Members | null
  readonly message: string
  readonly causes: readonly { readonly reason: string; readonly message: string; readonly field: string }[]
}

/** Asks the server whether it would store the object. */
export type DryRun = (object: Members) => Promise<Verdict>

/** Values of whole types from earlier kinds, by variant: ten kinds contain most of a pod. */
export type Memory = Map<string, Value[]>

/** Messages that reject one field because of another. */
const EXCLUSIVE =
  /more than (1|one) |may only be used|can ?not be specified simultaneously|cannot apply to both|mutually exclusive|(may|must|can) ?not be (specified|set|used) (when|if|until)|at most one|only one of/i

/** Added first, because other fields refer to them. */
const NAMED_BY_OTHERS = new Set(['volumes', 'resourceClaims'])

const NOT_KEPT = 'it is not kept'
const MOST_REPAIRS = 25
const MOST_ITEMS = 40
/** Consecutive variants without a new field. */
const MOST_IDLE = 2
/** A pod's volume has this many kinds. */
const MOST_MEMBERS = 40
const MOST_DEPTH = 14
/** A field is left out after this many rejections within one kind. */
const MOST_REFUSALS = 3

/** How often each field, and each enumeration value, occurs in the variants of a kind. */
interface Try {
  readonly turn: number
  /** The initial value, whose members are tried one after another. */
  readonly base: Value | undefined
}

/** The attempts, by field. */
type Tries = Map<string, Try>

export class Coverage {
  readonly #covered = new Set<string>()
  readonly #refused = new Map<string, { times: number; why: string }>()

  wants(token: string): boolean {
    return !this.#covered.has(token) && (this.#refused.get(token)?.times ?? 0) < MOST_REFUSALS
  }

  has(token: string): boolean {
    return this.#covered.has(token)
  }

  refuse(token: string, why: string): void {
    const times = why === NOT_KEPT ? MOST_REFUSALS : (this.#refused.get(token)?.times ?? 0) + 1
    this.#refused.set(token, { times, why })
  }

  /** The server's last message about a field that no variant holds. */
  whyNot(token: string): string {
    return this.#refused.get(token)?.why ?? 'it was not reached'
  }

  add(token: string): void {
    this.#covered.add(token)
  }

  get size(): number {
    return this.#covered.size
  }
}

export class Grower {
  readonly #schemas: Schemas
  readonly #root: Schema
  readonly #dryRun: DryRun
  readonly #coverage: Coverage
  readonly #memory: Memory
  readonly #variant: number
  /** Whether anything of a type is still missing, for the types asked so far. */
  #wanted = new Map<string, boolean>()

  constructor(
    schemas: Schemas,
    root: Schema,
    dryRun: DryRun,
    { coverage, memory, variant }: { coverage: Coverage; memory: Memory; variant: number },
  ) {
    this.#schemas = schemas
    this.#root = root
    this.#dryRun = dryRun
    this.#coverage = coverage
    this.#memory = memory
    this.#variant = variant
  }

  /**
   * Adds the required fields to `base`, and whatever else the server asks for in its errors.
   * @throws Error with the server's last message if it accepts no object.
   */
  async start(base: Members): Promise<Members> {
    const required = this.#root.required ?? []
    const object: Members = { ...base }
    for (const name of required) object[name] ??= this.#first(this.#root.properties![name]!, name, 0)
    const started = await this.#try(object, [])
    if (typeof started === 'string') throw new Error(started)
    return started
  }

  /** Adds the member at the path with everything possible below it. */
  async growPart(object: Members, path: Path): Promise<Members> {
    const present =
      at(object, path) === undefined ? await this.#addAll(object, path.slice(0, -1), [String(path.at(-1))]) : object
    return at(present, path) === undefined ? present : await this.grow(present, path)
  }

  /** Adds everything possible at the path and below it. */
  async grow(object: Members, path: Path, skip: readonly string[] = []): Promise<Members> {
    const { schema, type } = this.#schemaAt(path)
    const value = at(object, path)
    if (path.length > MOST_DEPTH) return object
    if (Array.isArray(value)) return await this.#growItems(object, path)
    if (!isMembers(value)) return object
    if (schema.properties === undefined) {
      const [name] = Object.keys(value)
      return name === undefined || maybeAdditional(schema) === undefined
        ? object
        : await this.grow(object, [...path, name])
    }
    const names = Object.keys(schema.properties)
      .filter((name) => !skip.includes(name) && !(name in value) && this.#wants(type, name, schema.properties![name]!))
      .sort((a, b) => this.#rank(type, b) - this.#rank(type, a))
    let grown = await this.#addAll(object, path, names)
    const present = Object.keys(at(grown, path) as Members)
    for (const name of present.sort((a, b) => this.#rank(type, b) - this.#rank(type, a)))
      if (!skip.includes(name) && !this.#isRemembered(grown, [...path, name]))
        grown = await this.grow(grown, [...path, name])
    if (type !== '' && path.length > 0) this.#remember(type, at(grown, path)!)
    return grown
  }

  /** Counts the fields and values of an object. */
  count(object: Members): void {
    const walk = (value: Value, given: Schema, owner: string): void => {
      const { schema, type } = this.#resolve(given)
      if (typeof value === 'string' && schema.enum !== undefined) this.#coverage.add(`${owner}=${value}`)
      if (Array.isArray(value)) return value.forEach((item) => walk(item, schema.items ?? {}, owner))
      if (!isMembers(value)) return
      for (const [name, member] of Object.entries(value)) {
        const own = schema.properties?.[name]
        if (own === undefined) walk(member, additional(schema), owner)
        else {
          this.#coverage.add(`${type}.${name}`)
          walk(member, own, `${type}.${name}`)
        }
      }
    }
    walk(object, this.#root, '')
  }

  /** Fields of the kind that no variant holds. */
  missing(skip: readonly string[] = []): string[] {
    const missing: string[] = []
    const seen = new Set<string>()
    const walk = (given: Schema): void => {
      const { schema, type } = this.#resolve(given)
      if (seen.has(type) && type !== '') return
      seen.add(type)
      if (schema.items) walk(schema.items)
      walkFields(schema, type)
    }
    const walkFields = (schema: Schema, type: string): void => {
      if (typeof schema.additionalProperties === 'object') walk(schema.additionalProperties)
      for (const [name, one] of Object.entries(schema.properties ?? {})) {
        if (schema === this.#root && skip.includes(name)) continue
        if (!this.#coverage.has(`${type}.${name}`))
          missing.push(`${type}.${name}: ${this.#coverage.whyNot(`${type}.${name}`)}`)
        walk(one)
      }
    }
    walkFields(this.#root, this.#resolve(this.#root).type)
    return missing
  }

  async #growItems(object: Members, path: Path): Promise<Members> {
    let grown = await this.grow(object, [...path, 0])
    const { schema } = this.#schemaAt(path)
    const item = this.#resolve(schema.items ?? {})
    if (item.schema.properties === undefined && item.schema.enum === undefined) return grown
    for (let [index, idle] = [1, 0]; index < MOST_ITEMS && idle < MOST_IDLE; index++) {
      this.count(grown)
      const before = this.#coverage.size
      this.#wanted = new Map()
      if (!this.#wantsType(schema.items ?? {})) break
      const place = [...path, index]
      let next: Members | string = ''
      for (const first of this.#firsts(place)) {
        next = await this.#try(put(grown, place, first), place)
        if (typeof next !== 'string') break
      }
      if (typeof next === 'string') break
      const more = await this.grow(next, [...path, index])
      this.count(more)
      idle = this.#coverage.size === before ? idle + 1 : 0
      grown = more
    }
    return grown
  }

  async #addAll(object: Members, path: Path, names: readonly string[]): Promise<Members> {
    if (names.length === 0) return object
    if (names.length === 1) return await this.#addOne(object, path, names[0]!)
    let trial = object
    for (const name of names) trial = put(trial, [...path, name], this.#firstAt([...path, name]))
    const verdict = await this.#dryRun(trial)
    if (verdict.object !== null) return this.#kept(trial, verdict.object, path, names)
    const isOf = (one: { field: string }, name: string): boolean => startsWith(pathOf(one.field), [...path, name])
    const exclusive = names.filter((name) =>
      verdict.causes.some((one) => EXCLUSIVE.test(one.message) && isOf(one, name)),
    )
    if (exclusive.length > 0) {
      // The API server may accept only one of these members here, so the others are tried elsewhere.
      const [first, ...others] = names
      let grown = await this.#addOne(object, path, first!)
      grown = await this.#addAll(
        grown,
        path,
        others.filter((name) => !exclusive.includes(name)),
      )
      return exclusive.includes(first!) ? grown : await this.#addOne(grown, path, exclusive[0]!)
    }
    const named = names.filter((name) => verdict.causes.some((one) => isOf(one, name)))
    if (named.length > 0 && named.length < names.length) {
      let grown = await this.#addAll(
        object,
        path,
        names.filter((name) => !named.includes(name)),
      )
      for (const name of named) grown = await this.#addOne(grown, path, name)
      return grown
    }
    const half = Math.ceil(names.length / 2)
    return await this.#addAll(await this.#addAll(object, path, names.slice(0, half)), path, names.slice(half))
  }

  async #addOne(object: Members, path: Path, name: string): Promise<Members> {
    const whole = [...path, name]
    const remembered = this.#rememberedAt(whole)
    const firsts = remembered === undefined ? [] : [remembered]
    let why = ''
    for (const first of [...firsts, ...this.#firsts(whole)]) {
      const tried = await this.#try(put(object, whole, clone(first)), whole)
      if (typeof tried !== 'string') return tried
      // This field is tried in a variant without the other one.
      if (EXCLUSIVE.test(tried)) return object
      why = tried
    }
    this.#coverage.refuse(this.#tokenAt(whole), why)
    return object
  }

  /** Returns the object without the fields that the server did not keep. */
  #kept(trial: Members, stored: Members, path: Path, names: readonly string[]): Members {
    let kept = trial
    for (const name of names) {
      if (at(stored, [...path, name]) !== undefined) continue
      kept = without(kept, [...path, name])
      this.#coverage.refuse(this.#tokenAt([...path, name]), NOT_KEPT)
    }
    return kept
  }

  /**
   * Returns the object as the server accepts it, after replacing rejected values at or below the path.
   *
   * @returns its last message when it accepts nothing.
   */
  async #try(object: Members, path: Path): Promise<Members | string> {
    const tries: Tries = new Map()
    let trial = object
    for (let repair = 0; ; repair++) {
      const verdict = await this.#dryRun(trial)
      if (verdict.object !== null) {
        if (path.length > 0 && at(verdict.object, path) === undefined) return NOT_KEPT
        return trial
      }
      if (repair === MOST_REPAIRS) return verdict.message
      const repaired = this.#repaired(trial, path, verdict, tries)
      if (repaired === null) return verdict.message
      trial = repaired
    }
  }

  #repaired(object: Members, path: Path, { causes, message }: Verdict, tries: Tries): Members | null {
    let repaired = object
    // A decoding error names no field: it can only be the field being tried.
    const given = causes.length > 0 ? causes : [{ reason: 'FieldValueInvalid', field: fieldOf(path), message }]
    if (path.length > 0 && causes.some(({ message: told }) => EXCLUSIVE.test(told))) return null
    for (const { reason, field, message: told } of given) {
      const place = this.#placeOf(repaired, pathOf(field), told)
      const isInside = startsWith(place, path) && place.length >= path.length
      const known = this.#tryAt(place)
      if (known === null) return null
      const value = at(repaired, place)
      if (reason === 'FieldValueRequired' && value === undefined) {
        if (place.length === 0) return null
        for (let length = 1; length <= place.length; length++) {
          const step = place.slice(0, length)
          if (at(repaired, step) === undefined) repaired = put(repaired, step, this.#firstAt(step))
        }
        continue
      }
      if (!isInside) return null
      const last = tries.get(field)
      const { turn, base } = last === undefined || last.base === undefined ? { turn: 0, base: value } : last
      tries.set(field, { turn: turn + 1, base })
      const next = reason === 'FieldValueForbidden' ? undefined : this.#alternative(place, base, value, told, turn)
      if (next !== undefined) repaired = put(repaired, place, next)
      else if (place.length > path.length && place.length > 0) repaired = without(repaired, place)
      else return null
    }
    return repaired === object ? null : repaired
  }

  /** Some messages name the list or object that contains the rejected value. */
  #placeOf(object: Members, place: Path, message: string): Path {
    const refused = /^(?:Unsupported|Invalid) value: "((?:[^"\\]|\\.)+)"/.exec(message)?.[1]
    if (refused === undefined) return place
    let near = place
    while (near.length > 0 && at(object, near) === undefined) near = near.slice(0, -1)
    const value = at(object, near)!
    if (value === refused) return near
    if (typeof value !== 'object' || value === null) return place
    const found: Path[] = []
    const search = (value: Value, path: Path): void => {
      if (value === refused) found.push(path)
      if (typeof value !== 'object' || value === null) return
      for (const [name, member] of Object.entries(value))
        search(member, [...path, Array.isArray(value) ? Number(name) : name])
    }
    search(value, near)
    return found.find((one) => one.at(-1) === place.at(-1)) ?? found[0] ?? place
  }

  #tryAt(place: Path): Schema | null {
    try {
      return this.#schemaAt(place).schema
    } catch {
      return null
    }
  }

  /** The replacement for a value: what the message quotes, then what the schema allows. */
  #alternative(
    place: Path,
    base: Value | undefined,
    value: Value | undefined,
    message: string,
    turn: number,
  ): Value | undefined {
    const { schema, type } = this.#schemaAt(place)
    if (value === undefined) return turn === 0 ? this.#firstAt(place) : undefined
    if (type.endsWith('.Quantity')) return byName['quantity']![turn + 1]
    const rest = message.replace(/^(Unsupported|Invalid|Duplicate) value: ("(?:[^"\\]|\\.)*"|[^:]*):?/, '')
    const quoted = [...rest.matchAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'/g)].map(([, a, b]) => a ?? b ?? '')
    if (schema.type === 'string' || schema.oneOf !== undefined) {
      const last = place.at(-1)
      const more = message.startsWith('Duplicate')
        ? [
            `${typeof value === 'string' ? value : 'example'}-${place.filter((one) => typeof one === 'number').join('-')}`,
          ]
        : []
      const all = [
        ...more,
        ...quoted.filter((one) => one !== value),
        ...this.#choices(schema, typeof last === 'string' ? last : String(place.at(-2)), ''),
      ]
      return all[turn]
    }
    if (schema.type === 'integer' && message.startsWith('Duplicate') && turn < 3)
      return Number(value) + 1 + (place.find((one) => typeof one === 'number') ?? 0)
    if (schema.type === 'integer' || schema.type === 'boolean' || schema.type === 'number')
      return this.#choices(schema, String(place.at(-1)), '')[turn + 1]
    // The object may require one of its members.
    if (!isMembers(base) || schema.properties === undefined) return undefined
    const members = Object.keys(schema.properties).filter((name) => !(name in base))
    const member = members.sort((a, b) => this.#rank(type, b) - this.#rank(type, a))[turn]
    if (member === undefined) return undefined
    return { ...base, [member]: this.#first(schema.properties[member]!, member, place.length, `${type}.${member}`) }
  }

  /** The candidate values of a scalar, best first. @param token of its field, for values that are not covered. */
  #choices(schema: Schema, name: string, token: string): Value[] {
    if (schema.enum !== undefined) {
      const wanted = schema.enum.filter((one) => one !== '' && this.#coverage.wants(`${token}=${one}`))
      return [...wanted, ...schema.enum.filter((one) => !wanted.includes(one))]
    }
    const { type, format = '' } = schema
    if (type === 'boolean') return [true, false]
    const named = byName[name] ?? []
    if (type === 'integer' || type === 'number')
      return [...named.filter((one) => typeof one === 'number'), 1, 2, 8080, 0, 100, 30_080]
    const formed = byFormat[format]
    if (formed !== undefined) return [...formed]
    return [...named, ...plainTexts]
  }

  /**
   * Initial values: the required members, alone and with each other member, since some types accept exactly one of
   * many.
   */
  #firsts(path: Path): Value[] {
    const { given } = this.#schemaAt(path)
    const name = path.at(-1)
    const first = this.#first(given, typeof name === 'string' ? name : '', path.length, this.#tokenAt(path))
    const { schema } = this.#resolve(given)
    const isList = schema.type === 'array'
    const of = this.#resolve(isList ? (schema.items ?? {}) : given)
    const base = isList ? (first as Value[])[0]! : first
    if (!isMembers(base) || of.schema.properties === undefined) return [first]
    const members = Object.keys(of.schema.properties).filter((member) => !(member in base))
    const wanted = members.filter((member) => this.#wants(of.type, member, of.schema.properties![member]!))
    wanted.sort((a, b) => this.#rank(of.type, b) - this.#rank(of.type, a))
    const withOne = wanted.slice(0, MOST_MEMBERS).map((member) => ({
      ...clone(base),
      [member]: this.#first(of.schema.properties![member]!, member, path.length + 1, `${of.type}.${member}`),
    }))
    return [first, ...(isList ? withOne.map((one) => [one]) : withOne)]
  }

  #firstAt(path: Path): Value {
    const name = path.at(-1)
    const { given } = this.#schemaAt(path)
    return (
      this.#rememberedAt(path) ??
      this.#first(given, typeof name === 'string' ? name : '', path.length, this.#tokenAt(path))
    )
  }

  /** A value with only the required members. */
  #first(given: Schema, name: string, depth: number, token = ''): Value {
    const { schema, type } = this.#resolve(given)
    if (depth > MOST_DEPTH + 6) return null
    if (type.endsWith('.Quantity')) return byName['quantity']![0]!
    if (type.endsWith('.MicroTime')) return MICRO_TIME
    if (schema.type === 'array') return [this.#first(schema.items ?? {}, name.replace(/s$/, ''), depth + 1, token)]
    if (schema.properties !== undefined) {
      const object: Members = {}
      for (const one of schema.required ?? [])
        object[one] = this.#first(schema.properties[one] ?? {}, one, depth + 1, `${type}.${one}`)
      return object
    }
    if (schema.additionalProperties !== undefined && schema.additionalProperties !== false)
      return { [mapKey(name)]: this.#first(additional(schema), name, depth + 1, token) }
    if (schema.type === 'object') return { example: { depth: 1 } }
    return clone(this.#choices(schema, name, token)[0] ?? 'example')
  }

  #resolve(given: Schema): { readonly schema: Schema; readonly type: string } {
    let [schema, type] = [given, '']
    for (;;) {
      const reference = schema.$ref ?? schema.allOf?.[0]?.$ref
      if (reference === undefined) break
      type = reference.slice('#/components/schemas/'.length)
      schema = this.#schemas[type] ?? {}
    }
    if (schema === this.#root) type = 'root'
    return { schema, type }
  }

  /** @throws Error when there is no such field. */
  #schemaAt(path: Path): { readonly given: Schema; readonly schema: Schema; readonly type: string } {
    let given = this.#root
    for (const step of path) {
      const { schema } = this.#resolve(given)
      const next = typeof step === 'number' ? schema.items : (schema.properties?.[step] ?? maybeAdditional(schema))
      if (next === undefined) throw new Error(`no field ${path.join('.')}`)
      given = next
    }
    return { given, ...this.#resolve(given) }
  }

  #tokenAt(path: Path): string {
    const last = path.at(-1)
    if (typeof last !== 'string') return ''
    return `${this.#schemaAt(path.slice(0, -1)).type}.${last}`
  }

  /** Whether a field, or anything below it, is missing from all variants. */
  #wants(type: string, name: string, given: Schema): boolean {
    return this.#coverage.wants(`${type}.${name}`) || this.#wantsType(given, `${type}.${name}`)
  }

  /** Fields that others refer to first, then those that no object has yet. */
  #rank(type: string, name: string): number {
    return (NAMED_BY_OTHERS.has(name) ? 2 : 0) + (this.#coverage.wants(`${type}.${name}`) ? 1 : 0)
  }

  #wantsType(given: Schema, token = ''): boolean {
    const { schema, type } = this.#resolve(given)
    if (schema.enum !== undefined) return schema.enum.some((one) => this.#coverage.wants(`${token}=${one}`))
    const known = this.#wanted.get(type)
    if (type !== '' && known !== undefined) return known
    if (type !== '') this.#wanted.set(type, false)
    const wants =
      Object.entries(schema.properties ?? {}).some(([name, one]) => this.#wants(type, name, one)) ||
      (schema.items !== undefined && this.#wantsType(schema.items, token)) ||
      (typeof schema.additionalProperties === 'object' && this.#wantsType(schema.additionalProperties, token))
    if (type !== '') this.#wanted.set(type, wants)
    return wants
  }

  #remember(type: string, value: Value): void {
    const values = this.#memory.get(type) ?? []
    if (values[this.#variant] === undefined || size(values[this.#variant]!) < size(value))
      values[this.#variant] = clone(value)
    this.#memory.set(type, values)
  }

  #rememberedAt(path: Path): Value | undefined {
    const { schema, type } = this.#schemaAt(path)
    if (schema.type === 'array' && schema.items !== undefined) {
      const item = this.#memory.get(this.#resolve(schema.items).type)?.[this.#variant]
      return item === undefined ? undefined : [clone(item)]
    }
    const value = this.#memory.get(type)?.[this.#variant]
    return value === undefined ? undefined : clone(value)
  }

  #isRemembered(object: Members, path: Path): boolean {
    const remembered = this.#rememberedAt(path)
    return remembered !== undefined && size(remembered) > 40 && size(at(object, path)!) >= size(remembered)
  }
}

function mapKey(name: string): string {
  return name === 'annotations'
    ? 'example.com/note'
    : /^(limits|requests|capacity|allocatable|overhead|hard|used|podFixed|allocatedResources|default|defaultRequest|max|min|maxLimitRequestRatio)$/.test(
          name,
        )
      ? 'cpu'
      : 'app'
}

function maybeAdditional(schema: Schema): Schema | undefined {
  if (schema.additionalProperties === undefined || schema.additionalProperties === false) return undefined
  return additional(schema)
}

function additional({ additionalProperties }: Schema): Schema {
  return typeof additionalProperties === 'object' ? additionalProperties : {}
}

function isMembers(value: Value | undefined): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function at(value: Value | undefined, path: Path): Value | undefined {
  let found: Value | undefined = value
  for (const step of path) {
    if (typeof found !== 'object' || found === null) return undefined
    found = (found as Record<string | number, Value>)[step]
  }
  return found
}

function put<T extends Value>(value: T, path: Path, item: Value): T {
  const copy = clone(value)
  let place = copy as Record<string | number, Value>
  for (const [index, step] of path.slice(0, -1).entries()) {
    place[step] ??= typeof path[index + 1] === 'number' ? [] : {}
    place = place[step] as Record<string | number, Value>
  }
  place[path.at(-1)!] = item
  return copy
}

function without(value: Members, path: Path): Members {
  const copy = clone(value)
  const parent = at(copy, path.slice(0, -1))
  const last = path.at(-1)!
  if (Array.isArray(parent)) parent.splice(Number(last), 1)
  else if (isMembers(parent)) delete parent[last]
  return copy
}

function clone<T extends Value>(value: T): T {
  return structuredClone(value)
}

function size(value: Value): number {
  return JSON.stringify(value).length
}

/** Splits `spec.containers[0].env[key]` into steps. */
function pathOf(field: string): Path {
  return [...field.matchAll(/\[([^\]]*)\]|([^.[\]]+)/g)].map(([, inside, name]) =>
    inside === undefined ? name! : /^\d+$/.test(inside) ? Number(inside) : inside,
  )
}

function fieldOf(path: Path): string {
  return path
    .map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`))
    .join('')
    .replace(/^\./, '')
}

function startsWith(path: Path, head: Path): boolean {
  return head.every((step, index) => path[index] === step)
}
