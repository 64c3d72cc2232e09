/**
 * Tests the credential plugins of a kubeconfig: their input, how long their output is valid, and how they work against
 * a server with TLS.
 */
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { stringify } from 'yaml'
import { execCredentials } from '../../../src/client/node/exec-credentials.js'
import { loadKubeconfig, nodeTransport, type NodeTransportOptions } from '../../../src/client/index.js'
import { readBytes } from '../../../src/support/read-bytes.js'
import type { ExecPlugin } from '../../../src/support/exec-plugin.js'
import { readKubeconfig } from '../../../src/support/read-kubeconfig.js'
import { startApp } from '../../support/app.js'
import { pod } from '../../support/pod.js'
import { createAuthority } from '../../support/certificates.js'
import { until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const V1 = 'client.authentication.k8s.io/v1'
const BETA = 'client.authentication.k8s.io/v1beta1'

const folder = mkdtempSync(join(tmpdir(), 'distributary-exec-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const inFolder = (name: string): string => join(folder, name)

/** A command that records its environment, and prints the content of `print`. */
const command = inFolder('plugin')
writeFileSync(
  command,
  `#!${process.execPath}
const fs = require('node:fs')
fs.appendFileSync(${JSON.stringify(inFolder('runs'))}, JSON.stringify({
  args: process.argv.slice(2), info: JSON.parse(process.env.KUBERNETES_EXEC_INFO), region: process.env.REGION, home: process.env.HOME,
}) + '\\n')
process.stdout.write(fs.readFileSync(${JSON.stringify(inFolder('print'))}))
process.exitCode = Number(process.env.CODE ?? 0)
`,
)
chmodSync(command, 0o755)

interface Run {
  readonly args: readonly string[]
  readonly info: { readonly kind: string; readonly apiVersion: string; readonly spec: object }
  readonly region?: string
  readonly home?: string
}

const runs = (): readonly Run[] =>
  existsSync(inFolder('runs'))
    ? readFileSync(inFolder('runs'), 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Run)
    : []
const print = (text: string): void => {
  rmSync(inFolder('runs'), { force: true })
  writeFileSync(inFolder('print'), text)
}
const credential = (status: object | null, apiVersion = V1): string =>
  JSON.stringify({ kind: 'ExecCredential', apiVersion, status })
const plugin = (more: Partial<ExecPlugin> = {}): ExecPlugin => ({
  apiVersion: V1,
  command,
  args: [],
  env: {},
  interactiveMode: 'Never',
  installHint: '',
  cluster: null,
  ...more,
})

void t.test(
  'printed credentials last until they expire or are refused, and the command runs once for all callers',
  async (t) => {
    print(credential({ token: 'one', expirationTimestamp: '2026-01-01T00:00:10Z' }))
    const clock = new VirtualClock(Date.parse('2026-01-01T00:00:00Z'))
    const source = execCredentials(plugin(), { clock })
    const [first] = await Promise.all([source.current(), source.current(), source.current()])
    t.same(first, { authorization: 'Bearer one' })
    t.equal(runs().length, 1)
    clock.advance(9_999)
    await source.current()
    t.equal(runs().length, 1, 'not yet expired')
    print(credential({ token: 'two' }))
    clock.advance(1)
    const second = await source.current()
    t.same(second, { authorization: 'Bearer two' })
    clock.advance(1e12)
    t.equal(await source.current(), second, 'without a time it lasts')
    source.refused(first)
    t.equal(await source.current(), second, 'older ones were refused')
    source.refused(second)
    t.not(await source.current(), second)
    t.equal(runs().length, 2)
  },
)

void t.test('the command gets arguments, environment, version, terminal and cluster', async (t) => {
  const config = (exec: object, cluster: object = {}): ExecPlugin =>
    readKubeconfig(
      {
        contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
        clusters: [{ name: 'c', cluster: { server: 'https://here', ...cluster } }],
        users: [{ name: 'u', user: { exec } }],
      },
      { file: inFolder('config') },
    ).exec!
  print(credential({ token: 'x' }, BETA))
  const wish = {
    apiVersion: BETA,
    command: './plugin',
    args: ['get', '-token'],
    env: [{ name: 'REGION', value: 'eu' }],
  }
  await execCredentials(config(wish), { isInteractive: false }).current()
  const [run] = runs()
  t.same(run?.args, ['get', '-token'], 'a path is relative to the file')
  t.equal(run?.region, 'eu')
  t.equal(run?.home, process.env['HOME'], 'and the environment that is there')
  t.same(run?.info, { kind: 'ExecCredential', apiVersion: BETA, spec: { interactive: false } })

  print(credential({ token: 'x' }))
  const cluster = {
    'certificate-authority-data': Buffer.from('CA').toString('base64'),
    'tls-server-name': 'name',
    extensions: [{ name: 'client.authentication.k8s.io/exec', extension: { audience: 'a' } }],
  }
  const asked = { apiVersion: V1, command, interactiveMode: 'IfAvailable', provideClusterInfo: true }
  await execCredentials(config(asked, cluster), { isInteractive: true }).current()
  t.same(runs()[0]?.info.spec, {
    interactive: true,
    cluster: {
      server: 'https://here',
      'tls-server-name': 'name',
      'certificate-authority-data': 'Q0E=',
      config: { audience: 'a' },
    },
  })
  for (const [exec, expected] of [
    [{ command: 'a', interactiveMode: 'Never' }, /exec\.apiVersion must be one of .*v1, .*v1beta1, not ""/],
    [{ apiVersion: 'client.authentication.k8s.io/v1alpha1', command: 'a' }, /exec\.apiVersion/],
    [{ apiVersion: V1, command: 'a' }, /exec\.interactiveMode must be one of Never, IfAvailable, Always, not ""/],
    [{ apiVersion: V1, interactiveMode: 'Never' }, /exec\.command is missing/],
    [{ apiVersion: BETA, command: 'a', args: [1] }, /exec\.args/],
    [{ apiVersion: BETA, command: 'a', env: [{ value: 'x' }] }, /exec\.env/],
  ] as const) {
    t.throws(() => config(exec), expected)
  }
})

void t.test('output that is not a credential is reported, but never printed', async (t) => {
  for (const [printed, expected] of [
    ['secret', /did not print JSON/],
    ['null', /did not print an ExecCredential/],
    ['{"kind":"Pod"}', /did not print an ExecCredential/],
    [credential({ token: 'secret' }, BETA), /printed apiVersion ".*v1beta1" instead of .*\/v1$/],
    [credential(null), /neither a token nor a certificate/],
    [credential({ clientKeyData: 'secret' }), /one of clientCertificateData and clientKeyData/],
    [credential({ token: 'secret', expirationTimestamp: 'soon' }), /"soon" is not a time/],
    ['x'.repeat(2 ** 20 + 1), /more than 1048576 bytes/],
  ] as const) {
    print(printed)
    const error = await execCredentials(plugin()).current().then(() => null, (cause: Error) => cause) // prettier-ignore
    t.match(error?.message, expected)
    t.notMatch(error?.message, /secret/)
  }
  print(credential({ token: 'x' }))
  await t.rejects(execCredentials(plugin({ env: { CODE: '3' } })).current(), /ended with exit code 3/)
  const always = plugin({ interactiveMode: 'Always' })
  await t.rejects(execCredentials(always, { isInteractive: false }).current(), /requires a terminal .*there is none/)
  const hint = plugin({ command: inFolder('none'), installHint: 'get it there' })
  await t.rejects(execCredentials(hint).current(), /ENOENT[^]*get it there/)
  const source = execCredentials(plugin())
  print('broken')
  await t.rejects(source.current())
  print(credential({ token: 'renewed' }))
  t.same(await source.current(), { authorization: 'Bearer renewed' }, 'a failure is not remembered')
})

void t.test('a command that hangs is killed, and one whose child keeps stdout open still counts', async (t) => {
  const clock = new VirtualClock()
  const shell = (script: string): ExecPlugin => plugin({ command: '/bin/sh', args: ['-c', script] })
  const hanging = execCredentials(shell(`sleep 600 & echo $! > '${inFolder('child')}'; wait`), { clock })
  const first = hanging.current()
  await until(() => existsSync(inFolder('child')) && readFileSync(inFolder('child'), 'utf8').endsWith('\n'), 'it runs')
  t.teardown(() => process.kill(Number(readFileSync(inFolder('child'), 'utf8'))))
  let ended = false
  void first.catch(() => (ended = true))
  clock.advance(180_000)
  await until(() => (clock.advance(100), ended), 'it was killed')
  await t.rejects(first, /\/bin\/sh did not end within 180000 ms/)

  const script = `sleep 600 & echo $! > '${inFolder('other')}'; echo '${credential({ token: 'x' })}'`
  t.same(await execCredentials(shell(script)).current(), { authorization: 'Bearer x' })
  process.kill(Number(readFileSync(inFolder('other'), 'utf8')))
})

void t.test('a token that a server refuses is fetched again, and a certificate is presented', async (t) => {
  const authority = createAuthority(t)
  const [server, jane] = [authority.server(), authority.client('jane')]
  writeFileSync(inFolder('tokens.csv'), 'good-token,robot,robot\n')
  const app = await startApp(t, {
    flags: [
      '--secure-port=0',
      `--tls-cert-file=${server.cert}`,
      `--tls-private-key-file=${server.key}`,
      `--client-ca-file=${authority.ca}`,
      `--token-auth-file=${inFolder('tokens.csv')}`,
      '--anonymous-auth=false',
    ],
    objects: { 'pods/default/a': pod('a') },
  })
  const file = inFolder('kubeconfig')
  writeFileSync(
    file,
    stringify({
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server: app.secureUrl, 'certificate-authority': authority.ca } }],
      users: [{ name: 'u', user: { exec: { apiVersion: V1, command: 'plugin', interactiveMode: 'Never' } } }],
    }).replace('command: plugin', `command: ${command}`),
  )
  const options: NodeTransportOptions = await loadKubeconfig(file)
  const transport = nodeTransport(options)
  t.teardown(() => transport.close())
  const status = async (): Promise<number> => {
    const response = await transport.send({
      path: '/api/v1/pods',
      query: {},
      accept: 'application/json',
      signal: AbortSignal.timeout(20_000),
    })
    await readBytes(response.body, 1e6)
    return response.status
  }
  print(credential({ token: 'old-token' }))
  t.equal(await status(), 401)
  const pem = {
    clientCertificateData: readFileSync(jane.cert, 'utf8'),
    clientKeyData: readFileSync(jane.key, 'utf8'),
  }
  print(credential(pem))
  t.equal(await status(), 200, 'a certificate instead')
  t.equal(await status(), 200)
  t.equal(runs().length, 1, 'which is kept')
  options.credentials!.refused(await options.credentials!.current())
  print(credential({ token: 'good-token' }))
  t.equal(await status(), 200, 'and a token instead of it')
})
