/** `distributary config check` (issue 22): what it finds, what it prints, and its exit codes. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { options } from '../../../src/server/config/options.js'
import { RELOADABLE } from '../../../src/server/config/reload.js'
import { checkConfig } from '../../../src/server/wiring/check-config.js'
import { runCli } from '../../cli/support/run-cli.js'
import { createAuthority } from '../../support/certificates.js'
import { startEtcd } from '../../support/etcd-process.js'
import { freePort } from '../../support/free-port.js'

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
  t.match(reached.lines.at(-1), /^etcd: \d.* answers, at revision \d+$/)
  const other = await startEtcd(t)
  const both = await check(['--etcd-servers', etcd.url, `--etcd-servers-overrides=/events#${other.url}`], true)
  t.same(both.problems, [])
  t.match(both.lines.at(-2), /^etcd: \d.* answers/)
  t.match(both.lines.at(-1), /^the etcd of events: \d.* answers, at revision \d+$/)
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
  t.equal((await runCli(t, ['config', 'show'])).code, 2)
  t.equal((await runCli(t, ['config'])).code, 2)
  t.match((await runCli(t, ['config', 'check', '--help'])).stdout, 'Usage: distributary config')
})
