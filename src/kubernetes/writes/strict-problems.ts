/**
 * Finds the unknown and duplicate fields of a JSON body, in the order in which the API server's strict decoder finds
 * them. It does not look inside unknown fields, or inside fields that take any JSON. The parsed tree has lost the
 * duplicates, so bodies with duplicates are read a second time here.
 */
import { OPEN_BRACE, OPEN_BRACKET } from '../../support/json-walk.js'
import { JsonCursor } from '../codec/json-cursor.js'
import { duplicateField, joinPath, MAX_DUPLICATES } from '../codec/json-tree.js'
import type { Shape } from './shape.js'

/** @param json one valid JSON value, not too deeply nested. */
export function strictProblems(json: Buffer, shape: Shape): readonly string[] {
  const walk = new Walk(json)
  walk.value(shape)
  return [...walk.problems]
}

class Walk extends JsonCursor {
  /** As in the API server, a repeated problem is reported once. */
  readonly problems = new Set<string>()
  #found = 0
  readonly #path: string[] = []

  value(shape: Shape): void {
    const first = this.peek()
    if (first === OPEN_BRACE && (shape.type === 'object' || shape.type === 'map')) this.#object(shape)
    else if (first === OPEN_BRACKET && shape.type === 'list')
      for (let i = 0; this.next(); i++) this.#child(`[${i}]`, shape.items)
    else this.pass()
  }

  #object(shape: Shape): void {
    const seen = new Set<string>()
    while (this.next()) {
      const name = this.name()
      const member = shape.member(name)
      if (member === undefined) {
        this.#add(unknownField, name)
        this.pass()
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

  /** Repeated problems count towards the limit, because a path's text can be as long as the body. */
  #add(problemAt: (path: string) => string, name: string): void {
    if (this.#found++ < MAX_DUPLICATES) this.problems.add(problemAt(joinPath([...this.#path, name])))
  }
}

export function unknownField(path: string): string {
  return `unknown field ${JSON.stringify(path)}`
}
