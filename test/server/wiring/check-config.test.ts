/** `distributary config check` (issue 22): what it finds, what it prints, and its exit codes. */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { options } from '../../../src/server/config/options.js'
import { RELOADABLE } from '../../../src/server/config/reload.js'
import { checkConfig } from '../../../src/server/wiring/check-config.js'
import { runCli } from '../../cli/support/run-cli.js'
import { createAuthority } from '../../support/certificates.js'
import { startEtcd } from '../../support/etcd-process.js'
import { freePort } from '../../support/free-port.js'
import { runServer, startServer } from '../../support/server-process.js'
import { until } from '../../support/until.js'

const check = (argv: readonly string[], connects = false) => checkConfig({ argv, environment: {}, connects })

void t.test(
  'a valid configuration is described: sources, ports, certificates, and the origin of each option',
  async (t) => {
    const authority = createAuthority(t)
    const { cert, key } = authority.server()
    const file = join(t.testdir(), 'config.yaml')
    writeFileSync(file, 'maxWatchers: 7\n')
    const { outcome, lines, problems } = await check([
      `--config=${file}`,
      `--tls-cert-file=${cert}`,
      `--tls-private-key-file=${key}`,
      `--client-ca-file=${authority.ca}`,
      '--authorization-mode=AlwaysAllow',
      '--metrics-bind-address=127.0.0.1:9090',
      '--etcd-servers=http://127.0.0.1:1',
    ])
    t.same(problems, [])
    t.equal(outcome, 'valid', 'and etcd is not asked')
    const text = lines.join('\n')
    t.match(text, 'reads http://127.0.0.1:1')
    t.match(text, 'listens on https://127.0.0.1:6443, metrics at http://127.0.0.1:9090')
    t.match(text, 'callers authenticated by client certificates may read everything this server serves')
    t.match(text, /--tls-cert-file: CN=.*, valid until 20/)
    t.match(text, '--max-watchers (file)')
    t.match(text, '--etcd-servers (flag)')
  },
)

void t.test('it lists the options that reload from the file, and those that need a restart', async (t) => {
  const file = join(t.testdir({ 'config.yaml': 'maxWatchers: 7\nwatchCacheSizes: [pods#50]\n' }), 'config.yaml')
  const linesOf = async (...argv: string[]): Promise<string> => (await check(argv)).lines.join('\n')
  const text = await linesOf(`--config=${file}`, '--log-level=debug')
  const reloads = /^reloads from .*config\.yaml when it changes, and on SIGHUP: (.*)$/m.exec(text)?.[1]?.split(', ')
  const flags = RELOADABLE.map((name) => options[name].flag).filter((flag) => flag !== '--log-level')
  t.same(reloads, [...flags, 'resources'], 'a flag stays in force whatever the file says')
  t.match(text, 'needs a restart: --watch-cache-sizes, --config, --log-level, and all other options')
  t.match(text, 'reloads by itself: files with certificates')
  t.notMatch(await linesOf(`--config=${file}`, '--upstream=http://a:1'), /^reloads .*resources$/m)
  t.match(await linesOf(), 'needs a restart: every option, because there is no --config')
})

void t.test('every file is parsed by the code that uses it', async (t) => {
  const authority = createAuthority(t)
  const { cert, key } = authority.server()
  const other = authority.server()
  const folder = t.testdir({ junk: 'junk', 'tokens.csv': 'a,b\n', 'policy.yaml': 'rules: 5\n' })
  const path = (name: string): string => join(folder, name)
  const tls = ['--tls-cert-file', cert, '--tls-private-key-file', key]
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [['--tls-cert-file', cert, '--tls-private-key-file', other.key], /--tls-private-key-file: .* does not match/],
    [['--tls-cert-file', path('junk'), '--tls-private-key-file', key], /--tls-cert-file: .*junk: /],
    [[...tls, '--authorization-mode=RBAC', '--client-ca-file', path('junk')], /--client-ca-file: .*junk/],
    [['--etcd-servers=https://a:1', '--etcd-cafile', path('junk')], /--etcd-cafile: .*junk/],
    [['--authorization-mode=RBAC', '--token-auth-file', path('tokens.csv')], /tokens\.csv: record 1/],
    [['--authorization-mode=Policy', '--authorization-policy-file', path('policy.yaml')], /policy\.yaml: /],
    [['--upstream=http://a:1', '--kubeconfig', path('junk')], /junk/],
    [['--proto-descriptors', path('junk')], /./],
    [['--port=many'], /--port: "many"/],
    [['--config', path('none')], /--config: cannot be read/],
  ]
  for (const [argv, expected] of cases) {
    const { outcome, problems } = await check(argv)
    t.equal(outcome, 'invalid', argv.join(' '))
    t.match(problems.join('\n'), expected)
  }
})

void t.test('with --connect etcd is contacted, and a server that does not answer is named', async (t) => {
  const etcd = await startEtcd(t)
  const reached = await check(['--etcd-servers', etcd.url], true)
  t.same(reached.problems, [])
  t.match(reached.lines.at(-1), /^etcd: \d.* answers, at revision \d+, with 0 keys under \/registry\/$/)
  const other = await startEtcd(t)
  const both = await check(['--etcd-servers', etcd.url, `--etcd-servers-overrides=/events#${other.url}`], true)
  t.same(both.problems, [])
  t.match(both.lines.at(-2), /^etcd: \d.* answers/)
  t.match(both.lines.at(-1), /^the etcd of events: \d.* answers, at revision \d+, with 0 keys under /)
  const away = `127.0.0.1:${await freePort()}`
  for (const argv of [
    ['--etcd-servers', `http://${away}`],
    ['--etcd-servers', etcd.url, '--nats-servers', `nats://${away}`],
    ['--upstream', `http://${away}`],
    ['--etcd-servers', etcd.url, `--etcd-servers-overrides=/events#http://${away}`],
  ]) {
    const { outcome, problems } = await check(argv, true)
    t.equal(outcome, 'unreachable', argv.join(' '))
    t.equal(problems.length, 1, problems.join('\n'))
    t.match(problems[0], away)
  }
  const none = ['--etcd-servers', `http://${away}`, `--etcd-servers-overrides=/events#http://${away}`]
  t.match((await check(none, true)).problems, [/^etcd: /, /^the etcd of events: /], 'all of them are')
})

void t.test(
  '--connect counts the keys under each prefix that is served, because a mistyped one has none',
  async (t) => {
    const etcd = await startEtcd(t)
    for (const key of ['/config/flags/a', '/config/flags/b', '/registry/pods/web/a'])
      await etcd.call('kv/put', { key: Buffer.from(key).toString('base64'), value: '' })
    const prefixes = ['--resource=flags=/config/flags/', '--resource=typos=/config/flag/']
    const flags = [`--etcd-servers=${etcd.url}`, ...prefixes]
    const declared = '2 keys under /config/flags/, 0 keys under /config/flag/'
    t.match((await check(flags, true)).lines.at(-1), `at revision 4, with 1 key under /registry/, ${declared}`)
    const alone = await check([...flags, '--kubernetes-resources=never'], true)
    t.match(alone.lines.at(-1), `at revision 4, with ${declared}`, 'what is not served is not read')
    const server = await startServer(t, { flags })
    // Its log and its output are two pipes.
    await until(() => server.printed().includes('typos'), 'it prints its prefixes')
    t.match(server.printed(), new RegExp(`/config/flags/ is http:\\S+/flags \\(2 keys\\)$`, 'm'))
    t.match(server.printed(), new RegExp(`/config/flag/ is http:\\S+/typos \\(0 keys\\)$`, 'm'))
  },
)

void t.test('etcd is reached without a scheme, and through a Unix socket', async (t) => {
  const etcd = await startEtcd(t)
  const { host, port } = new URL(etcd.url)
  // In a folder with a short name, because the path of a socket has at most 107 bytes.
  const folder = mkdtempSync(join(tmpdir(), 'distributary-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const socket = join(folder, 'etcd.sock')
  const proxy = createServer((client) => {
    const server = connect(Number(port), '127.0.0.1')
    client.pipe(server).on('error', () => client.destroy())
    server.pipe(client).on('error', () => server.destroy())
  })
  await once(proxy.listen(socket), 'listening')
  t.teardown(() => proxy.close())
  for (const server of [host, `unix://${socket}`]) {
    const { lines, problems } = await check([`--etcd-servers=${server}`], true)
    t.same(problems, [], server)
    t.match(lines.at(-1), /^etcd: \d.* answers, at revision \d+, with /, server)
  }
  const { problems } = await check([`--etcd-servers=unix://${socket}x`], true)
  t.match(problems.join(), `unix://${socket}x`, 'a socket that does not exist is named')
})

void t.test('--connect warns of an etcd whose roles can be bypassed', async (t) => {
  const etcd = await startEtcd(t)
  const root = { name: 'root', password: 'root' }
  const range = { key: '/allowed/', range_end: '/allowed0' }
  const perm = Object.fromEntries(
    Object.entries(range).map(([key, text]) => [key, Buffer.from(text).toString('base64')]),
  )
  await etcd.call('auth/user/add', root)
  await etcd.call('auth/role/add', { name: 'root' })
  await etcd.call('auth/user/grant', { user: 'root', role: 'root' })
  await etcd.call('auth/user/add', { name: 'reader', password: 'r' })
  await etcd.call('auth/role/add', { name: 'reader' })
  await etcd.call('auth/role/grant', { name: 'reader', perm: { permType: 'READ', ...perm } })
  await etcd.call('auth/user/grant', { user: 'reader', role: 'reader' })
  await etcd.call('auth/enable', {})
  const file = join(t.testdir({ password: 'r' }), 'password')
  const user = ['--etcd-username=reader', `--etcd-password-file=${file}`, '--etcd-prefix=/allowed']
  const { lines, problems } = await check(['--etcd-servers', etcd.url, ...user], true)
  t.same(problems, [])
  t.match(
    lines.at(-1),
    /^etcd: 3\.4\.\d+ answers, at revision \d+, with 0 keys under \/allowed\/; warning: .*GHSA-xg4h-6gfc-h4m8/,
  )
  const server = await startServer(t, { flags: ['--etcd-servers', etcd.url, ...user, '--workers=2'] })
  const readiness = async (): Promise<string> => await (await fetch(`${server.url}/readyz?verbose`)).text()
  await until(
    async () => /^\[\*\]etcd-roles can be bypassed: .*GHSA-xg4h-6gfc-h4m8/m.test(await readiness()),
    'a running server says so, and doctor repeats it',
  )
  // Another worker may answer, and it knows no more than its primary has told it.
  await until(async () => /^\[\+\]etcd-permissions ok/m.test(await readiness()), 'reads are allowed')
  const token = String((await etcd.call('auth/authenticate', root))['token'])
  await etcd.call('auth/role/revoke', { role: 'reader', ...perm }, token)
  await until(
    async () => /^\[\*\]etcd-permissions reads are refused: /m.test(await readiness()),
    'and so does a worker whose primary is refused',
  )
})

void t.test('the command exits with 0, 1 or 2, and starts no server', async (t) => {
  const valid = await runCli(t, ['config', 'check', '--port=0', '--max-watchers', '5'])
  t.match(valid, { code: 0, stderr: '', stdout: /listens on [^]*the configuration is valid\n$/ })
  const wrong = await runCli(t, ['config', 'check', '--max-watchers', 'x', '--prot=1'])
  t.equal(wrong.code, 2)
  t.match(wrong.stderr, /"x" is not a whole number/)
  t.match(wrong.stderr, /--prot/)
  const away = `http://127.0.0.1:${await freePort()}`
  t.match(await runCli(t, ['config', 'check', '--connect', '--etcd-servers', away]), {
    code: 1,
    stderr: /127\.0\.0\.1/,
  })
  for (const [flags, code, expected] of [
    [[], 0, { outcome: 'valid', problems: [] }],
    [['--max-watchers', 'x'], 2, { outcome: 'invalid', problems: [/"x" is not a whole number/] }],
  ] as const) {
    const json = await runCli(t, ['config', 'check', '-o', 'json', ...flags])
    t.match({ ...json, stdout: JSON.parse(json.stdout) as object }, { code, stderr: '', stdout: expected })
  }
  t.equal((await runCli(t, ['config', 'show'])).code, 2)
  t.equal((await runCli(t, ['config'])).code, 2)
  t.match((await runCli(t, ['config', 'check', '--help'])).stdout, 'Usage: distributary config')
})

void t.test('it warns of unknown variables, and of words in a policy that resemble known ones', async (t) => {
  const file = join(t.testdir(), 'policy.yaml')
  const rule = (verbs: string, group: string, resource: string): string =>
    `  - users: [ann]\n    verbs: [${verbs}]\n    apiGroups: ["${group}"]\n    resources: [${resource}]\n`
  writeFileSync(
    file,
    `rules:\n${rule('get, lst', '', 'pods')}${rule('get', 'distributary.oi', 'flag')}${rule('"*"', '*', '"*", "*/status", pods/log')}` +
      rule('"impersonate:user-info"', 'authentication.k8s.io', 'users, userextras/scopes') +
      `${rule('create', 'metrics.k8s.io', 'nodes')}${rule('get', 'shop.example', 'widgets')}` +
      '  - users: [ann]\n    verbs: [get, post]\n    paths: [/metrics]\n',
  )
  const argv = ['--authorization-mode=Policy', `--authorization-policy-file=${file}`, '--resource=flags=/flags/']
  const environment = { DISTRIBUTARY_ETCD_SERVER: 'http://127.0.0.1:1' }
  const { outcome, lines } = await checkConfig({ argv, environment, connects: false })
  t.equal(outcome, 'valid')
  t.same(
    lines.filter((line) => line.startsWith('warning: ')),
    [
      'warning: DISTRIBUTARY_ETCD_SERVER names no option, so it is ignored; did you mean DISTRIBUTARY_ETCD_SERVERS?',
      'warning: policy, rule 1: verbs: lst is unknown; did you mean list?',
      'warning: policy, rule 2: apiGroups: distributary.oi is unknown; did you mean distributary.io?',
      'warning: policy, rule 2: resources: flag is unknown; did you mean flags?',
    ],
  )
})

void t.test('--connect names what is wrong with TLS, and which option to correct', async (t) => {
  const [authority, foreign] = [createAuthority(t), createAuthority(t)]
  const secure = await startEtcd(t, { tls: { ...authority.server(), clientCa: authority.ca } })
  const plain = await startEtcd(t)
  const stranger = foreign.client('stranger')
  const certificate = ['--etcd-certfile', stranger.cert, '--etcd-keyfile', stranger.key]
  const ca = ['--etcd-cafile', authority.ca]
  const rows: readonly (readonly [name: string, flags: readonly string[], expected: RegExp])[] = [
    ['no client certificate', ca, /requires a client certificate that it trusts: check --etcd-certfile and/],
    ['a foreign client certificate', [...ca, ...certificate], /requires a client certificate that it trusts/],
    ['another CA', ['--etcd-cafile', foreign.ca], /--etcd-cafile must contain the CA that signed/],
    ['the system’s CAs', [], /--etcd-cafile must contain the CA that signed/],
  ]
  for (const [name, flags, expected] of rows) {
    const { outcome, problems } = await check([`--etcd-servers=${secure.url}`, ...flags], true)
    t.equal(outcome, 'unreachable', name)
    t.match(problems.join('\n'), expected, name)
    t.notMatch(problems.join('\n'), /error:0|SSL routines/, name)
  }
  for (const [{ url }, from, to] of [
    [secure, 'https:', 'http:'],
    [plain, 'http:', 'https:'],
  ] as const) {
    const { problems } = await check([`--etcd-servers=${url.replace(from, to)}`], true)
    t.match(problems.join('\n'), new RegExp(`use ${from}//`), `${to} instead of ${from}`)
  }
  const { key } = authority.client('other')
  const server = await runServer(t, [`--etcd-servers=${secure.url}`, ...certificate.slice(0, 3), key])
  t.equal(server.code, 2)
  t.match(server.stderr, `${stranger.cert}, ${key}): the key does not belong to the certificate`)
})
