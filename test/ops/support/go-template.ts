/**
 * Renders the subset of Go's text/template and Helm's functions that our chart uses: enough to render the chart where
 * no helm is installed, and to fail where helm would fail (an unbalanced block, an unknown function or template, a
 * field of nil). Stricter in one way: printing a missing value is an error here and an empty string there.
 *
 * A second implementation can be wrong in its own way, so where helm is installed the same test compares the two.
 */
import { createHash, randomBytes } from 'node:crypto'
import { parse, stringify } from 'yaml'
import type { KubernetesObject } from './kubernetes-objects.js'
import { genCA, genSignedCert } from './certificate-functions.js'

export class TemplateError extends Error {
  override readonly name = 'TemplateError'
}

type Value = unknown
type Map_ = Record<string, Value>

type Node =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'print'; readonly pipe: Pipe }
  | { readonly kind: 'set'; readonly name: string; readonly isNew: boolean; readonly pipe: Pipe }
  | { readonly kind: 'if' | 'with'; readonly pipe: Pipe; readonly body: Node[]; readonly else: Node[] }
  | { readonly kind: 'range'; readonly names: string[]; readonly pipe: Pipe; readonly body: Node[] }

/** Commands; the value of each is the last argument of the next. */
type Pipe = readonly (readonly Operand[])[]

type Operand =
  | { readonly kind: 'literal'; readonly value: Value }
  | { readonly kind: 'function'; readonly name: string }
  | { readonly kind: 'field'; readonly variable: string | null; readonly path: readonly string[] }
  | { readonly kind: 'pipe'; readonly pipe: Pipe }

interface Scope {
  readonly dot: Value
  readonly variables: Map<string, { value: Value }>
}

type GoFunction = (...args: Value[]) => Value

export class GoTemplates {
  readonly #named = new Map<string, Node[]>()
  readonly #cluster: readonly KubernetesObject[]

  /** @param cluster the objects that `lookup` finds. */
  constructor(cluster: readonly KubernetesObject[] = []) {
    this.#cluster = cluster
  }

  /** Parses a file: its `define`s become known to all; what is outside them is its own template. */
  add(file: string, source: string): void {
    this.#named.set(file, new Parser(file, source, this.#named).parse())
  }

  /** @throws TemplateError with the template's name. */
  render(name: string, dot: Value): string {
    const nodes = this.#named.get(name)
    if (nodes === undefined) throw new TemplateError(`no template ${JSON.stringify(name)}`)
    try {
      return this.#run(nodes, { dot, variables: new Map([['$', { value: dot }]]) })
    } catch (error) {
      throw new TemplateError(`${name}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }

  #run(nodes: readonly Node[], scope: Scope): string {
    return nodes.map((node) => this.#node(node, scope)).join('')
  }

  #node(node: Node, scope: Scope): string {
    switch (node.kind) {
      case 'text':
        return node.text
      case 'print': {
        const value = this.#pipe(node.pipe, scope)
        if (value === undefined || value === null) throw new TemplateError(`nothing to print in ${show(node.pipe)}`)
        if (typeof value === 'object') throw new TemplateError(`an object printed as text in ${show(node.pipe)}`)
        return text(value)
      }
      case 'set': {
        const value = this.#pipe(node.pipe, scope)
        const old = scope.variables.get(node.name)
        if (node.isNew) scope.variables.set(node.name, { value })
        else if (old === undefined) throw new TemplateError(`undefined variable ${node.name}`)
        else old.value = value
        return ''
      }
      case 'if':
      case 'with': {
        const value = this.#pipe(node.pipe, scope)
        const inner = child(scope, node.kind === 'with' && isTrue(value) ? value : scope.dot)
        return this.#run(isTrue(value) ? node.body : node.else, inner)
      }
      case 'range': {
        const value = this.#pipe(node.pipe, scope)
        const entries: [Value, Value][] = Array.isArray(value)
          ? value.map((item, i): [Value, Value] => [i, item])
          : Object.entries((value ?? {}) as Map_).sort(([a], [b]) => (a < b ? -1 : 1))
        return entries
          .map(([key, item]) => {
            const inner = child(scope, item)
            const [first, second] = node.names
            if (second !== undefined) {
              inner.variables.set(first!, { value: key })
              inner.variables.set(second, { value: item })
            } else if (first !== undefined) inner.variables.set(first, { value: item })
            return this.#run(node.body, inner)
          })
          .join('')
      }
    }
  }

  #pipe(pipe: Pipe, scope: Scope): Value {
    let last: Value[] = []
    for (const [head, ...rest] of pipe) {
      const args = [...rest.map((operand) => this.#operand(operand, scope)), ...last]
      if (head!.kind === 'function') last = [this.#call(head!.name, args)]
      else {
        const value = this.#operand(head!, scope)
        if (typeof value === 'function') last = [(value as GoFunction)(...args)]
        else if (args.length > 0) throw new TemplateError(`${show(pipe)}: cannot give arguments to a value`)
        else last = [value]
      }
    }
    return last[0]
  }

  #operand(operand: Operand, scope: Scope): Value {
    switch (operand.kind) {
      case 'literal':
        return operand.value
      case 'pipe':
        return this.#pipe(operand.pipe, scope)
      case 'function':
        return this.#call(operand.name, [])
      case 'field': {
        const { variable, path } = operand
        if (variable !== null && !scope.variables.has(variable)) {
          throw new TemplateError(`undefined variable ${variable}`)
        }
        let value = variable === null ? scope.dot : scope.variables.get(variable)?.value
        for (const name of path) {
          if (value === undefined || value === null || typeof value !== 'object') {
            throw new TemplateError(`.${path.join('.')}: nothing to take .${name} of`)
          }
          value = (value as Map_)[name]
        }
        return value
      }
    }
  }

  #call(name: string, args: Value[]): Value {
    if (name === 'include') return this.render(String(args[0]), args[1])
    if (name === 'tpl') return this.#template(String(args[0]), args[1])
    if (name === 'lookup') return this.#lookup(args.map(String))
    return FUNCTIONS[name]!(...args)
  }

  /** A string as a template that knows all the others. */
  #template(source: string, dot: Value): string {
    const nodes = new Parser('tpl', source, this.#named).parse()
    return this.#run(nodes, { dot, variables: new Map([['$', { value: dot }]]) })
  }

  #lookup([apiVersion, kind, namespace, name]: readonly string[]): Value {
    const found = this.#cluster.find(
      (object) =>
        object.apiVersion === apiVersion &&
        object.kind === kind &&
        object.metadata.name === name &&
        (object.metadata['namespace'] ?? namespace) === namespace,
    )
    return found ?? {}
  }
}

const FUNCTIONS: Readonly<Record<string, GoFunction>> = {
  // These three need the templates; here they are only declared.
  include: () => '',
  tpl: () => '',
  lookup: () => ({}),
  default: (fallback, value) => (isTrue(value) ? value : fallback),
  quote: (value) => JSON.stringify(String(value)),
  trunc: (length, text) => String(text).slice(0, Number(length)),
  trimSuffix: (suffix, text) =>
    String(text).endsWith(String(suffix)) ? String(text).slice(0, -String(suffix).length) : text,
  trimPrefix: (prefix, text) =>
    String(text).startsWith(String(prefix)) ? String(text).slice(String(prefix).length) : String(text),
  hasSuffix: (suffix, text) => String(text).endsWith(String(suffix)),
  toString: (value: Value) => String(value),
  replace: (old, replacement, text) => String(text).replaceAll(String(old), String(replacement)),
  regexReplaceAllLiteral: (pattern, text, replacement) =>
    String(text).replaceAll(new RegExp(String(pattern), 'g'), () => String(replacement)),
  regexMatch: (pattern, text) => new RegExp(String(pattern)).test(String(text)),
  regexFindAll: (pattern, text) => String(text).match(new RegExp(String(pattern), 'g')) ?? [],
  contains: (part, text) => String(text).includes(String(part)),
  printf: (format, ...args) => {
    let next = 0
    return String(format).replace(/%[sdq]/g, (verb) => {
      const value = args[next++]
      if (value === undefined) throw new TemplateError(`printf ${String(format)}: an argument is missing`)
      return verb === '%q' ? JSON.stringify(value) : text(value)
    })
  },
  nindent: (count, text) => `\n${indent(Number(count), String(text))}`,
  indent: (count, text) => indent(Number(count), String(text)),
  toYaml: (value) => stringify(value, { sortMapEntries: true, lineWidth: 0 }).trimEnd(),
  eq: (a, ...others) => others.includes(a),
  ne: (a, b) => a !== b,
  has: (item, list) => (list as readonly Value[]).includes(item),
  gt: (a, b) => Number(a) > Number(b),
  lt: (a, b) => Number(a) < Number(b),
  min: (...numbers) => Math.min(...numbers.map(Number)),
  add: (...numbers) => numbers.reduce((sum: number, number) => sum + Math.trunc(Number(number)), 0),
  addf: (...numbers) => numbers.reduce((sum: number, number) => sum + Number(number), 0),
  mulf: (...factors) => factors.reduce((product: number, factor) => product * Number(factor), 1),
  divf: (dividend, divisor) => Number(dividend) / Number(divisor),
  ceil: (number) => Math.ceil(Number(number)),
  float64: (value) => Number(value),
  mul: (...factors) => factors.reduce((product: number, factor) => product * Number(factor), 1),
  div: (dividend, divisor) => Math.trunc(Number(dividend) / Number(divisor)),
  // Only `>=1.N-0`.
  semverCompare: (constraint, version) => {
    const [oldest, minor] = [constraint, version].map((text) => Number(/1\.(\d+)/.exec(String(text))?.[1]))
    return minor! >= oldest!
  },
  not: (value) => !isTrue(value),
  and: (...values) => {
    const decides = values.findIndex((value) => !isTrue(value))
    // A missing value decides, too.
    return decides === -1 ? values.at(-1) : values[decides]
  },
  or: (...values) => values.find(isTrue) ?? values.at(-1),
  list: (...items) => items,
  append: (items, item) => [...(items as Value[]), item],
  splitList: (separator, text) => String(text).split(String(separator)),
  kindIs: (kind, value) => kind === (Array.isArray(value) ? 'slice' : isMap(value) ? 'map' : typeof value),
  fromYamlArray: (text) => parse(String(text)) as Value,
  fromYaml: (text) => parse(String(text)) as Value,
  b64dec: (text) => Buffer.from(String(text), 'base64').toString(),
  b64enc: (text) => Buffer.from(String(text)).toString('base64'),
  randAlphaNum: (length) => randomBytes(Number(length)).toString('hex').slice(0, Number(length)),
  genCA: (commonName, days) => genCA(String(commonName), Number(days)),
  genSignedCert: (commonName, addresses, names, days, ca) =>
    genSignedCert(
      String(commonName),
      [
        ...(addresses as string[]).map((address) => `IP:${address}`),
        ...(names as string[]).map((name) => `DNS:${name}`),
      ],
      Number(days),
      ca as ReturnType<typeof genCA>,
    ),
  join: (separator, items) => (items as Value[]).join(String(separator)),
  until: (count) => Array.from({ length: Number(count) }, (_, i) => i),
  int: (value) => Math.trunc(Number(value)),
  dict: (...pairs) => {
    const map: Map_ = {}
    for (let i = 0; i < pairs.length; i += 2) map[String(pairs[i])] = pairs[i + 1]
    return map
  },
  get: (map, key) => (map as Map_)[String(key)] ?? '',
  set: (map, key, value) => Object.assign(map as Map_, { [String(key)]: value }),
  ternary: (whenTrue, whenFalse, test) => (isTrue(test) ? whenTrue : whenFalse),
  sha256sum: (text) => createHash('sha256').update(String(text)).digest('hex'),
  fail: (message) => {
    throw new TemplateError(String(message))
  },
  required: (message, value) => {
    if (value === undefined || value === null || value === '') throw new TemplateError(String(message))
    return value
  },
}

/** Merges values over a chart's as helm does: a null removes the key. */
export function mergeValues(into: Map_, from: Map_): Map_ {
  for (const [key, value] of Object.entries(from)) {
    const old = into[key]
    if (value === null) delete into[key]
    else into[key] = isMap(old) && isMap(value) ? mergeValues(old, value) : value
  }
  return into
}

function isMap(value: Value): value is Map_ {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Returns the text of a value. Objects, whose text would be ambiguous, were rejected before. */
function text(value: Value): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function isTrue(value: Value): boolean {
  if (Array.isArray(value)) return value.length > 0
  if (isMap(value)) return Object.keys(value).length > 0
  return Boolean(value)
}

function indent(count: number, text: string): string {
  const space = ' '.repeat(count)
  return text
    .split('\n')
    .map((line) => space + line)
    .join('\n')
}

function child(scope: Scope, dot: Value): Scope {
  return { dot, variables: new Map(scope.variables) }
}

function show(pipe: Pipe): string {
  const text = (operand: Operand): string => {
    switch (operand.kind) {
      case 'literal':
        return JSON.stringify(operand.value)
      case 'function':
        return operand.name
      case 'field':
        return `${operand.variable ?? ''}.${operand.path.join('.')}`
      case 'pipe':
        return `(${show(operand.pipe)})`
    }
  }
  return pipe.map((command) => command.map(text).join(' ')).join(' | ')
}

const TOKEN = /\s*(?:("(?:[^"\\]|\\.)*")|(`[^`]*`)|(-?\d+(?:\.\d+)?)|(\$\w*)?((?:\.\w+)+|\.)?|)/y

class Parser {
  readonly #actions: { readonly text: string; readonly action: string | null }[] = []
  #next = 0

  constructor(
    readonly file: string,
    source: string,
    readonly named: Map<string, Node[]>,
  ) {
    let end = 0
    let trimNext = false
    const put = (raw: string, trimEnd: boolean, action: string | null): void => {
      const text = trimNext ? raw.trimStart() : raw
      this.#actions.push({ text: trimEnd ? text.trimEnd() : text, action })
    }
    for (const match of source.matchAll(
      /\{\{(-(?=\s))?\s*(\/\*[^]*?\*\/|(?:"(?:[^"\\]|\\.)*"|`[^`]*`|[^])*?)\s*(-)?\}\}/g,
    )) {
      put(source.slice(end, match.index), match[1] !== undefined, match[2]!.trim())
      trimNext = match[3] !== undefined
      end = match.index + match[0].length
    }
    put(source.slice(end), false, null)
    if (source.slice(end).includes('{{')) throw new TemplateError(`${file}: an action is not closed`)
  }

  parse(): Node[] {
    const { nodes, end } = this.#block()
    if (end !== null) throw new TemplateError(`${this.file}: {{ ${end} }} without a block`)
    return nodes
  }

  /** Up to `end`, `else…` or the end of the file (null). */
  #block(): { nodes: Node[]; end: string | null } {
    const nodes: Node[] = []
    for (;;) {
      const { text, action } = this.#actions[this.#next++]!
      if (text !== '') nodes.push({ kind: 'text', text })
      if (action === null) return { nodes, end: null }
      if (action.startsWith('/*') || action === '') continue
      if (action === 'end' || /^else\b/.test(action)) return { nodes, end: action }
      const node = this.#action(action)
      if (node !== null) nodes.push(node)
    }
  }

  #action(action: string): Node | null {
    const [, keyword = '', rest = ''] = /^(define|if|with|range)\s+([^]*)$/.exec(action) ?? []
    switch (keyword) {
      case 'define':
        this.named.set(JSON.parse(rest) as string, this.#untilEnd(action))
        return null
      case 'if':
      case 'with':
        return this.#branches(keyword, rest, action)
      case 'range': {
        const [, names, list] = /^((?:\$\w+\s*,\s*)?\$\w+)\s*:=\s*([^]*)$/.exec(rest) ?? [null, '', rest]
        // A single variable of a range is the item.
        const variables = names === '' ? [] : names!.split(',').map((name) => name.trim())
        return { kind: 'range', names: variables, pipe: this.#pipe(list!), body: this.#untilEnd(action) }
      }
      default: {
        const [, name, operator, value] = /^(\$\w+)\s*(:?=)\s*([^]*)$/.exec(action) ?? []
        if (name !== undefined) return { kind: 'set', name, isNew: operator === ':=', pipe: this.#pipe(value!) }
        return { kind: 'print', pipe: this.#pipe(action) }
      }
    }
  }

  #branches(kind: 'if' | 'with', condition: string, action: string): Node {
    const pipe = this.#pipe(condition)
    const { nodes, end } = this.#block()
    if (end === null) throw new TemplateError(`${this.file}: {{ ${action} }} is not ended`)
    if (end === 'end') return { kind, pipe, body: nodes, else: [] }
    const elseIf = /^else\s+if\s+([^]*)$/.exec(end)
    if (elseIf) return { kind, pipe, body: nodes, else: [this.#branches('if', elseIf[1]!, end)] }
    return { kind, pipe, body: nodes, else: this.#untilEnd(action) }
  }

  #untilEnd(action: string): Node[] {
    const { nodes, end } = this.#block()
    if (end !== 'end') throw new TemplateError(`${this.file}: {{ ${action} }} is not ended`)
    return nodes
  }

  #pipe(source: string): Pipe {
    const reader = { source, at: 0 }
    const pipe = this.#readPipe(reader)
    if (reader.at < source.length) throw new TemplateError(`${this.file}: unexpected ${source.slice(reader.at)}`)
    return pipe
  }

  #readPipe(reader: { source: string; at: number }): Pipe {
    const commands: Operand[][] = [[]]
    for (;;) {
      while (/\s/.test(reader.source[reader.at] ?? '')) reader.at++
      const next = reader.source[reader.at]
      if (next === undefined || next === ')') break
      if (next === '|') {
        reader.at++
        commands.push([])
      } else commands.at(-1)!.push(this.#readOperand(reader))
    }
    if (commands.some((command) => command.length === 0)) {
      throw new TemplateError(`${this.file}: an empty command in ${reader.source}`)
    }
    return commands
  }

  #readOperand(reader: { source: string; at: number }): Operand {
    if (reader.source[reader.at] === '(') {
      reader.at++
      const pipe = this.#readPipe(reader)
      if (reader.source[reader.at] !== ')') throw new TemplateError(`${this.file}: a ( is not closed`)
      reader.at++
      return { kind: 'pipe', pipe }
    }
    const word = /[A-Za-z]\w*/y
    word.lastIndex = reader.at
    const name = word.exec(reader.source)?.[0]
    if (name !== undefined) {
      reader.at += name.length
      if (name === 'true' || name === 'false') return { kind: 'literal', value: name === 'true' }
      if (!Object.hasOwn(FUNCTIONS, name)) throw new TemplateError(`${this.file}: function "${name}" not defined`)
      return { kind: 'function', name }
    }
    TOKEN.lastIndex = reader.at
    const match = TOKEN.exec(reader.source)
    if (match === null || match[0].trim() === '') {
      throw new TemplateError(`${this.file}: cannot read ${reader.source.slice(reader.at)}`)
    }
    reader.at = TOKEN.lastIndex
    const [, quoted, raw, number, variable, path] = match
    if (quoted !== undefined) return { kind: 'literal', value: JSON.parse(quoted) }
    if (raw !== undefined) return { kind: 'literal', value: raw.slice(1, -1) }
    if (number !== undefined) return { kind: 'literal', value: Number(number) }
    const names = path === undefined || path === '.' ? [] : path.slice(1).split('.')
    return { kind: 'field', variable: variable ?? null, path: names }
  }
}
