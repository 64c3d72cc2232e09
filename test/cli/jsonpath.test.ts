import { readFileSync } from 'node:fs'
import t from 'tap'
import { renderTemplate } from '../../src/cli/jsonpath/evaluate.js'
import { parseTemplate } from '../../src/cli/jsonpath/parse.js'
import { type Json, member, parseJsonTree, textMember } from '../../src/codec/json-tree.js'

const list = {
  kind: 'List',
  items: [
    {
      metadata: { name: 'a', labels: { 'app.kubernetes.io/name': 'web', tier: 'x' } },
      status: {
        phase: 'Running',
        restarts: 2,
        conditions: [
          { type: 'Ready', status: 'True' },
          { type: 'Other', status: 'False' },
        ],
      },
    },
    { metadata: { name: 'b' }, status: { phase: 'Pending', restarts: 7, conditions: [] } },
    { metadata: { name: 'c' }, spec: { on: true, none: null } },
  ],
}

void t.test('templates pick what kubectl picks', async (t) => {
  for (const [template, expected] of [
    ['{.kind}', 'List'],
    ['{$.kind}', 'List'],
    ['.kind', 'List'],
    ['kind', 'List'],
    ["{['kind']}", 'List'],
    ['{.items[*].metadata.name}', 'a b c'],
    ['{.items.*.metadata.name}', 'a b c'],
    ['{.items[0].metadata.name}', 'a'],
    ['{.items[-1].metadata.name}', 'c'],
    ['{.items[-1:].metadata.name}', 'c'],
    ['{.items[:2].metadata.name}', 'a b'],
    ['{.items[::2].metadata.name}', 'a c'],
    ['{.items[0,2].metadata.name}', 'a c'],
    ['{.items[9].metadata.name}', ''],
    ['{..name}', 'a b c'],
    ['{.items[0].metadata.labels.app\\.kubernetes\\.io/name}', 'web'],
    ["{.items[0].metadata.labels['app\\.kubernetes\\.io/name','tier']}", 'web x'],
    ['{.items[0].status.conditions[?(@.type=="Ready")].status}', 'True'],
    // An item without a phase is not compared.
    ["{.items[?(@.status.phase!='Running')].metadata.name}", 'b'],
    ['{.items[?(@.status.restarts>2)].metadata.name}', 'b'],
    ['{.items[?(@.status.restarts<=2)].metadata.name}', 'a'],
    ['{.items[?(@.spec.on==true)].metadata.name}', 'c'],
    ['{.items[?(@.spec)].metadata.name}', 'c'],
    ['{.items[2].spec}', '{"none":null,"on":true}'],
    ['{range .items[*]}{.metadata.name}={.status.phase}{"\\n"}{end}', 'a=Running\nb=Pending\nc=\n'],
    ['{range .items[0:1]}{range .status.conditions[*]}{.type},{end};{end}', 'Ready,Other,;'],
    // In client-go `$` means the same as `@`.
    ['{range .items[*]}{$.kind} {end}', '   '],
    ['before {.kind} after', 'before List after'],
    ['{.missing.deep}', ''],
    ['{.__proto__}', ''],
  ] as const) {
    t.equal(renderTemplate(parseTemplate(template), list), expected, template)
  }
})

void t.test('a malformed template is refused with the place of the mistake', async (t) => {
  for (const [template, expected] of [
    ['{.kind', /unclosed action at 6/],
    ['{.items[0}', /unterminated array/],
    ['{.items[a]}', /invalid array index a/],
    ['{range .items[*]}x', /\{range\} without \{end\}/],
    ['{.kind}{end}', /\{end\} without \{range\}/],
    ['{kind}', /a path begins with a dot/],
    ['{"text}', /unterminated quoted string/],
    ['{.items[?(@.a==1]}', /unterminated filter/],
  ] as const) {
    t.throws(() => parseTemplate(template), { message: expected, exitCode: 2 }, template)
  }
})

void t.test('ranges and missing fields are rendered as client-go renders them', async (t) => {
  const recorded = parseJsonTree(readFileSync(new URL('../../../test/data/json-path.json', import.meta.url))).value
  const object = member(recorded, 'object')!
  let ranges = 0
  for (const one of member(recorded, 'templates') as Json[]) {
    const template = textMember(one, 'template')
    if (!template.includes('{') || template === '{end}' || template === '{kind}') continue
    if (template.includes('{range')) ranges++
    if (member(one, 'syntaxError') !== undefined) t.throws(() => parseTemplate(template), template)
    else t.equal(renderTemplate(parseTemplate(template), object), textMember(one, 'text'), template)
  }
  t.ok(ranges >= 7, `${ranges} templates with a range`)
})
