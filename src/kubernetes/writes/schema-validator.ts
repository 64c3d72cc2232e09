/**
 * Validates an object against the schema of its definition, field by field, in the API server's words. The walk visits
 * each value once for every place in the schema that applies to it, and stops after enough problems.
 */
import { exactCopy } from '../codec/exact-json.js'
import { goNumber } from '../../engine/facts/numbers.js'
import { canonicalText, isNumber, isRecord, type Json, joinPath, treeFrom } from '../codec/json-tree.js'
import { type FieldProblem, invalid, notSupported, required, wrongType } from './field-errors.js'
import { textAt, textsAt } from '../../support/fields.js'
import { FORMATS } from './schema-formats.js'
import {
  boundOf,
  branchesOf,
  enumerationOf,
  innerOf,
  patternOf,
  propertyOf,
  type Schema,
  typesOf,
} from './schema-keywords.js'

export interface ValidationOptions {
  /** The walk ends after this many problems. */
  readonly maxProblems: number
  /** Receives parts of a stored schema that cannot be checked here. Those parts then allow everything. */
  readonly onUnusable: (problem: string) => void
}

/** @returns the problems without duplicates. */
export function schemaProblems(schema: Schema, object: Json, options: ValidationOptions): readonly FieldProblem[] {
  const validation = new Validation(schema, options)
  validation.check(schema, object)
  return validation.problems
}

/** Members of an object that our own rules check, whatever the schema says about them. */
const OURS: ReadonlySet<string> = new Set(['metadata', 'apiVersion', 'kind'])

class Validation {
  /** The problems of the branch being tried. */
  problems: FieldProblem[] = []
  readonly #path: string[] = []

  constructor(
    private readonly root: Schema,
    private readonly options: ValidationOptions,
  ) {}

  check(schema: Schema, value: Json): void {
    if (this.#isFull) return
    this.#checkType(schema, value)
    if (isNumber(value)) this.#checkNumber(schema, Number(value))
    else if (typeof value === 'string') this.#checkText(schema, value)
    const enumeration = enumerationOf(schema)
    if (enumeration?.has(value) === false) this.#add(notSupported(this.#field, value, enumeration.values))
    this.#checkBranches(schema, value)
    if (Array.isArray(value)) this.#checkItems(schema, value)
    else if (isRecord(value)) this.#checkMembers(schema, value)
  }

  #checkType(schema: Schema, value: Json): void {
    const types = typesOf(schema)
    if (types.length === 0) return
    const found = typeName(value)
    if (types.includes(found) || (found === 'integer' && types.includes('number'))) return
    const wanted = types.filter((type) => type !== 'null').join(',')
    this.#add(
      wrongType(this.#field, found, `${this.#field} in body must be of type ${wanted}: ${JSON.stringify(found)}`),
    )
  }

  #checkNumber(schema: Schema, value: number): void {
    for (const name of ['minimum', 'maximum'] as const) {
      const bound = boundOf(schema, name)
      if (bound === undefined) continue
      const isExclusive = schema[name === 'minimum' ? 'exclusiveMinimum' : 'exclusiveMaximum'] === true
      const distance = name === 'minimum' ? value - bound : bound - value
      if (distance > 0 || (distance === 0 && !isExclusive)) continue
      const word = name === 'minimum' ? 'greater' : 'less'
      this.#refuse(value, `should be ${word} than ${isExclusive ? '' : 'or equal to '}${bound}`)
    }
    const factor = boundOf(schema, 'multipleOf')
    if (factor !== undefined && !Number.isInteger(value / factor)) {
      this.#refuse(value, `should be a multiple of ${factor}`)
    }
  }

  #checkText(schema: Schema, value: string): void {
    const least = boundOf(schema, 'minLength')
    const most = boundOf(schema, 'maxLength')
    if (least !== undefined || most !== undefined) this.#checkSize(lengthOf(value), value, least, most, 'chars long')
    const [source, format] = [textAt(schema, 'pattern'), textAt(schema, 'format')]
    const pattern = source === '' ? null : patternOf(schema, source, this.options.onUnusable)
    if (pattern?.test(value) === false) this.#refuse(value, `should match '${source}'`)
    if (FORMATS.get(format)?.(value) === false) {
      this.#refuse(value, `must be of type ${format}: ${JSON.stringify(value.slice(0, 256))}`)
    }
  }

  #checkItems(schema: Schema, items: readonly Json[]): void {
    this.#checkSize(items.length, items, boundOf(schema, 'minItems'), boundOf(schema, 'maxItems'), 'items')
    if (schema['uniqueItems'] === true && !areUnique(items)) this.#refuse(items, "shouldn't contain duplicates")
    const inner = innerOf(schema, 'items')
    if (inner === undefined) return
    for (let i = 0; i < items.length && !this.#isFull; i++) this.#into(`[${i}]`, inner, items[i]!)
  }

  #checkMembers(schema: Schema, value: Readonly<Record<string, Json>>): void {
    const least = boundOf(schema, 'minProperties')
    const most = boundOf(schema, 'maxProperties')
    if (least !== undefined || most !== undefined) {
      this.#checkSize(Object.keys(value).length, value, least, most, 'properties')
    }
    for (const name of textsAt(schema, 'required')) {
      if (!Object.hasOwn(value, name)) this.#add(required(joinPath([...this.#path, name])))
      if (this.#isFull) return
    }
    for (const name in value) {
      if (this.#isFull) return
      if (schema === this.root && OURS.has(name)) continue
      const inner = propertyOf(schema, name) ?? innerOf(schema, 'additionalProperties')
      if (inner !== undefined) this.#into(name, inner, value[name]!)
    }
  }

  #checkSize(size: number, value: unknown, least: number | undefined, most: number | undefined, what: string): void {
    const verb = what === 'chars long' ? 'be' : 'have'
    if (most !== undefined && size > most) this.#refuse(value, `should ${verb} at most ${most} ${what}`)
    if (least !== undefined && size < least) this.#refuse(value, `should ${verb} at least ${least} ${what}`)
  }

  #checkBranches(schema: Schema, value: Json): void {
    const not = innerOf(schema, 'not')
    if (not !== undefined && this.#try(not, value).length === 0)
      this.#refuse(value, 'must not validate the schema (not)')
    for (const branch of branchesOf(schema, 'allOf')) this.check(branch, value)
    const any = branchesOf(schema, 'anyOf')
    if (any.length > 0) {
      const branchProblems: FieldProblem[] = []
      const isAny = any.some((branch) => {
        const problems = this.#try(branch, value)
        branchProblems.push(...problems)
        return problems.length === 0
      })
      if (!isAny) this.#refuseBranches(branchProblems, value, 'must validate at least one schema (anyOf)')
    }
    const one = branchesOf(schema, 'oneOf')
    if (one.length > 0) {
      const tried = one.map((branch) => this.#try(branch, value))
      const valid = tried.filter((problems) => problems.length === 0).length
      const branchProblems = valid === 0 ? tried.flat() : []
      if (valid !== 1) this.#refuseBranches(branchProblems, value, 'must validate one and only one schema (oneOf)')
    }
  }

  #refuseBranches(branchProblems: readonly FieldProblem[], value: Json, why: string): void {
    for (const problem of branchProblems) this.#add(problem)
    this.#refuse(value, why)
  }

  /** Returns the problems of one branch without reporting them. */
  #try(branch: Schema, value: Json): readonly FieldProblem[] {
    const outer = this.problems
    this.problems = []
    this.check(branch, value)
    const found = this.problems
    this.problems = outer
    return found
  }

  #into(name: string, schema: Schema, value: Json): void {
    this.#path.push(name)
    this.check(schema, value)
    this.#path.pop()
  }

  #refuse(value: unknown, why: string): void {
    this.#add(invalid(this.#field, value, `${this.#field} in body ${why}`))
  }

  #add(problem: FieldProblem): void {
    if (this.#isFull) return
    const isReported = this.problems.some(
      ({ field, message }) => field === problem.field && message === problem.message,
    )
    if (!isReported) this.problems.push(problem)
  }

  get #isFull(): boolean {
    return this.problems.length >= this.options.maxProblems
  }

  get #field(): string {
    return joinPath(this.#path)
  }
}

function typeName(value: Json): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  if (isNumber(value)) {
    // A client in Go could not read a list with a larger integer.
    const number = goNumber(value)
    return number.kind === 'int' || Number.isSafeInteger(number.float) ? 'integer' : 'number'
  }
  return typeof value
}

/** Returns the length in characters, as Go counts them. */
function lengthOf(text: string): number {
  let length = text.length
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    const isPair = unit >= 0xd8_00 && unit <= 0xdb_ff && (text.charCodeAt(i + 1) & 0xfc_00) === 0xdc_00
    if (isPair) length--
  }
  return length
}

function areUnique(items: readonly Json[]): boolean {
  const texts = new Set<string>()
  for (const item of items) texts.add(canonicalText(treeFrom(exactCopy(item))))
  return texts.size === items.length
}
