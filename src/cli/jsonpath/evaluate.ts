/** Renders a parsed JSONPath template for an object, as kubectl does. */
import { evaluatePath, JsonPathError } from '../../codec/json-path/evaluate.js'
import type { JsonPath } from '../../codec/json-path/parse.js'
import { printedValue } from '../../codec/json-path/print.js'
import type { Json } from '../../codec/json-tree.js'
import type { Part } from './parse.js'

/**
 * Values of one expression are separated by a space; objects and lists are JSON.
 *
 * An expression that does not fit the object (an index beyond the end) renders as nothing, like a field that is missing:
 * one object of many must not end a watch.
 */
export function renderTemplate(parts: readonly Part[], object: unknown): string {
  return render(parts, object as Json)
}

function render(parts: readonly Part[], value: Json): string {
  let text = ''
  for (const part of parts) {
    switch (part.kind) {
      case 'text':
        text += part.text
        break
      case 'path':
        text += found(part.path, value).map(printedValue).join(' ')
        break
      case 'range':
        for (const item of found(part.path, value)) text += render(part.body, item)
        break
      default:
        part satisfies never
    }
  }
  return text
}

/** Returns what a path finds; nothing when it does not fit the object. */
export function found(path: JsonPath, value: Json): readonly Json[] {
  try {
    return evaluatePath(path, value)
  } catch (error) {
    if (error instanceof JsonPathError) return []
    throw error
  }
}
