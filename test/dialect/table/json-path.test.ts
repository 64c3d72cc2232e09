import t from 'tap'
import { firstMatch, parseJsonPath } from '../../../src/dialect/table/json-path.js'

const object = {
  spec: { size: '2Gi', replicas: 3, 'a.b': 'dotted', list: ['x', 'y'], empty: [], none: null },
  status: {
    conditions: [
      { type: 'Synced', status: 'False' },
      { type: 'Ready', status: 'True', weight: 5, ok: true },
    ],
  },
}

void t.test('what printer columns ask for is found', async (t) => {
  const table: readonly (readonly [path: string, found: unknown])[] = [
    ['.spec.size', '2Gi'],
    ['{.spec.size}', '2Gi'],
    ['$.spec.size', '2Gi'],
    ['.spec["size"]', '2Gi'],
    ["['spec']['size']", '2Gi'],
    [String.raw`.spec.a\.b`, 'dotted'],
    ["['spec'].['a.b']", 'dotted'],
    ['.spec.list[0]', 'x'],
    ['.spec.list[-1]', 'y'],
    ['.spec.list[2]', undefined],
    ['.spec.list[*]', 'x'],
    ['.spec.list', ['x', 'y']],
    ['.spec.empty[*]', undefined],
    ['.spec.none', null],
    ['.spec.none.more', undefined],
    ['.spec.missing.more', undefined],
    ['.spec.size.length', undefined],
    ['.status.conditions[?(@.type=="Ready")].status', 'True'],
    ["{.status.conditions[?(@.type == 'Ready')].status}", 'True'],
    ['.status.conditions[?(@.type!="Ready")].status', 'False'],
    ['.status.conditions[?(@.weight==5)].type', 'Ready'],
    ['.status.conditions[?(@.ok==true)].type', 'Ready'],
    ['.status.conditions[?(@.type=="Nope")].status', undefined],
    ['.status.conditions[*].weight', 5],
    ['.spec.*', '2Gi'],
    ['', object],
    ['.toString', undefined],
    ['.__proto__', undefined],
    ['.constructor.name', undefined],
  ]
  for (const [text, found] of table) {
    const path = parseJsonPath(text)
    t.not(path, null, `${text} parses`)
    if (path) t.same(firstMatch(object, path), found, text)
  }
})

void t.test('what is not understood is refused, never guessed', async (t) => {
  for (const text of [
    'spec',
    '..size',
    '.a..b',
    '.a[',
    '.a[0',
    '.a[1:2]',
    '.a[?(@.x>3)]',
    '.a[?(@.x)]',
    '.a[?(@.x==y)]',
    '.a[?(x=="y")]',
    '.a[?(@.x=="y"]',
    `.a[?(@.x==${' '.repeat(900)}y)]`,
    '.',
    '.a.',
    `.${'x'.repeat(2_000)}`,
  ]) {
    t.equal(parseJsonPath(text), null, text.slice(0, 40))
  }
})
