/**
 * Parses YAML bodies into a JSON tree. Numbers keep their digits, and anything that JSON cannot express is rejected.
 */
import {
  createLineCounter,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  type Node,
  parseAllDocuments,
} from '../../support/yaml.js'
import { MAX_JSON_DEPTH } from './json-scan.js'
import { joinPath, type Json, MAX_DUPLICATES, numberFromText, type ParsedJson, record } from './json-tree.js'

/** The most aliases resolved in one document: a few lines of them can stand for gigabytes. */
const MAX_ALIASES = 100
/** The most values that aliases may stand for in one document; a long text counts as several. */
const MAX_ALIASED = 200_000
/** Bytes of text that count as one more value. */
const BYTES_PER_VALUE = 64
const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/

/** @throws SyntaxError with the position, as far as known. */
export function parseYamlTree(text: string): ParsedJson {
  const documents = parseAllDocuments(text, { lineCounter: createLineCounter(), uniqueKeys: false, merge: true })
  const list = Array.isArray(documents) ? documents : []
  if (list.length > 1) throw new SyntaxError('it holds more than one document')
  const document = list[0]
  if (document === undefined) return { value: null, duplicates: [] }
  const [error] = document.errors
  if (error !== undefined) throw new SyntaxError(error.message)
  const duplicates: string[] = []
  let aliases = 0
  let aliased = 0
  /** Anchors by name. The last one before the alias counts. The library's own lookup would walk the whole document. */
  const anchors = new Map<string, Node>()
  let aliasDepth = 0
  const path: string[] = []
  const toTree = (node: unknown): Json => {
    if (path.length > MAX_JSON_DEPTH) throw new SyntaxError(`it is nested more than ${MAX_JSON_DEPTH} deep`)
    if (node === null || node === undefined) return null
    if (isAlias(node)) {
      if (++aliases > MAX_ALIASES) throw new SyntaxError(`it has more than ${MAX_ALIASES} aliases`)
      aliasDepth++
      const value = toTree(anchors.get(node.source))
      aliasDepth--
      return value
    }
    if (aliasDepth === 0 && isNode(node) && node.anchor !== undefined) anchors.set(node.anchor, node)
    if (aliasDepth > 0) {
      aliased += 1 + (isScalar(node) && typeof node.value === 'string' ? node.value.length / BYTES_PER_VALUE : 0)
      if (aliased > MAX_ALIASED) throw new SyntaxError(`its aliases stand for more than ${MAX_ALIASED} values`)
    }
    if (isScalar(node)) return scalar(node.value, node.source)
    if (isSeq(node)) {
      return node.items.map((item, i) => {
        path.push(`[${i}]`)
        const value = toTree(item)
        path.pop()
        return value
      })
    }
    if (!isMap(node)) throw new SyntaxError('it has a value that JSON cannot express')
    const members = record()
    for (const { key, value } of node.items) {
      if (aliasDepth === 0 && isScalar(key) && key.anchor !== undefined) anchors.set(key.anchor, key)
      const name = isScalar(key) ? keyText(key.value, key.source) : null
      if (name === null) throw new SyntaxError('a key is not a scalar')
      if (Object.hasOwn(members, name) && duplicates.length < MAX_DUPLICATES) {
        duplicates.push(joinPath([...path, name]))
      }
      path.push(name)
      members[name] = toTree(value)
      path.pop()
    }
    return members
  }
  return { value: toTree(document.contents), duplicates }
}

function scalar(value: unknown, source: string | undefined): Json {
  if (typeof value === 'string' || typeof value === 'boolean') return value
  if (value === null || value === undefined) return null
  if (typeof value !== 'number') throw new SyntaxError(`${source ?? typeof value} has no JSON`)
  if (source !== undefined && JSON_NUMBER.test(source)) return numberFromText(source)
  if (!Number.isFinite(value)) throw new SyntaxError(`${source ?? String(value)} has no JSON`)
  return numberFromText(String(value))
}

function keyText(value: unknown, source: string | undefined): string | null {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'boolean') return source ?? String(value)
  return value === null ? 'null' : null
}
