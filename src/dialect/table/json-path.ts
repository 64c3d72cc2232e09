/**
 * The part of Kubernetes' JSONPath that printer columns use: `.spec.size`, `['a.b']`, `.a\.b`, `[0]`, `[-1]`, `[*]` and
 * `[?(@.type=="Ready")]`, after which more may follow. A column shows one value, so the first match is all that is looked
 * for. Recursive descent, ranges and functions are refused: the column is then empty, as it is in the API server for a
 * path that finds nothing.
 */
export type JsonPath = readonly Step[]

type Step =
  | { readonly kind: 'member'; readonly name: string }
  | { readonly kind: 'index'; readonly index: number }
  | { readonly kind: 'any' }
  | {
      readonly kind: 'filter'
      readonly path: JsonPath
      readonly equal: boolean
      readonly value: string | number | boolean
    }

/** A path of a printer column is some dozens of characters; a longer one is not worth the time. */
const MAX_LENGTH = 1_024

/** null when it is not of the part that is understood. Braces around it are optional, as in `{.spec.size}`. */
export function parseJsonPath(text: string): JsonPath | null {
  if (text.length > MAX_LENGTH) return null
  const bare = text.startsWith('{') && text.endsWith('}') ? text.slice(1, -1) : text
  return parseSteps(bare.trim())
}

function parseSteps(text: string): Step[] | null {
  const steps: Step[] = []
  let i = text.startsWith('$') || text.startsWith('@') ? 1 : 0
  while (i < text.length) {
    if (text[i] === '.') {
      i++
      // `.[0]` is the same as `[0]`.
      if (text[i] === '[') continue
      let name = ''
      for (; i < text.length && text[i] !== '.' && text[i] !== '['; i++) {
        if (text[i] === '\\') i++
        name += text[i] ?? ''
      }
      if (name === '') return null
      steps.push(name === '*' ? { kind: 'any' } : { kind: 'member', name })
    } else if (text[i] === '[') {
      const end = closingBracket(text, i)
      if (end === -1) return null
      const step = parseBracket(text.slice(i + 1, end).trim())
      if (step === null) return null
      steps.push(step)
      i = end + 1
    } else {
      return null
    }
  }
  return steps
}

/** Quotes and inner brackets are skipped. */
function closingBracket(text: string, open: number): number {
  let quote = ''
  let depth = 0
  for (let i = open; i < text.length; i++) {
    const character = text[i]!
    if (quote !== '') {
      if (character === '\\') i++
      else if (character === quote) quote = ''
    } else if (character === '"' || character === "'") quote = character
    else if (character === '[') depth++
    else if (character === ']' && --depth === 0) return i
  }
  return -1
}

function parseBracket(inner: string): Step | null {
  if (inner === '*') return { kind: 'any' }
  if (/^-?\d{1,9}$/.test(inner)) return { kind: 'index', index: Number(inner) }
  const name = /^(['"])(.*)\1$/.exec(inner)?.[2]
  if (name !== undefined) return { kind: 'member', name: unescape(name) }
  if (!inner.startsWith('?(') || !inner.endsWith(')')) return null
  const comparison = inner.slice(2, -1)
  const at = comparison.search(/[=!]=/)
  if (at === -1) return null
  const left = comparison.slice(0, at).trim()
  const path = left.startsWith('@') ? parseSteps(left) : null
  const value = parseLiteral(comparison.slice(at + 2).trim())
  return path === null || value === null ? null : { kind: 'filter', path, equal: comparison[at] === '=', value }
}

function parseLiteral(text: string): string | number | boolean | null {
  const quoted = /^(['"])(.*)\1$/.exec(text)?.[2]
  if (quoted !== undefined) return unescape(quoted)
  if (text === 'true' || text === 'false') return text === 'true'
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : null
}

function unescape(text: string): string {
  return text.replace(/\\(.)/g, '$1')
}

/** The first value the path leads to; undefined when there is none. */
export function firstMatch(value: unknown, path: JsonPath, from = 0): unknown {
  const step = path[from]
  if (step === undefined) return value
  if (typeof value !== 'object' || value === null) return undefined
  switch (step.kind) {
    case 'member':
      return Object.hasOwn(value, step.name)
        ? firstMatch((value as Record<string, unknown>)[step.name], path, from + 1)
        : undefined
    case 'index':
      return Array.isArray(value) ? firstMatch(value.at(step.index), path, from + 1) : undefined
    case 'any':
    case 'filter': {
      for (const item of Array.isArray(value) ? (value as unknown[]) : Object.values(value)) {
        if (step.kind === 'filter' && (firstMatch(item, step.path) === step.value) !== step.equal) continue
        const found = firstMatch(item, path, from + 1)
        if (found !== undefined) return found
      }
      return undefined
    }
  }
}
