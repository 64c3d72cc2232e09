/**
 * Parses YAML bodies into a JSON tree. Aliases are bounded, and merge keys are followed. Anything that JSON cannot
 * express is rejected.
 */
import {
  type Alias,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  type Node,
  parseYaml,
  throwFirstError,
  type YAMLMap,
} from '../../support/yaml.js'
import { extendPath, type Json, type JsonRecord, MAX_DUPLICATES, type ParsedJson, record } from './json-tree.js'
import { keyText, scalar } from './yaml-scalar.js'
import { MAX_ALIASED_VALUES, MAX_JSON_DEPTH } from '../model/limits.js'
import { MAX_ALIASES } from '../../support/limits.js'

/** Bytes of text that count as one more value. */
const BYTES_PER_VALUE = 64

/** Go's YAML writes this heading once, before the problems of all lines. */
export const YAML_PROBLEMS = 'yaml: unmarshal errors:\n  '

/** @throws SyntaxError with the position, if it is known. */
export function parseYamlTree(text: string): ParsedJson {
  const parsed = parseYaml(text, { uniqueKeys: false })
  throwFirstError(parsed)
  const duplicates: string[] = []
  let aliases = 0
  let aliased = 0
  /** Anchors by name; an alias means the last one before it. The library's own lookup would walk the whole document. */
  const anchors = new Map<string, Node>()
  let aliasDepth = 0
  const path: string[] = []
  /** Counts each alias that is followed: a few lines of aliases to aliases can expand to gigabytes. */
  const followed = <T>({ source }: Alias, then: (target: Node) => T): T => {
    if (++aliases > MAX_ALIASES) throw new SyntaxError(`it has more than ${MAX_ALIASES} aliases`)
    const target = anchors.get(source)
    if (target === undefined) throw new SyntaxError(`the anchor ${JSON.stringify(source)} is unknown`)
    aliasDepth++
    const result = then(target)
    aliasDepth--
    return result
  }
  const entered = (node: Node): void => {
    if (aliasDepth === 0) {
      if (node.anchor !== undefined) anchors.set(node.anchor, node)
      return
    }
    aliased += 1 + (isScalar(node) && typeof node.value === 'string' ? node.value.length / BYTES_PER_VALUE : 0)
    if (aliased > MAX_ALIASED_VALUES)
      throw new SyntaxError(`its aliases expand to more than ${MAX_ALIASED_VALUES} values`)
  }
  const toTree = (node: unknown): Json => {
    if (path.length > MAX_JSON_DEPTH) throw new SyntaxError(`it is nested more than ${MAX_JSON_DEPTH} deep`)
    if (node === null || node === undefined) return null
    if (isAlias(node)) return followed(node, toTree)
    if (isNode(node)) entered(node)
    if (isScalar(node)) return scalar(node)
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
    fill(members, node)
    return members
  }
  const fill = (members: JsonRecord, map: YAMLMap): void => {
    for (const { key, value } of map.items) {
      if (isMergeKey(key)) {
        path.push('<<')
        merge(members, value)
        path.pop()
        continue
      }
      if (isScalar(key)) entered(key)
      const name = isScalar(key) ? keyText(key) : null
      if (name === null) throw new SyntaxError('a key is not a scalar')
      if (Object.hasOwn(members, name) && duplicates.length < MAX_DUPLICATES) {
        const at = (isNode(value) ? value : isNode(key) ? key : null)?.range?.[0] ?? 0
        duplicates.push(
          `line ${parsed.lines.linePos(at).line}: key ${JSON.stringify(extendPath('', name))} already set in map`,
        )
      }
      path.push(name)
      members[name] = toTree(value)
      path.pop()
    }
  }
  /**
   * Merges as the API server does. The last of equal members wins, whether merged or not. In a list of maps, the
   * first map wins.
   */
  const merge = (members: JsonRecord, from: unknown): void => {
    if (path.length > MAX_JSON_DEPTH) throw new SyntaxError(`it is nested more than ${MAX_JSON_DEPTH} deep`)
    if (!isSeq(from)) return mergeMap(members, from)
    entered(from)
    for (const item of [...from.items].reverse()) mergeMap(members, item)
  }
  const mergeMap = (members: JsonRecord, map: unknown): void => {
    if (isAlias(map)) return followed(map, (target) => mergeMap(members, target))
    if (!isMap(map)) throw new SyntaxError('a merge key (<<) takes a map or a list of maps')
    entered(map)
    fill(members, map)
  }
  const value = toTree(parsed.document.contents)
  return { value, duplicates: duplicates.length === 0 ? [] : [`${YAML_PROBLEMS}${duplicates.join('\n  ')}`] }
}

/** Whether a key is the merge key `<<`. In quotes it is a key like any other. */
function isMergeKey(key: unknown): boolean {
  if (!isScalar(key) || key.source !== '<<') return false
  return key.tag === undefined ? key.type === 'PLAIN' : key.tag === 'tag:yaml.org,2002:merge'
}
