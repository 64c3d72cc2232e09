/**
 * kubectl's JSONPath templates: text with expressions in braces, `{.items[*].metadata.name}`, and ranges over what an
 * expression finds, `{range .items[*]}…{end}`. A template without braces is one expression.
 */
import { type JsonPath, JsonPathSyntaxError, parseParts, type TemplatePart } from '../../codec/json-path/parse.js'
import { UsageError } from '../exit-code.js'

export type Part =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'path'; readonly path: JsonPath }
  | { readonly kind: 'range'; readonly path: JsonPath; readonly body: readonly Part[] }

/** @throws UsageError */
export function parseTemplate(text: string): readonly Part[] {
  try {
    const parts = parseParts(text.includes('{') ? text : `{${/^[.[$@]/.test(text) ? '' : '.'}${text}}`)
    return new Nesting(parts).read()
  } catch (error) {
    if (!(error instanceof JsonPathSyntaxError)) throw error
    throw new UsageError(`jsonpath ${JSON.stringify(text)}: ${error.message}`)
  }
}

/** Nests the parts between `range` and `end` under the range. */
class Nesting {
  #at = 0

  constructor(private readonly parts: readonly TemplatePart[]) {}

  read(): readonly Part[] {
    const found = this.#body()
    if (this.#at < this.parts.length) throw new JsonPathSyntaxError('{end} without {range}')
    return found
  }

  /** Reads up to the end of the template, or to the `end` that closes the current range. */
  #body(): readonly Part[] {
    const found: Part[] = []
    for (; this.#at < this.parts.length; this.#at++) {
      const part = this.parts[this.#at]!
      if (part.kind === 'text') found.push(part)
      else {
        const [first, ...path] = part.path
        const word = first?.kind === 'word' ? first.word : null
        if (word === 'end') return found
        if (word === 'range') {
          this.#at++
          const body = this.#body()
          if (this.#at >= this.parts.length) throw new JsonPathSyntaxError('{range} without {end}')
          found.push({ kind: 'range', path, body })
        } else if (word === null) found.push({ kind: 'path', path: part.path })
        else throw new JsonPathSyntaxError(`unrecognized identifier ${word}: a path begins with a dot`)
      }
    }
    return found
  }
}
