/**
 * Patterns of schemas, in RE2's grammar and in time linear in the text, so that the author of a definition cannot
 * stop the server with `^([a-z0-9]+-?)+$`. Look-ahead and back references do not exist in that grammar, as in the API
 * server.
 */
import { LRUCache } from 'lru-cache'
import { RE2JS } from 're2js'
import { errorMessage } from '../../support/error-message.js'
import { MAX_PATTERN_LENGTH } from '../model/limits.js'

const compiled = new LRUCache<string, RE2JS>({ max: 1_000 })

export interface Pattern {
  /** Whether the pattern matches anywhere in the text. */
  test(text: string): boolean
}

/** @throws SyntaxError if the source is not an RE2 pattern, or is too long to compile here. */
export function compilePattern(source: string): Pattern {
  const known = compiled.get(source)
  if (known !== undefined) return known
  if (source.length > MAX_PATTERN_LENGTH) {
    throw new SyntaxError(`a pattern of ${source.length} characters is longer than ${MAX_PATTERN_LENGTH}`)
  }
  let made: RE2JS
  try {
    made = RE2JS.compile(source)
  } catch (error) {
    const why = errorMessage(error)
    throw new SyntaxError(why.replace('parsing regexp', 'parsing regular expression'), { cause: error })
  }
  compiled.set(source, made)
  return made
}
