/** Compared with the responses of client-go and of the API server's tables, recorded in `test/data/json-path.json`. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { evaluatePath, JsonPathError } from '../../../src/kubernetes/codec/json-path/evaluate.js'
import { JsonPathSyntaxError, parseJsonPath, parseParts } from '../../../src/kubernetes/codec/json-path/parse.js'
import { printedValue } from '../../../src/kubernetes/codec/json-path/print.js'
import { TooMuchWorkError, Work } from '../../../src/kubernetes/codec/json-path/work.js'
import { jsonText, type Json, member, parseJsonTree, textMember } from '../../../src/kubernetes/codec/json-tree.js'
import { customPrinter } from '../../../src/kubernetes/dialect/table/custom-columns.js'

const recorded = parseJsonTree(readFileSync(new URL('../../../../test/data/json-path.json', import.meta.url))).value
const object = member(recorded, 'object')!
const listOf = (name: string): readonly Json[] => member(recorded, name) as Json[]

/** Ranges are for kubectl templates; printer columns do not support them. */
const templates = listOf('templates').filter((one) => !/\{(range|end)/.test(textMember(one, 'template')))

function render(template: string): string {
  return parseParts(template)
    .map((part) => (part.kind === 'text' ? part.text : evaluatePath(part.path, object).map(printedValue).join(' ')))
    .join('')
}

void t.test('a template renders as in client-go, and fails where it fails there', async (t) => {
  t.ok(templates.length > 120, `${templates.length} templates`)
  for (const one of templates) {
    const template = textMember(one, 'template')
    if (member(one, 'syntaxError') !== undefined) t.throws(() => parseParts(template), JsonPathSyntaxError, template)
    else if (member(one, 'error') !== undefined) t.throws(() => render(template), JsonPathError, template)
    else t.equal(render(template), textMember(one, 'text'), template)
  }
})

void t.test('a printer column shows what the table of the API server shows', async (t) => {
  const columns = listOf('columns')
  t.ok(columns.length > 50, `${columns.length} columns`)
  for (const one of columns) {
    const [type, jsonPath] = [textMember(one, 'type'), textMember(one, 'jsonPath')]
    const printer = customPrinter([{ name: 'x', type, jsonPath, format: '', description: '', priority: 0 }])
    const cells = printer.cells(object, Date.parse('2026-01-01T00:00:00Z')).slice(1) as Json[]
    const expected = (member(one, 'cells') as Json[]).map((cell) =>
      // Go writes a float as an integer where JSON allows it, and so does JSON.stringify.
      type === 'number' && cell !== null ? JSON.stringify(Number(jsonText(cell))) : jsonText(cell),
    )
    t.same(cells.map(jsonText), expected, `${type} ${jsonPath}`)
  }
})

void t.test('a path that the object lacks never reaches a prototype', async (t) => {
  for (const path of ['.toString', '.__proto__', '.constructor.name', '.spec.list.length']) {
    t.same(evaluatePath(parseJsonPath(path), object), [], path)
  }
  t.throws(() => parseJsonPath(`.${'x'.repeat(20_000)}`), JsonPathSyntaxError)
  t.throws(() => parseJsonPath('.a}{.b'), JsonPathSyntaxError)
})

void t.test('a path is parsed in linear time', async (t) => {
  for (let i = 0; i < 200; i++) {
    t.throws(() => parseJsonPath(`${'1'.repeat(16_000)}..`), JsonPathSyntaxError)
    t.throws(() => parseJsonPath(`[1,2${' '.repeat(16_000)}3]`), JsonPathSyntaxError)
  }
  t.same(parseJsonPath('[ 1 , 2 ]'), parseJsonPath('[1,2]'))
})

void t.test('the work of a path is limited, and counted before it is done', async (t) => {
  const nest = (levels: number): Json => (levels === 0 ? { leaf: 1 } : { a: nest(levels - 1), b: 'x'.repeat(100) })
  const values: readonly (readonly [string, Json])[] = [
    ['..leaf', { parts: Array.from({ length: 10_000 }, (_, leaf) => ({ leaf })) }],
    ['..a..a..a..a', nest(100)],
    ['.parts[*]', { parts: Array.from({ length: 10_000 }, () => 1) }],
    ['.parts[0:10000:1]', { parts: Array.from({ length: 10_000 }, () => 1) }],
    ['.parts[?(@.x==1)]', { parts: Array.from({ length: 10_000 }, () => ({ x: 2 })) }],
    ['.parts[?(@.x)]', { parts: Array.from({ length: 10_000 }, () => ({ x: 2 })) }],
    ['.text.*', { text: 'x'.repeat(1_000_000) }],
  ]
  for (const [path, value] of values) {
    t.throws(() => evaluatePath(parseJsonPath(path), value, new Work(5_000)), TooMuchWorkError, path)
  }
  const few = new Work(5_000)
  t.same(evaluatePath(parseJsonPath('.parts[3].leaf'), values[0]![1], few), [3])
  t.throws(() => few.read('x'.repeat(100_000)), TooMuchWorkError)
})

void t.test('the columns of one row share a limit on work, and those beyond it are empty', async (t) => {
  const spec = { size: 7, parts: Array.from({ length: 4_000 }, (_, leaf) => ({ leaf })), text: 'x'.repeat(300_000) }
  const cellsOf = (paths: readonly string[]): readonly unknown[] => {
    const columns = paths.map((jsonPath) => ({
      name: 'x',
      type: 'string',
      jsonPath,
      format: '',
      description: '',
      priority: 0,
    }))
    return customPrinter(columns).cells({ metadata: { name: 'a' }, spec }, 0)
  }
  t.same(cellsOf(['.spec.size', '..leaf', '.spec.size']), ['a', '7', '0', '7'], 'one may look at all of it')
  const many = cellsOf(Array.from({ length: 50 }, () => '..leaf'))
  t.equal(many[1], '0')
  t.equal(many.at(-1), null)
  const printed = JSON.stringify(cellsOf(Array.from({ length: 50 }, () => '.spec.text')))
  t.ok(printed.length <= 1_000_000, `nor is more printed than that: ${printed.length}`)
})
