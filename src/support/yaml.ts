/**
 * The one way to parse YAML in this project. It bounds how deeply a text may nest before anything recurses on it: the
 * library's composer recurses, and at the end of the stack V8 may abort the process instead of throwing. The depth is
 * what the library's own parser holds open after each token, so brackets in a text or a comment do not count.
 *
 * The work is bounded as well, because bodies are parsed on the event loop: the first error ends it, aliases are
 * counted, and nothing is compared with everything before it: tags for which the library does that (`!!omap`) mean
 * nothing, and repeated keys are found here.
 *
 * The library is loaded on the first call, because it has seventy files and most servers never read YAML.
 */
import { createRequire } from 'node:module'
import type * as Yaml from 'yaml'

export type { Alias, LineCounter, Node, Scalar, YAMLMap } from 'yaml'
import { MAX_ALIASES, MAX_YAML_DEPTH } from './limits.js'

type Library = typeof Yaml

const require = createRequire(import.meta.url)
let loaded: Library | null = null

function library(): Library {
  return (loaded ??= require('yaml') as Library)
}

type Functions = { [K in keyof Library]: Library[K] extends (...given: never[]) => unknown ? K : never }[keyof Library]

function lazily<K extends Functions>(name: K): Library[K] {
  const call = (...given: unknown[]): unknown => (library()[name] as (...given: unknown[]) => unknown)(...given)
  return call as unknown as Library[K]
}

export const isAlias: Library['isAlias'] = lazily('isAlias')
export const isMap: Library['isMap'] = lazily('isMap')
export const isNode: Library['isNode'] = lazily('isNode')
export const isScalar: Library['isScalar'] = lazily('isScalar')
export const isSeq: Library['isSeq'] = lazily('isSeq')

/** Returns where a node begins in the text; 0 for no node. */
export function offsetOf(node: Yaml.Node | null): number {
  return node?.range?.[0] ?? 0
}

export interface ParsedYaml {
  /** The only document, or an empty one with the first error; without contents if the text has none. */
  readonly document: Yaml.Document.Parsed
  readonly lines: Yaml.LineCounter
}

/** @param options `uniqueKeys`: whether a repeated key is an error. */
export function parseYaml(text: string, options: { readonly uniqueKeys: boolean }): ParsedYaml {
  const { Composer, Document, LineCounter, YAMLParseError } = library()
  const lines = new LineCounter()
  let first: Yaml.YAMLParseError | null = null
  // The composer catches what is thrown inside a collection and reports it, which ends here again.
  const fail: Fail = (at, code, message) => {
    throw (first ??= new YAMLParseError(at, code, message))
  }
  const composer = new Composer({ uniqueKeys: false, resolveKnownTags: false, logLevel: 'error' })
  Object.assign(composer, { onError: reporter(fail) })
  try {
    const [document, second] = composer.compose(boundedTokens(text, lines, fail), true, text.length)
    if (second !== undefined)
      fail([second.range[0], second.range[0] + 1], 'MULTIPLE_DOCS', 'it holds more than one document')
    if (options.uniqueKeys) requireUniqueKeys(document as Yaml.Document.Parsed, fail)
    return { document: document as Yaml.Document.Parsed, lines }
  } catch (error) {
    if (first === null) throw error
    const document = new Document(null) as unknown as Yaml.Document.Parsed
    document.errors.push(first)
    return { document, lines }
  }
}

function requireUniqueKeys(document: Yaml.Document.Parsed, fail: Fail): void {
  library().visit(document, {
    Map: (_, { items }) => {
      const keys = new Set<unknown>()
      for (const { key } of items) {
        if (!isScalar(key)) continue
        const at = offsetOf(key)
        if (keys.has(key.value)) fail([at, at + 1], 'DUPLICATE_KEY', 'Map keys must be unique')
        keys.add(key.value)
      }
    },
  })
}

type Fail = (at: [number, number], code: Yaml.ErrorCode, message: string) => never

/** Returns the composer's own callback. It would keep every error and warning, each with its stack. */
function reporter(fail: Fail) {
  type Source = number | [number, number, number?] | { readonly offset: number }
  return (source: Source, code: Yaml.ErrorCode, message: string, isWarning?: boolean): void => {
    if (isWarning === true) return
    const start = typeof source === 'number' ? source : Array.isArray(source) ? source[0] : source.offset
    fail([start, start + 1], code, message)
  }
}

/** Returns a text's value. @throws SyntaxError with the position. */
export function readYaml(text: string): unknown {
  const parsed = parseYaml(text, { uniqueKeys: true })
  throwFirstError(parsed)
  return parsed.document.toJS() as unknown
}

/** @throws SyntaxError with the position. */
export function throwFirstError({ document, lines }: ParsedYaml): void {
  const [error] = document.errors
  if (error === undefined) return
  const { line, col } = lines.linePos(error.pos[0])
  throw new SyntaxError(`${error.message} at line ${line}, column ${col}`)
}

/** Yields what the library's `Parser.parse` yields. Nesting too deeply is an error, and so are too many aliases. */
function* boundedTokens(text: string, lines: Yaml.LineCounter, fail: Fail): Generator<Yaml.CST.Token> {
  const { Lexer, Parser } = library()
  const parser = new Parser(lines.addNewLine)
  const refuse = (message: string): never => fail([parser.offset, parser.offset + 1], 'RESOURCE_EXHAUSTION', message)
  let aliases = 0
  lines.addNewLine(0)
  for (const lexeme of new Lexer().lex(text)) {
    for (const token of parser.next(lexeme)) {
      if (token.type === 'error') fail([token.offset, token.offset + 1], 'UNEXPECTED_TOKEN', token.message)
      yield token
    }
    if (lexeme.startsWith('*') && ++aliases > MAX_ALIASES) refuse(`it has more than ${MAX_ALIASES} aliases`)
    // The stack also holds the document, and the scalar in the innermost collection.
    if (parser.stack.length > MAX_YAML_DEPTH + 2) refuse(`it is nested more than ${MAX_YAML_DEPTH} deep`)
  }
  yield* parser.end()
}
