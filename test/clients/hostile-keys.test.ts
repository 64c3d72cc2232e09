/**
 * Arbitrary keys of a declared prefix in clients that know nothing about it: kubectl, our commands, our informer and
 * that of @kubernetes/client-node. The values try hard to be mistaken for each other.
 */
import { execFile } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { KubeConfig, type KubernetesObject, makeInformer } from '@kubernetes/client-node'
import t, { type Test } from 'tap'
import { fetchTransport, keyName, SharedInformer } from '../../src/client/index.js'
import { type Key, keyFromBytes, keyFromText } from '../../src/engine/model/event.js'
import { type AppHarness, startApp } from '../support/app.js'
import { kubectlBinary } from '../support/kubectl.js'
import { until } from '../support/until.js'
import { runCli, startCli } from '../cli/support/run-cli.js'

const PREFIX = '/config/flags/'
const FLAGS = '/apis/distributary.io/v1/flags'
const KEYS = [
  ['a1', 'a2', 'eu/checkout', 'eu:checkout', 'eu%2Fcheckout', 'eu~checkout', 'eu~3acheckout', 'a//b', '/', '//', ''],
  [
    '.',
    '..',
    '../..',
    './a',
    '-A',
    '--all',
    'a b',
    'a,b',
    'a=b',
    'a\\b',
    '"',
    "'",
    'a\nb',
    '\0',
    '%',
    '%zz',
    '*',
    '?a#b',
  ],
  [
    'Zürich',
    'Zu\u0308rich',
    '日本/東京',
    '😀',
    '\u202egnp',
    '\ufeff',
    '\ufffd',
    'web/10.0.0.1:80',
    'a&b+c',
    '$(id)',
    '~',
  ],
].flat()
const NOT_UTF8 = keyFromBytes(Buffer.from(`${PREFIX}a\xff`, 'latin1'))
const VALUES = [
  'on',
  '{"metadata":{"name":"same"},"v":1}',
  '{"metadata":{"owner":"ann"}}',
  '[9007199254740993]',
  '\0\xff',
]

interface Flag extends KubernetesObject {
  readonly metadata: { readonly name: string }
  readonly key: string
  readonly text?: string
}

async function startFlags(t: Test): Promise<AppHarness> {
  const h = await startApp(t, { flags: ['--resource', `flags=${PREFIX}`] })
  const keys = [...KEYS.map((key) => keyFromText(PREFIX + key)), NOT_UTF8]
  for (const [i, key] of keys.entries()) put(h, key, VALUES[i % VALUES.length]!)
  await until(async () => (await list(h)).length === keys.length, 'all keys are listed')
  return h
}

function put(h: AppHarness, key: Key, value: string): void {
  h.upstream.commit([{ type: 'put', key, value: Buffer.from(value, 'latin1') }])
}

async function list(h: AppHarness): Promise<readonly Flag[]> {
  return ((await (await fetch(h.url + FLAGS)).json()) as { items: readonly Flag[] }).items
}

const namesOf = (flags: Iterable<Flag>): readonly string[] => [...flags].map(({ metadata }) => metadata.name).sort()
const isOne = (items: readonly string[]): boolean => new Set(items).size === items.length

void t.test('every key is one object with its own path', async (t) => {
  const h = await startFlags(t)
  const flags = await list(h)
  t.ok(isOne(namesOf(flags)), 'no name comes twice')
  for (const key of KEYS) {
    const answer = await fetch(`${h.url}${FLAGS}/${encodeURIComponent(keyName(key))}`)
    t.match(await answer.json(), { metadata: { name: keyName(key) }, key: PREFIX + key }, JSON.stringify(key))
  }
  t.match(await (await fetch(`${h.url}${FLAGS}/a~ff`)).json(), {
    metadata: { name: 'a~ff' },
    key: `${PREFIX}a\ufffd`,
    keyBytes: Buffer.from(NOT_UTF8, 'latin1').toString('base64'),
  })
  t.match(await (await fetch(`${h.url}${FLAGS}/same`)).json(), { code: 404 })
  t.match(await (await fetch(`${h.url}${FLAGS}?fieldSelector=metadata.name=eu:checkout`)).json(), {
    items: [{ key: `${PREFIX}eu/checkout` }],
  })
})

void t.test('kubectl accepts every name, from its lists and as spelled', async (t) => {
  const h = await startFlags(t)
  const names = namesOf(await list(h))
  const home = mkdtempSync(join(tmpdir(), 'kubectl-'))
  const kubectl = (...args: readonly string[]): Promise<string> =>
    new Promise((resolve, reject) => {
      const options = { env: { ...process.env, HOME: home, KUBECONFIG: '' }, encoding: 'utf8' as const }
      execFile(kubectlBinary, ['-s', h.url, ...args], options, (error, out, err) => {
        if (error === null) resolve(out)
        else reject(new Error(err, { cause: error }))
      })
    })
  const got = JSON.parse(await kubectl('get', 'flags', ...names, '-o', 'json')) as { items: readonly Flag[] }
  t.same(namesOf(got.items), names)
  const listed = await kubectl('get', 'flags', '-o', 'name')
  t.same(
    listed
      .trim()
      .split('\n')
      .map((line) => line.replace(/^flag\.distributary\.io\//, ''))
      .sort(),
    names,
  )
  const table = await kubectl('get', 'flags', 'a//b'.replaceAll('/', ':'), 'Zürich')
  t.match(table, /^NAME +VALUE *\na::b +.*\nZürich +/)
})

void t.test('our commands accept every name, and show how a key is spelled', async (t) => {
  const h = await startFlags(t)
  const names = namesOf(await list(h))
  const environment = { DISTRIBUTARY_SERVER: h.url }
  const cli = async (...args: string[]) => await runCli(t, args, { environment })
  const got = await cli('get', 'flags', ...names, '-o', 'json')
  t.same(namesOf((JSON.parse(got.stdout) as { items: readonly Flag[] }).items), names, got.stderr)
  t.match(await cli('get', 'flags/eu:checkout', '-o', 'name'), { code: 0, stdout: /eu:checkout\n$/ })
  t.match(await cli('get', 'flags', 'eu/checkout'), {
    code: 2,
    stderr: /if you mean an etcd key, its name is eu:checkout/,
  })
  t.match(await cli('get', 'flags/eu/checkout'), {
    code: 2,
    stderr: /if you mean an etcd key, write flags\/eu:checkout/,
  })
  const watch = startCli(t, ['get', 'flags', keyName('a,b'), '-w', '-o', 'json'], { environment })
  await until(() => watch.stdout().includes(`"key":"${PREFIX}a,b"`), 'one is watched by its name')
})

void t.test('informers hold as many objects as the server, and lose only deleted ones', async (t) => {
  const h = await startFlags(t)
  const ours = new SharedInformer<Flag>({ transport: fetchTransport({ server: h.url }), path: FLAGS })
  ours.start()
  t.teardown(() => ours.stop())
  await ours.whenSynced()
  const config = new KubeConfig()
  config.loadFromClusterAndUser({ name: 'c', server: h.url, skipTLSVerify: true }, { name: 'u' })
  const theirs = makeInformer<Flag>(config, FLAGS, async () => ({
    apiVersion: 'distributary.io/v1',
    kind: 'FlagList',
    ...((await (await fetch(h.url + FLAGS)).json()) as { metadata: object; items: Flag[] }),
  }))
  theirs.on('error', () => undefined)
  t.teardown(() => theirs.stop())
  await theirs.start()
  const same = async (): Promise<boolean> => {
    const names = JSON.stringify(namesOf(await list(h)))
    return names === JSON.stringify(namesOf(ours.store.values())) && names === JSON.stringify(namesOf(theirs.list()))
  }
  await until(same, 'both hold what the server holds')
  h.upstream.commit([{ type: 'delete', key: keyFromText(`${PREFIX}a1`) }])
  put(h, keyFromText(`${PREFIX}a3`), '{"metadata":{"name":"same"}}')
  await until(async () => ours.store.get('a3') !== undefined && (await same()), 'and after a change as well')
  t.ok(ours.store.get('a2'), 'a deletion takes no other key with it')
})

void t.test('a second server behind the first has the same objects, in the same order', async (t) => {
  const h = await startFlags(t)
  const second = await startApp(t, { flags: ['--upstream', h.url] })
  await until(async () => (await fetch(second.url + FLAGS)).ok, 'the prefix is known there')
  const flags = await list(h)
  t.same(await list(second), flags)
  const { metadata, items } = (await (await fetch(`${second.url}${FLAGS}?limit=7`)).json()) as {
    metadata: { continue: string }
    items: readonly Flag[]
  }
  const rest = await fetch(`${second.url}${FLAGS}?continue=${metadata.continue}`)
  t.same([...items, ...((await rest.json()) as { items: readonly Flag[] }).items], flags)
  const check = await second.app.checkConsistency()
  t.match(
    check.resources.find(({ resource }) => resource === 'flags'),
    { outcome: 'equal' },
  )
  put(h, keyFromText(`${PREFIX}a//b`), 'changed')
  await until(async () => isDeepStrictEqual(await list(second), await list(h)), 'a change reaches the second replica')
  t.ok((await list(second)).some(({ key, text }) => key === `${PREFIX}a//b` && text === 'changed'))
})
