import { Ajv } from 'ajv'
import t from 'tap'

import { helpText } from '../../../src/server/config/help.js'
import { load } from '../../../src/server/config/load.js'
import { optionNames, options } from '../../../src/server/config/options.js'
import { optionRows, optionsSchema } from '../../docs/option-rows.js'

function parseHelp(argv: readonly string[]): string {
  const loaded = load(argv, {}, () => '')
  return loaded.kind === 'help' ? loaded.text : loaded.kind
}

void t.test('--help starts with the twenty most important options, and says how to see the others', async (t) => {
  const text = helpText('first')
  const flags = text.match(/^ {2}--[a-z]\S*/gm)!.map((line) => line.trim())
  t.equal(flags.length, 20 + ['--help', '--version'].length)
  t.match(text, `--help [all]\n        Show this text; all adds the other ${optionNames.length - 20} options.`)
  for (const [argv, kind] of [
    [['--help'], text],
    [['-h'], text],
    [['--help', 'all'], helpText('all')],
    [['-h', 'all'], helpText('all')],
    [['--help=all'], helpText('all')],
  ] as const) {
    t.equal(parseHelp(argv), kind, argv.join(' '))
  }
})

void t.test('every option appears once in --help all, in lines that fit a terminal', async (t) => {
  const lines = helpText('all').split('\n')
  for (const name of optionNames) {
    const start = options[name].flag
    const headings = lines.filter((line) => /^ {2}\S/.test(line) && line.trim().split(/[ (]/)[0] === start)
    t.equal(headings.length, 1, start)
  }
  t.same(
    lines.filter((line) => line.length > 110),
    [],
  )
})

void t.test("--help all has kube-apiserver's flags, and what only a file sets, under headings of their own", (t) => {
  const [ours = '', theirs = '', file = ''] = helpText('all').split(
    /^As in kube-apiserver:$|^Only in the file of --config:$/m,
  )
  t.match(theirs, /^ {2}--etcd-servers ITEM/m)
  t.notMatch(ours, /^ {2}--(etcd-servers|oidc-issuer-url) /m)
  t.match(ours, /^ {2}--upstream TEXT/m)
  t.match(file, /^ {2}listCacheBytes SIZE/m)
  t.end()
})

void t.test('the table is consistent: names, flags and groups', async (t) => {
  const rows = optionRows()
  t.equal(rows.length, optionNames.length)
  t.equal(options.http2MaxStreamsPerConnection.flag, '--http2-max-streams-per-connection')
  t.equal(new Set(rows.map((row) => row.flag)).size, rows.length)
  const groups = rows.map((row) => row.group)
  const runs = groups.filter((group, i) => group !== groups[i - 1])
  t.equal(runs.length, new Set(groups).size, 'the options of a group are together')
  for (const row of rows) t.match(row.doc, /^[^]{20,}\.$/, `${row.flag} is explained in whole sentences`)
})

void t.test('a default lies within its own bounds', async (t) => {
  for (const name of optionNames) {
    const option = options[name]
    if (option.defaultText === null) continue
    t.same(option.parse([option.defaultText]), option.default, `${option.flag} ${option.defaultText}`)
  }
})

void t.test('rows show range and default as a person would write them', async (t) => {
  const row = (flag: string) => optionRows().find((one) => one.flag === flag)
  t.match(row('--bookmark-interval'), { default: '1m', range: '1s – 10m', yaml: 'bookmarkInterval' })
  t.match(row('--watch-cache-bytes'), { default: '64MiB', range: '1MiB – 64GiB' })
  t.match(row('--on-gap'), { default: null, range: 'expire | coalesce' })
  t.match(row('--config'), { yaml: null })
})

void t.test('the schema accepts what the loader accepts and rejects what it rejects', async (t) => {
  const validate = new Ajv({ strict: true, allowUnionTypes: true }).compile(optionsSchema())
  const good: readonly object[] = [
    {},
    { port: 8_001 },
    { port: 'off' },
    { etcdServers: ['http://a:1'] },
    { bookmarkInterval: '1m30s' },
    { bookmarkInterval: 60 },
    { watchCacheBytes: '64MiB' },
    { watchCache: false },
    { onGap: 'coalesce' },
    { authorizationMode: ['RBAC'] },
    { resources: [{ name: 'a', prefix: '/a/', namespaced: true, shortNames: ['b'] }] },
  ]
  const bad: readonly object[] = [
    { prt: 1 },
    { port: 70_000 },
    { port: 'x' },
    { watchCache: 'yes' },
    { onGap: 'ignore' },
    { bookmarkInterval: '1d' },
    { etcdPassword: 'x' },
    { config: 'x' },
    { authorizationMode: ['Magic'] },
    { resources: [{ prefix: '/a/' }] },
    { resources: [{ name: 'a', extra: 1 }] },
  ]
  for (const one of good) t.ok(validate(one), JSON.stringify(one))
  for (const one of bad) t.notOk(validate(one), JSON.stringify(one))
})
