/** Tests what a server prints at start-up in addition to its log. */
import t from 'tap'
import { load } from '../../../src/server/config/load.js'
import { banner } from '../../../src/server/wiring/banner.js'
import type { PortNumbers } from '../../../src/server/wiring/ports.js'
import { checkConfig } from '../../../src/server/wiring/check-config.js'
import { logAccess } from '../../../src/server/wiring/describe-config.js'
import { silentLogger } from '../../../src/support/log.js'
import { startEtcd } from '../../support/etcd-process.js'
import { startServer } from '../../support/server-process.js'
import { until } from '../../support/until.js'

void t.test('the banner, `config check` and the log report the same number of resources', async (t) => {
  // Empty, since the log also counts custom resources.
  const { url } = await startEtcd(t)
  const always = '--kubernetes-resources=always'
  const flags = [`--etcd-servers=${url}`, '--resource=flags=/demo/flags/', always, '--port=0']
  const server = await startServer(t, { flags })
  const ready = server
    .log()
    .split('\n')
    .map((line) => (line.startsWith('{') ? (JSON.parse(line) as { msg?: string; resources?: number }) : {}))
    .find(({ msg }) => msg === 'ready')
  const counted = ready?.resources
  const path = '/apis/distributary.io/v1/flags'
  await until(() => server.printed().includes(path), 'the banner is printed')
  t.match(
    server.printed(),
    `listens on http://127.0.0.1:${server.port} and reads ${url}, to serve ${counted} resources, and custom ones as they are defined`,
  )
  t.match(server.printed(), `/demo/flags/ is http://127.0.0.1:${server.port}${path}`, 'and where a declared prefix is')
  const { lines } = await checkConfig({ argv: flags, environment: {}, connects: false })
  t.ok(lines.some((line) => line.startsWith(`serves ${counted} resources, `)))
})

void t.test('the commands to try, and the page, name the credential that the server requires', (t) => {
  const tls = '--tls-cert-file=/c --tls-private-key-file=/k --secure-port=8443'
  for (const [flags, expected] of [
    ['', [/In a browser: http:\/\/127\.0\.0\.1:1\/ui\/\n/, /\nTry:\n {2}kubectl -s http:\S+ get/, /curl -N 'http/]],
    [
      '--token-auth-file=/t --authorization-mode=RBAC',
      [
        /\/ui\/ \(it asks for a token\)\n/,
        /kubectl -s https:\S+ --token="\$TOKEN" get/,
        /curl -N -H "Authorization: Bearer \$TOKEN" /,
      ],
    ],
    [
      `${tls} --client-ca-file=/ca --authorization-mode=RBAC`,
      [/\/ui\/ \(with a client certificate\)\n/, /curl -N --http2 --cert client\.crt --key client\.key /],
    ],
  ] as const) {
    const loaded = load(flags.split(' ').filter(Boolean), {}, () => 'content')
    if (loaded.kind !== 'run') throw new Error('the flags of a test must run')
    const text = banner(loaded.config, { port: 1, securePort: 2, metricsPort: null } as PortNumbers, true, new Map())
    for (const part of expected) t.match(text, part, flags)
  }
  t.end()
})

void t.test('an IPv6 address is in brackets', async (t) => {
  const { lines } = await checkConfig({ argv: ['--bind-address=::1', '--port=8001'], environment: {}, connects: false })
  t.ok(lines.includes('listens on http://[::1]:8001'), lines.join('\n'))
})

void t.test('the start-up log states in one line who may read what, with workers too', async (t) => {
  for (const workers of ['1', '2']) {
    const server = await startServer(t, { flags: ['--workers', workers] })
    t.equal(server.log().split('anyone who can connect may read and write everything').length, 2, server.log())
  }
})

void t.test('each combination reports who may read what, as a warning if it is more than many expect', (t) => {
  const TLS = '--tls-cert-file=/c --tls-private-key-file=/k'
  const upstream = '--etcd-servers=http://a:1'
  for (const [flags, level, expected] of [
    ['', 'info', 'anyone who can connect may read and write everything this server serves'],
    [upstream, 'info', 'anyone who can connect may read everything this server serves'],
    [
      `${upstream} --bind-address=0.0.0.0 --insecure-bind-any`,
      'warn',
      'anyone who can connect may read everything this server serves',
    ],
    [`${upstream} --authorization-mode=RBAC`, 'info', 'all callers are anonymous and may read what RBAC allows'],
    [
      `${upstream} --token-auth-file=/t --authorization-mode=AlwaysAllow`,
      'warn',
      'callers authenticated by the token file may read everything this server serves',
    ],
    [
      `${upstream} ${TLS} --client-ca-file=/ca --authentication-kubeconfig=/k --anonymous-auth --authorization-mode=RBAC,Webhook --authorization-kubeconfig=/k`,
      'info',
      'callers authenticated by client certificates or TokenReview, and anonymous callers, may read what RBAC or Webhook allows',
    ],
    [
      `${upstream} --passthrough=https://b:1 --authorization-mode=AlwaysAllow`,
      'warn',
      'anyone who can connect may read everything this server serves; forwarded requests are authorized by the servers that receive them',
    ],
    [
      `${upstream} --oidc-issuer-url=https://i.example --oidc-client-id=x --apiservice=a.b/v1=https://c:1 --authorization-mode=Policy --authorization-policy-file=/p`,
      'info',
      'callers authenticated by OpenID Connect may read what Policy allows; forwarded requests are authorized by the servers that receive them',
    ],
  ] as const) {
    const loaded = load(flags.split(' ').filter(Boolean), {}, () => 'content')
    if (loaded.kind !== 'run') throw new Error('the flags of a test must run')
    const lines: string[] = []
    const line =
      (at: string) =>
      (_fields: object, message: string): void =>
        void lines.push(`${at}: ${message}`)
    logAccess(loaded.config, { ...silentLogger, info: line('info'), warn: line('warn') })
    t.same(lines, [`${level}: ${expected}`], flags)
  }
  t.end()
})
