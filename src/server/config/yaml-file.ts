/**
 * Reads the raw values given for each option, and the entries of the resource table, from the YAML file. Every problem
 * is reported with its line and column. The reader walks the syntax tree instead of converting it to an object. That
 * keeps the positions, and makes a key such as `__proto__` an ordinary unknown key.
 */
import { isMap, isScalar, isSeq, type LineCounter, type Node, offsetOf, parseYaml } from '../../support/yaml.js'

import type { ResourceDeclaration } from '../../kubernetes/dialect/declared-resource.js'
import { quote } from './option.js'
import { optionNames, options, type OptionName, keyOf, yamlKey } from './options.js'
import { adviceOn } from './removed-options.js'
import { nearestName } from '../../support/nearest-name.js'

export interface YamlValue {
  readonly texts: readonly string[]
  /** `config.yaml:3:7`. */
  readonly place: string
}

export interface YamlFile {
  readonly values: ReadonlyMap<OptionName, YamlValue>
  /** The names in those entries of `resources:` that consist only of the name of a known resource. */
  readonly resourceNames: readonly string[]
  readonly declarations: readonly ResourceDeclaration[]
  readonly problems: readonly string[]
}

/** The members of an entry of `resources:`, with the types from `ResourceDeclaration`. */
export const RESOURCE_FIELDS = {
  name: 'string',
  prefix: 'string',
  prefixBytes: 'string',
  exact: 'boolean',
  group: 'string',
  version: 'string',
  kind: 'string',
  namespaced: 'boolean',
  objects: 'boolean',
  shortNames: 'strings',
} as const satisfies Record<keyof ResourceDeclaration, 'string' | 'boolean' | 'strings'>

/** A configuration is written by hand; a longer file must be the wrong one. */
const MAX_FILE_CHARACTERS = 1_048_576

const byKey = new Map<string, OptionName>(
  optionNames.flatMap((name) => {
    const key = yamlKey(name)
    return key === null ? [] : [[key, name] as const]
  }),
)

export function parseYamlFile(path: string, text: string): YamlFile {
  const reader = new Reader(path, text)
  reader.read()
  return reader
}

class Reader implements YamlFile {
  readonly values = new Map<OptionName, YamlValue>()
  readonly resourceNames: string[] = []
  readonly declarations: ResourceDeclaration[] = []
  readonly problems: string[] = []
  private lines: LineCounter | null = null

  constructor(
    private readonly path: string,
    private readonly text: string,
  ) {}

  read(): void {
    if (this.text.length > MAX_FILE_CHARACTERS) {
      this.problems.push(`${this.path}: ${this.text.length} characters, more than the limit of ${MAX_FILE_CHARACTERS}`)
      return
    }
    const { document, lines } = parseYaml(this.text, { uniqueKeys: true })
    this.lines = lines
    for (const error of document.errors) this.problem(error.pos[0], error.message)
    if (document.errors.length > 0 || document.contents === null) return
    if (!isMap<Node, Node | null>(document.contents)) {
      this.problem(offsetOf(document.contents), 'the file must contain one mapping of options')
      return
    }
    for (const { key, value } of document.contents.items) {
      const name = isScalar(key) ? String(key.value) : ''
      if (name === 'resources') this.readResources(value, offsetOf(key))
      else this.readOption(name, offsetOf(key), value)
    }
  }

  private readOption(key: string, offset: number, value: Node | null): void {
    const name = byKey.get(key)
    if (name === undefined) {
      const advice = adviceOn(key, [...byKey.keys(), 'resources'], keyOf)
      this.problem(offset, `unknown option ${quote(key)}${advice}`)
      return
    }
    if (value === null || (isScalar(value) && value.value === null)) return
    const place = this.place(offsetOf(value))
    const { kind } = options[name]
    if (isSeq<Node>(value) && kind === 'list') {
      const texts: string[] = []
      for (const item of value.items) {
        const text = scalarText(item)
        if (text === null) this.problem(offsetOf(item), `${key}: items must be plain values`)
        else texts.push(text)
      }
      this.values.set(name, { texts, place })
      return
    }
    const text = scalarText(value)
    if (text === null)
      this.problem(offsetOf(value), `${key} must be a plain value${kind === 'list' ? ' or a list' : ''}`)
    else if (kind === 'boolean' && isScalar(value) && typeof value.value !== 'boolean') {
      this.problem(offsetOf(value), `${key} must be true or false, not ${quote(text)}`)
    } else this.values.set(name, { texts: [text], place })
  }

  private readResources(value: Node | null, offset: number): void {
    if (!isSeq<Node>(value)) {
      this.problem(offset, 'resources must be a list')
      return
    }
    for (const item of value.items) {
      const fields = this.readResource(item)
      if (fields === null) continue
      const { name, prefix, prefixBytes } = fields
      const extra = Object.keys(fields).find((field) => field !== 'name')
      if (name === undefined) this.problem(offsetOf(item), 'resources: an entry needs a name')
      else if (prefix !== undefined || prefixBytes !== undefined) this.declarations.push({ ...fields, name })
      else if (extra === undefined) this.resourceNames.push(name)
      else
        this.problem(
          offsetOf(item),
          `resources: ${quote(name)} has ${extra} and no prefix; a known resource takes only a name`,
        )
    }
  }

  private readResource(item: Node): Partial<ResourceDeclaration> | null {
    if (!isMap<Node, Node | null>(item)) {
      this.problem(offsetOf(item), 'resources: each entry must be a mapping with a name')
      return null
    }
    const known = new Map<string, string>(Object.entries(RESOURCE_FIELDS))
    const fields = new Map<string, string | boolean | readonly string[]>()
    const problemsBefore = this.problems.length
    for (const { key, value } of item.items) {
      const field = isScalar(key) ? String(key.value) : ''
      const type = known.get(field)
      if (type === undefined) {
        const nearest = nearestName(field, known.keys())
        this.problem(
          offsetOf(key),
          `resources: unknown field ${quote(field)}${nearest === null ? '' : `; did you mean ${nearest}?`}`,
        )
        continue
      }
      const read = readTyped(type, value)
      if (read === null) this.problem(offsetOf(value ?? key), `resources: ${field} must be ${TYPE_NAMES[type]}`)
      else fields.set(field, read)
    }
    // Every member was checked against RESOURCE_FIELDS, which matches the type.
    return this.problems.length > problemsBefore ? null : (Object.fromEntries(fields) as Partial<ResourceDeclaration>)
  }

  private place(offset: number): string {
    const { line, col } = this.lines!.linePos(offset)
    return `${this.path}:${line}:${col}`
  }

  private problem(offset: number, message: string): void {
    this.problems.push(`${this.place(offset)}: ${message}`)
  }
}

const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: 'a string',
  boolean: 'true or false',
  strings: 'a list of strings',
}

function readTyped(type: string, value: Node | null): string | boolean | readonly string[] | null {
  if (type === 'strings') {
    if (!isSeq<Node>(value)) return null
    const texts = value.items.map(scalarText)
    return texts.every((text) => text !== null) ? texts : null
  }
  if (type === 'boolean') return isScalar(value) && typeof value.value === 'boolean' ? value.value : null
  return isScalar(value) && typeof value.value === 'string' ? value.value : null
}

/** Returns the text as written: `1.10` stays unchanged, and `0644` is not octal. */
function scalarText(node: Node | null): string | null {
  if (!isScalar(node)) return null
  if (typeof node.value === 'string') return node.value
  const plain = typeof node.value === 'number' || typeof node.value === 'boolean'
  return plain ? (node.source ?? String(node.value)) : null
}
