/** What `get` can print and how it orders it, several resources, the past, `version`, and names in a shell's completion. */
import { spawn } from 'node:child_process'
import t from 'tap'
import { keyFromText } from '../../../src/model/event.js'
import { pod, startApp } from '../../support/app.js'
import { type CliResult, eachAtOnce, program, runCli } from '../support/run-cli.js'

const BIG = '9007199254740993'
const BIGGER = '12345678901234567890'

const app = await startApp(t, {
  objects: {
    'pods/default/a': pod('a', { spec: { nodeName: 'n2', containers: [{ image: 'x' }, { image: 'y' }] } }),
    'pods/default/b': pod('b', { spec: { nodeName: 'n1' } }),
    'pods/default/c': pod('c', {}),
    'configmaps/default/a': {
      kind: 'ConfigMap',
      apiVersion: 'v1',
      metadata: { name: 'a', namespace: 'default', uid: 'a' },
      data: { size: '1Gi' },
    },
  },
})
/** Numbers that JSON.parse would round, which only text can hold. */
const secretly = (name: string, count: string, size: string): void =>
  void app.upstream.commit([
    {
      type: 'put',
      key: keyFromText(`/registry/configmaps/default/${name}`),
      value: Buffer.from(
        `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"${name}","namespace":"default"},"data":{"size":"${size}"},"count":${count}}`,
      ),
    },
  ])
secretly('exact', BIG, '500Mi')
secretly('more', BIGGER, '2Ki')
secretly('less', '-9007199254740993', '100m')

const environment = { DISTRIBUTARY_SERVER: app.url }
const cli = async (...args: string[]): Promise<CliResult> => await runCli(t, args, { environment })

void t.test('columns of one’s own, orders, several resources, and integers of any size', async (t) => {
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [
      ['get', 'pods', '-o', 'custom-columns=NAME:.metadata.name,NODE:{.spec.nodeName},IMAGES:.spec.containers[*].image'],
      /^NAME {3}NODE {5}IMAGES\na {6}n2 {7}x,y\nb {6}n1 {7}<none>\nc {6}<none> {3}<none>\n$/,
    ],
    [['get', 'pod/a', '--no-headers', '-o', 'custom-columns=N:metadata.name'], /^a\n$/],
    [['get', 'pods', '-o', 'custom-columns=X:.spec.containers[?(@.image=="x,")].image', '--no-headers'], /^(<none>\n){3}$/],
    [['get', 'pods', '--sort-by', '.spec.nodeName', '-o', 'name'], /^pod\/c\npod\/b\npod\/a\n$/],
    [['get', 'pods', '--sort-by={.spec.nodeName}'], /^NAME[^\n]*\nc .*\nb .*\na .*\n$/],
    [['get', 'cm', '--sort-by', '.count', '-o', 'name'], /^configmap\/a\nconfigmap\/less\nconfigmap\/exact\nconfigmap\/more\n$/],
    [['get', 'cm', '--sort-by', '.data.size', '-o', 'name'], /^configmap\/less\nconfigmap\/more\nconfigmap\/exact\nconfigmap\/a\n$/],
    [['get', 'cm', 'exact', '-o', 'jsonpath={.count}'], new RegExp(`^${BIG}$`)],
    [['get', 'cm', '-o', 'jsonpath={.items[*].count}'], new RegExp(`^${BIG} -${BIG} ${BIGGER}$`)],
    [['get', 'cm', '-o', `jsonpath={.items[?(@.count>${BIG})].metadata.name}`], /^more$/],
    [['get', 'cm', '-o', `jsonpath={.items[?(@.count==${BIG})].metadata.name}`], /^exact$/],
    [['get', 'cm', 'more', '-o', 'custom-columns=C:.count', '--no-headers'], new RegExp(`^${BIGGER}\n$`)],
    [['get', 'cm', '--sort-by', '.count', '-o', 'json'], new RegExp(`"count": -${BIG}[^]*"count": ${BIG}[^]*"count": ${BIGGER}`)],
    [['get', 'cm', '--sort-by', '.count', '-o', 'yaml'], new RegExp(`count: ${BIGGER}$`, 'm')],
    [['get', 'pods,cm'], /^NAME .*\npod\/a .*\npod\/b .*\npod\/c .*\n\nNAME .*\nconfigmap\/a .*\nconfigmap\/exact /],
    [['get', 'pods,configmaps', 'a', '-o', 'name'], /^pod\/a\nconfigmap\/a\n$/],
    [['get', 'po/b', 'cm/a', 'pod/a', '-o', 'name'], /^pod\/b\nconfigmap\/a\npod\/a\n$/],
    [['get', 'po/b', 'po/a'], /^NAME .*\nb .*\na .*\n$/],
    [['get', 'po,cm', '-o', 'jsonpath={range .items[*]}{.kind}/{.metadata.name} {end}'], /^Pod\/a Pod\/b Pod\/c ConfigMap\/a ConfigMap\/exact /],
    [['get', 'po,cm', '-o', 'json'], new RegExp(`"kind": "List"[^]*"kind": "Pod"[^]*"kind": "ConfigMap"[^]*"count": ${BIGGER}`)],
  ] // prettier-ignore
  await eachAtOnce(cases, async ([args, expected]) => {
    const { code, stdout, stderr } = await cli(...args)
    t.match({ code, stderr }, { code: 0, stderr: '' }, args.join(' '))
    t.match(stdout, expected, args.join(' '))
  })
})

void t.test('what cannot be done is one line', async (t) => {
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [['get', 'pods', '-o', 'custom-columns='], /HEADER:PATH/],
    [['get', 'pods', '-o', 'custom-columns=A'], /HEADER:PATH, separated by commas, not "A"/],
    [['get', 'pods', '-o', 'custom-columns=A:{.a}{.b}'], /custom column A: .* is not one path/],
    [['get', 'pods', '--sort-by', '{.a'], /no closing brace/],
    [['get', 'pods', '--sort-by', '.a', '-w'], /--watch and --sort-by/],
    [['get', 'pods,cm', '-w'], /only one resource can be watched/],
    [['watch', 'pods,cm'], /only one resource can be watched/],
    [['get', 'pods,'], /a comma without a resource/],
    [['get', 'pods', 'cm/a'], /"cm\/a" names a resource as well/],
    [['get', 'pod/a', 'b'], /names one object already: "b" is to be RESOURCE\/NAME too/],
    [['get', 'pod/a/b'], /is not RESOURCE\/NAME/],
    [['get', 'pods', '--resource-version', 'x'], /--resource-version is that of a list/],
    [['get', 'pod/a', '--resource-version', '5'], /--resource-version is for lists/],
    [['get', 'pods', '-w', '--resource-version', '5'], /distributary watch takes one/],
  ] // prettier-ignore
  await eachAtOnce(cases, async ([args, expected]) => {
    const { code, stdout, stderr } = await cli(...args)
    t.match({ code, stdout }, { code: 2, stdout: '' }, args.join(' '))
    t.match(stderr, expected, args.join(' '))
  })
})

void t.test('the past: what there was, and what changed lately', async (t) => {
  const before = app.put('pods/past/x', pod('x', { namespace: 'past', status: { phase: 'Running' } }))
  app.delete('pods/past/x')
  const at = (version: number) => cli('get', 'pods', '-n', 'past', '-o', 'name', '--resource-version', String(version))
  t.match(await at(before), { code: 0, stdout: 'pod/x\n' })
  t.match(await at(before + 1), { code: 0, stdout: '', stderr: 'no objects in namespace past\n' })
  t.match(await cli('get', 'pods', '-n', 'past', '--resource-version', String(before)), {
    code: 0,
    stdout: /^NAME.*\nx /,
  })
  t.match(await at(1), { code: 0, stdout: '' }, 'before there was anything')

  const ago = (ms: number): string => new Date(Date.now() - ms).toISOString()
  const aged = (name: string, metadata: object): void => {
    const object = pod(name, { namespace: 'ages' }) as { metadata: object }
    app.put(`pods/ages/${name}`, { ...object, metadata: { ...object.metadata, ...metadata } })
  }
  const old = ago(3_600_000)
  aged('old', { creationTimestamp: old })
  aged('new', { creationTimestamp: ago(1_000) })
  aged('changed', {
    creationTimestamp: old,
    managedFields: [
      { manager: 'x', time: old },
      { manager: 'y', time: ago(1_000) },
    ],
  })
  aged('going', { creationTimestamp: old, deletionTimestamp: ago(1_000) })
  const lately = await cli('watch', 'pods', '-n', 'ages', '--since', '10m', '--timeout', '700ms')
  t.match(lately, { code: 0, stderr: '' })
  for (const name of ['changed', 'going', 'new']) t.match(lately.stdout, new RegExp(`ages/${name}\\n`), name)
  t.notMatch(lately.stdout, 'ages/old')
})

void t.test('version: ours, the server’s, and ours alone', async (t) => {
  const both = await cli('version')
  t.match(both, { code: 0, stderr: '', stdout: /^client: \d+\.\d+\.\d+\nserver: v\d.*\n$/ })
  t.match(JSON.parse((await cli('version', '-o', 'json')).stdout) as object, {
    clientVersion: /^\d/,
    serverVersion: { gitVersion: /^v/ },
  })
  t.match(
    (await cli('version', '--client', '-o', 'yaml', '-s', 'http://127.0.0.1:1')).stdout,
    /^clientVersion: "?\d[\d.]+"?\n$/,
  )
  t.match(await cli('version', '-s', 'http://127.0.0.1:1'), { code: 1, stderr: /cannot reach/ })
})

void t.test('a shell completes the names of objects', async (t) => {
  const names = async (...words: string[]): Promise<string> => {
    const { code, stdout, stderr } = await cli('completion', 'names', '--', ...words)
    t.match({ code, stderr }, { code: 0, stderr: '' }, words.join(' '))
    return stdout.trim().split('\n').join(' ')
  }
  t.equal(await names('get', 'pods'), 'a b c')
  t.equal(await names('get', 'pods', 'b'), 'a c', 'not what stands there already')
  t.equal(await names('watch', 'cm', '-n', 'default', '-o', 'json'), 'a exact less more')
  for (const words of [
    ['get'],
    ['get', '-n'],
    ['get', 'nothing'],
    ['get', 'pods', '--halp'],
    ['top', 'pods'],
    ['get', 'pods', '-s', 'http://127.0.0.1:1'],
  ]) {
    t.equal(await names(...words), '', words.join(' '))
  }
  const script = `distributary() { ${process.execPath} ${program} "$@"; }; source <(distributary completion bash)
    COMP_WORDS=(distributary get cm e); COMP_CWORD=3; _distributary; echo "\${COMPREPLY[@]}"
    COMP_WORDS=(distributary get po); COMP_CWORD=2; _distributary; echo "\${COMPREPLY[@]}"`
  const { NODE_OPTIONS: _, ...inherited } = process.env
  // The server is in this process: it must go on while the shell runs.
  const bash = spawn('bash', ['-c', script], {
    env: { ...inherited, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const chunks: Buffer[] = []
  bash.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  bash.stderr.on('data', (chunk: Buffer) => chunks.push(chunk))
  await new Promise((resolve) => bash.once('close', resolve))
  t.equal(Buffer.concat(chunks).toString(), 'exact\npods\n')
})
