/**
 * Finds the unknown and duplicate fields of a JSON body, in the order in which the API server's strict decoder meets
 * them. It does not look inside unknown fields, or fields that take any JSON. The parsed tree has lost the duplicates,
 * so bodies with duplicates are read a second time here.
 */
import { decodeString } from '../../engine/facts/json-strings.js'
import { endOfString, endOfValue, skipSpace } from '../../support/json-walk.js'
import { duplicateField, joinPath, MAX_DUPLICATES } from '../codec/json-tree.js'
import type { Shape } from './shape.js'

/** @param json one valid JSON value, not too deeply nested. */
export function strictProblems(json: Buffer, shape: Shape): readonly string[] {
  const walk = new Walk(json)
  walk.value(shape)
  return [...walk.problems]
}

class Walk {
  /** As in the API server, equal problems are reported once. */
  readonly problems = new Set<string>()
  #found = 0
  #at = 0
  readonly #path: string[] = []

  constructor(private readonly json: Buffer) {}

  value(shape: Shape): void {
    const { json } = this
    this.#at = skipSpace(json, this.#at)
    const isObject = json[this.#at] === 0x7b && (shape.type === 'object' || shape.type === 'map')
    const isList = json[this.#at] === 0x5b && shape.type === 'list'
    if (isObject) this.#object(shape)
    else if (isList) for (let i = 0; this.#next(0x5d); i++) this.#child(`[${i}]`, shape.items)
    else this.#at = endOfValue(json, this.#at)
  }

  #object(shape: Shape): void {
    const { json } = this
    const seen = new Set<string>()
    while (this.#next(0x7d)) {
      const end = endOfString(json, this.#at)
      const name = decodeString(json, this.#at, end)
      this.#at = skipSpace(json, end) + 1
      const member = shape.member(name)
      if (member === undefined) {
        this.#add(unknownField, name)
        this.#at = endOfValue(json, skipSpace(json, this.#at))
        continue
      }
      if (seen.has(name)) this.#add(duplicateField, name)
      seen.add(name)
      this.#child(name, member)
    }
  }

  #child(name: string, shape: Shape): void {
    this.#path.push(name)
    this.value(shape)
    this.#path.pop()
  }

  /** Equal problems count as well, because a path's text can be as long as the body. */
  #add(problemAt: (path: string) => string, name: string): void {
    if (this.#found++ < MAX_DUPLICATES) this.problems.add(problemAt(joinPath([...this.#path, name])))
  }

  /** Steps into a container or over its comma; at the end it steps past it and returns false. */
  #next(close: number): boolean {
    const { json } = this
    this.#at = skipSpace(json, this.#at)
    if (json[this.#at++] === close) return false
    this.#at = skipSpace(json, this.#at)
    if (json[this.#at] !== close) return true
    this.#at++
    return false
  }
}

export function unknownField(path: string): string {
  return `unknown field ${JSON.stringify(path)}`
}
