/** Tests `get` as a user runs it, against a real server. */
import t from 'tap'
import { EXIT } from '../../src/cli/exit-code.js'
import { keyFromText } from '../../src/engine/model/event.js'
import { startHttpFaults } from '../client/reflector/http-faults.js'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'
import { type CliResult, eachAtOnce, runCli, startCli } from './support/run-cli.js'

const node = (name: string): object => ({ kind: 'Node', apiVersion: 'v1', metadata: { name, uid: name } })

const app = await startApp(t, {
  objects: {
    'minions/n1': node('n1'),
    'pods/default/a': pod('a', { labels: { app: 'web' }, status: { phase: 'Running' } }),
    'pods/default/b': pod('b', { spec: { nodeName: 'n1' } }),
    'pods/shop/c': pod('c', { namespace: 'shop', labels: { app: 'web' } }),
    'configmaps/default/big': {
      kind: 'ConfigMap',
      apiVersion: 'v1',
      metadata: { name: 'big', namespace: 'default', uid: 'big' },
      data: { n: 'x' },
    },
  },
})
// JSON.parse would round this number, so it is written as text.
app.upstream.commit([
  {
    type: 'put',
    key: keyFromText('/registry/configmaps/default/exact'),
    value: Buffer.from(
      '{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"exact","namespace":"default"},"count":12345678901234567890}',
    ),
  },
])
const environment = { DISTRIBUTARY_SERVER: app.url }
const cli = async (...args: string[]): Promise<CliResult> => await runCli(t, args, { environment })

void t.test('get accepts every form of name, every way to select objects and every output', async (t) => {
  const table = (text: string): RegExp => new RegExp(`^${text.replaceAll(' ', ' +')}$`, 'm')
  const cases: readonly (readonly [readonly string[], readonly RegExp[], readonly RegExp[]])[] = [
    [
      ['get', 'pods'],
      [/^NAME +READY +STATUS/, table('a 0/0 Running 0 .*'), /^b /m],
      [/^c /m, /NAMESPACE/],
    ],
    [['get', 'po', '-A'], [/^NAMESPACE +NAME/, /^default +a /m, /^shop +c /m], []],
    [['get', 'pod', '-n', 'shop', '--no-headers'], [/^c /], [/NAME/]],
    [['get', 'Pod', '-n=shop', '-o=wide'], [/NOMINATED NODE/, /^c /m], []],
    [['get', 'pods.v1', 'b', 'a'], [/^b [^]*^a /m], []],
    [['get', 'pod/a'], [/^a /m], [/^b /m]],
    [['get', 'pods', '-A', '-l', 'app=web'], [/ a /, / c /], [/ b /]],
    [['get', 'pods', '-A', '--field-selector', 'spec.nodeName=n1'], [/ b /], [/ a /]],
    [['get', 'nodes', '-s', app.url], [/^n1 /m], []],
    [['get', '/api/v1/pods'], [/^NAMESPACE +NAME/, /^shop +c /m], []],
    [['get', '/api/v1/nodes'], [/^NAME +STATUS/, /^n1 /m], [/NAMESPACE/]],
    [['get', 'pods', '-A', '-o', 'name'], [/^pod\/a\npod\/b\npod\/c\n$/], []],
    [['get', 'cm', 'exact', '-o', 'json'], [/^ {2}"count": 12345678901234567890$/m, /"resourceVersion"/], []],
    [['get', 'cm', 'exact', '-o', 'yaml'], [/^count: 12345678901234567890$/m], []],
    [['get', 'cm', 'exact', 'big', '-o', 'json'], [/"kind": "List"/, /12345678901234567890/, /"name": "big"/], []],
  ]
  await eachAtOnce(cases, async ([args, there, absent]) => {
    const { code, stdout, stderr } = await cli(...args)
    t.match({ code, stderr }, { code: 0, stderr: '' }, args.join(' '))
    for (const pattern of there) t.match(stdout, pattern, args.join(' '))
    for (const pattern of absent) t.notMatch(stdout, pattern, args.join(' '))
  })
})

void t.test('get reports a failure in one line on stderr and by its exit code', async (t) => {
  const cases: readonly (readonly [number, readonly string[], RegExp])[] = [
    [1, ['get', 'pods', 'nobody'], /^distributary get: pods "nobody" not found \(NotFound\)\n$/],
    [1, ['get', 'pds'], /the server has no resource "pds"; did you mean pods\?/],
    [1, ['get', 'pods', '-l', 'a in'], /\(BadRequest\)/],
    [1, ['get', 'pods', '-w', '-l', 'a in'], /\(BadRequest\)/],
    [1, ['get', 'pods', '-s', 'http://127.0.0.1:1'], /cannot reach http:\/\/127\.0\.0\.1:1: connect ECONNREFUSED/],
    [1, ['get', 'pods', '--kubeconfig', '/nowhere'], /\/nowhere/],
    [2, ['get', 'pods', '-s', 'localhost'], /--server must be a URL/],
    [2, ['get', 'pods', 'a', '-A'], /drop -A or the name/],
    [2, ['get', 'pods', 'a', '-l', 'x'], /cannot be combined/],
    [2, ['get', 'pods', 'a', 'b', '-w'], /only one object can be watched/],
    [2, ['get', '/api/v1/pods', '-o', 'name'], /needs a resource/],
  ]
  await eachAtOnce(cases, async ([code, args, expected]) => {
    const result = await cli(...args)
    t.equal(result.code, code, args.join(' '))
    t.match(result.stderr, expected, args.join(' '))
    t.equal(result.stdout, '', args.join(' '))
  })
  t.same(await cli('get', 'pods', '-l', 'app=none'), {
    code: 0,
    stdout: '',
    stderr: 'no objects in namespace default\n',
  })
})

void t.test('a reader that goes away ends the command quietly, with 0', async (t) => {
  const running = startCli(t, ['get', 'pods', '-A', '-w'], { environment })
  await until(() => running.stdout().includes('NAMESPACE'), 'it runs')
  running.child.stdout!.destroy()
  app.put('pods/default/late', pod('late'))
  t.match(await running.ended, { code: EXIT.done, stderr: '' })
  app.delete('pods/default/late')
})

void t.test('Ctrl-C and SIGTERM end a watch with distinct exit codes, and release the server', async (t) => {
  for (const [signal, code] of [
    ['SIGINT', EXIT.interrupted],
    ['SIGTERM', EXIT.terminated],
  ] as const) {
    const running = startCli(t, ['get', 'pods', '-w', '-n', 'shop'], { environment })
    await until(() => /^c /m.test(running.stdout()) && app.watchers === 1, 'it watches')
    running.child.kill(signal)
    t.match(await running.ended, { code, stderr: '' })
    await until(() => app.watchers === 0, 'the server is free of it')
  }
})

void t.test('get -w prints each change, in every output', async (t) => {
  const outputs = [[], ['-o', 'json'], ['-o', 'yaml'], ['-o', 'name']]
  const running = outputs.map((output) => startCli(t, ['get', 'pods', '-w', '-n', 'w', ...output], { environment }))
  await until(() => app.watchers === outputs.length, 'all watch')
  app.put('pods/w/x', pod('x', { namespace: 'w', labels: { n: '1' } }))
  app.put('pods/w/x', pod('x', { namespace: 'w', labels: { n: '2' }, status: { phase: 'Failed' } }))
  app.delete('pods/w/x')
  const [table, json, yaml, name] = running.map((one) => () => one.stdout())
  await until(() => table!().split('\n').length === 5, 'three rows under one header')
  t.match(table!(), /^NAME[^\n]*\nx [^\n]*Running[^\n]*\nx [^\n]*Failed[^\n]*\nx [^\n]*Failed[^\n]*\n$/)
  await until(() => json!().split('\n').length === 4, 'an object a line')
  t.equal((JSON.parse(json!().split('\n')[1]!) as { status: { phase: string } }).status.phase, 'Failed')
  await until(() => yaml!().split('---\n').length === 4, 'documents')
  await until(() => name!() === 'pod/x\n'.repeat(3), 'names')
  for (const { child } of running) child.kill('SIGINT')
  for (const { ended } of running) t.equal((await ended).code, EXIT.interrupted)
})

void t.test('--watch-only leaves out existing objects, and --output-watch-events adds the types', async (t) => {
  app.put('pods/s/there', pod('there', { namespace: 's' }))
  const args = ['get', 'pods', '-n', 's', '--output-watch-events']
  const [all, only, json, yaml] = [['-w'], ['--watch-only'], ['-w', '-o', 'json'], ['--watch-only', '-o', 'yaml']].map(
    (more) => startCli(t, [...args, ...more], { environment }),
  )
  await until(() => app.watchers === 4, 'all watch')
  app.put('pods/s/x', pod('x', { namespace: 's' }))
  app.put('pods/s/x', pod('x', { namespace: 's', status: { phase: 'Failed' } }))
  app.delete('pods/s/x')
  await until(() => [all, only, json, yaml].every((one) => one!.stdout().includes('DELETED')), 'all events')
  const changes = ['ADDED', 'MODIFIED', 'DELETED'].map((type) => `${type} +x [^\\n]*\\n`).join('')
  t.match(all!.stdout(), new RegExp(`^EVENT +NAME [^\\n]*\\nADDED +there [^\\n]*\\n${changes}$`))
  t.match(only!.stdout(), new RegExp(`^EVENT +NAME [^\\n]*\\n${changes}$`))
  const lines = json!.stdout().trimEnd().split('\n')
  const events = lines.map((line) => JSON.parse(line) as { type: string; object: { metadata: { name: string } } })
  const named = events.map(({ type, object }) => `${type} ${object.metadata.name}`)
  t.same(named, ['ADDED there', 'ADDED x', 'MODIFIED x', 'DELETED x'])
  t.match(yaml!.stdout(), /^---\nobject:\n[^]*\ntype: ADDED\n---\n/)
  t.equal(yaml!.stdout().split('---\n').length, 4)
})

void t.test(
  'a broken connection is reported and resumed, and after a lost history the difference to a new list is printed',
  async (t) => {
    const faults = await startHttpFaults(t, app.port)
    app.commit({ 'pods/f/x': pod('x', { namespace: 'f' }), 'pods/f/y': pod('y', { namespace: 'f' }) })
    const running = startCli(t, ['get', 'pods', '-w', '--output-watch-events', '-n', 'f', '-s', faults.url], {})
    await until(() => /^ADDED +y /m.test(running.stdout()), 'it watches')
    // Every watch is cut from now on; meanwhile one object changes and one is deleted, and then the watch's revision is
    // too old.
    faults.fault = ({ isWatch }) => (isWatch ? { status: 503 } : null)
    faults.cut()
    await until(() => (running.stderr().match(/503/g)?.length ?? 0) > 1, 'it says what is wrong, at each attempt')
    t.notMatch(running.stderr(), /reconnected/, 'and not that it is back')
    app.put('pods/f/x', pod('x', { namespace: 'f', labels: { n: '1' } }))
    app.delete('pods/f/y')
    let isExpired = false
    faults.fault = ({ isWatch, isStream }) => {
      if (!isWatch || isStream || isExpired) return null
      isExpired = true
      return { status: 410, body: JSON.stringify({ kind: 'Status', code: 410, reason: 'Expired', message: 'too old' }) }
    }
    await until(
      () => /relisted at resourceVersion \d+, which shows 2 changes\n/.test(running.stderr()),
      'it lists',
      20_000,
    )
    await until(() => /DELETED +y [^]*MODIFIED +x /.test(running.stdout()), 'and prints the difference')
    await until(() => /get: reconnected, resuming after resourceVersion \d+\n/.test(running.stderr()), 'it is back')
    running.child.kill('SIGINT')
    t.equal((await running.ended).code, EXIT.interrupted)
  },
)

void t.test(
  'after a restore of etcd, get -w prints an object that was written again at the same revision',
  async (t) => {
    const own = await startApp(t, { flags: ['--resource', 'flags=/config/flags/'] })
    const put = (key: string, value: string): void =>
      void own.upstream.commit([{ type: 'put', key: keyFromText(`/config/flags/${key}`), value: Buffer.from(value) }])
    put('kept', '1')
    const faults = await startHttpFaults(t, own.port)
    const backup = own.upstream.snapshot()
    const { clusterId } = await own.upstream.status()
    put('a', '"lost"')
    const [watch, ...gets] = [['-o', 'json', '--output-watch-events'], [], ['-o', 'json']].map((output) =>
      startCli(t, ['get', 'flags', '-w', ...output, '-s', faults.url]),
    )
    const all = [watch!, ...gets]
    await until(() => all.every((one) => one.stdout().includes('"lost"')), 'they have printed what will be lost')
    // The table is printed from a list, before its watch begins. A watch that begins after the restore, at a revision
    // that both histories have, misses the change.
    await until(() => own.watchers === all.length, 'all watch')
    // The server ends the watches with 410, and the commands cannot list yet.
    faults.fault = () => ({ status: 503 })
    const before = faults.requests.length
    own.upstream.restore(backup, { clusterId })
    await until(() => faults.requests.length >= before + all.length, 'the commands come back')
    put('a', '"new"')
    const url = `${own.url}/apis/distributary.io/v1/flags`
    await until(async () => (await (await fetch(url)).text()).includes('"new"'), 'the server has it')
    faults.fault = () => null
    await until(() => all.every((one) => one.stdout().includes('"new"')), 'and the commands print it')
    t.match(watch!.stdout(), /^\{"type":"MODIFIED",.*"new".*$/m)
    for (const one of all) {
      t.equal(one.stdout().match(/"kept"|^kept /gm)?.length, 1, 'what is the same is not printed again')
    }
  },
)
