import t from 'tap'

import { ConfigError } from '../../../src/server/config/config-error.js'
import type { Environment } from '../../../src/server/config/environment.js'
import { type Config, load } from '../../../src/server/config/load.js'
import { type Option, options } from '../../../src/server/config/options.js'

const FILES: Readonly<Record<string, string>> = {
  '/ca.pem': 'ca',
  '/cert.pem': 'cert',
  '/key.pem': 'key',
  '/pw': 'geheim\n',
}

/** An example item for each list that does not accept every text. */
const LIST_ITEMS: Readonly<Record<string, string>> = {
  etcdServers: 'http://127.0.0.1:2379',
  etcdServersOverrides: '/events#http://127.0.0.1:2381;http://127.0.0.1:2382',
  apiservice: 'metrics.k8s.io/v1beta1=https://10.0.0.9:443',
  natsServers: 'nats://127.0.0.1:4222',
  corsAllowedOrigins: 'https://app.example.org',
  watchCacheSizes: 'pods#5',
  onGapOverrides: 'pods=expire',
  publicCaching: 'pods=5s/30s',
  strip: 'pods=metadata.managedFields',
  trustedProxies: '10.0.0.0/8',
  oidcSigningAlgs: 'RS256',
  authorizationMode: 'RBAC',
}

interface Given {
  readonly args?: readonly string[]
  readonly env?: Environment
  readonly files?: Readonly<Record<string, string>>
}

function loadFrom({ args = [], env = {}, files = {} }: Given) {
  const all = new Map(Object.entries({ ...FILES, ...files }))
  return load(args, env, (path) => {
    const text = all.get(path)
    if (text === undefined) throw new Error(`ENOENT: no such file or directory, open '${path}'`)
    return text
  })
}

function config(given: Given): Config {
  const loaded = loadFrom(given)
  if (loaded.kind !== 'run') throw new Error(`expected a config, got ${loaded.kind}`)
  return loaded.config
}

function problems(given: Given): readonly string[] {
  try {
    loadFrom(given)
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
  return []
}

const yaml = (text: string, args: readonly string[] = []): Given => ({
  args: ['--config', 'c.yaml', ...args],
  files: { 'c.yaml': text },
})

void t.test('without options it serves the in-process store on loopback, writable', async (t) => {
  const c = config({})
  t.match(c, { bindAddress: '127.0.0.1', port: 8_001, securePort: null, embedded: true, enableWrites: true })
  t.match(c, {
    etcdPrefix: '/registry',
    minRequestTimeout: 1_800_000,
    bookmarkInterval: 60_000,
    backfillRevisions: 10_000,
  })
  t.match(c, {
    http2MaxStreamsPerConnection: 250,
    onGap: 'expire',
    authorizationMode: ['AlwaysAllow'],
    anonymousAuth: false,
  })
})

void t.test('beside etcd it is read-only unless configured otherwise', async (t) => {
  const etcd = ['--etcd-servers=http://127.0.0.1:2379']
  t.match(config({ args: etcd }), { embedded: false, enableWrites: false })
  t.equal(config({ args: [...etcd, '--enable-writes'] }).enableWrites, true)
})

void t.test(
  'a gap is bridged behind another server, and ends watches beside etcd, unless configured otherwise',
  (t) => {
    t.match(config({ args: ['--upstream=https://a'] }), { onGap: 'coalesce', onGapOverrides: [] })
    t.match(config({ args: ['--upstream=https://a', '--on-gap=expire'] }), { onGap: 'expire' })
    const one = config({ args: ['--etcd-servers=http://a:1', '--on-gap-overrides=pods=coalesce'] })
    t.match(one, { onGap: 'expire', onGapOverrides: [{ resource: 'pods', policy: 'coalesce' }] })
    t.end()
  },
)

void t.test('a flag wins over the environment, the environment over the file, the file over the default', async (t) => {
  const env = { DISTRIBUTARY_PORT: '2000' }
  const files = { 'c.yaml': 'port: 3000\nworkers: 1\n' }
  const args = ['--config', 'c.yaml']
  t.equal(config({ args: [...args, '--port', '1000'], env, files }).port, 1_000)
  t.equal(config({ args, env, files }).port, 2_000)
  t.equal(config({ args, files }).port, 3_000)
  t.equal(config({}).port, 8_001)
  const loaded = loadFrom({ args, env, files })
  t.match(loaded, { sources: { port: 'environment', workers: 'file', config: 'flag', bindAddress: 'default' } })
})

void t.test('the file may be named in the environment', async (t) => {
  t.equal(config({ env: { DISTRIBUTARY_CONFIG: 'c.yaml' }, files: { 'c.yaml': 'workers: 2' } }).workers, 2)
})

void t.test('values are parsed from text', async (t) => {
  const rows: readonly (readonly [string, keyof Config, unknown])[] = [
    ['--port=0', 'port', 0],
    ['--enable-writes', 'enableWrites', true],
    ['--enable-writes=false', 'enableWrites', false],
    ['--watch-cache-bytes=64MiB', 'watchCacheBytes', 67_108_864],
    ['--watch-cache-bytes=64Mi', 'watchCacheBytes', 67_108_864],
    ['--watch-cache-bytes=64M', 'watchCacheBytes', 64_000_000],
    ['--watch-cache-bytes=1.5GiB', 'watchCacheBytes', 1_610_612_736],
    ['--watch-cache-bytes=5000000', 'watchCacheBytes', 5_000_000],
    ['--bookmark-interval=90s', 'bookmarkInterval', 90_000],
    ['--bookmark-interval=1m30s', 'bookmarkInterval', 90_000],
    ['--bookmark-interval=1500ms', 'bookmarkInterval', 1_500],
    ['--bookmark-interval=30', 'bookmarkInterval', 30_000],
    ['--min-request-timeout=1800', 'minRequestTimeout', 1_800_000],
    [
      '--watch-cache-sizes=pods#50000,deployments.apps#0',
      'watchCacheSizes',
      [
        { resource: 'pods', batches: 50_000 },
        { resource: 'deployments.apps', batches: 0 },
      ],
    ],
    ['--etcd-servers=http://a:2379, http://b:2379/', 'etcdServers', ['http://a:2379', 'http://b:2379']],
    [
      '--etcd-servers=127.0.0.1:2379,etcd-0.etcd:2379,[::1]:2379,unix:///run/kine.sock',
      'etcdServers',
      ['http://127.0.0.1:2379', 'http://etcd-0.etcd:2379', 'http://[::1]:2379', 'unix:///run/kine.sock'],
    ],
    ['--metrics-bind-address=:9090', 'metricsBindAddress', { host: '::', port: 9_090 }],
    ['--cors-allowed-origins=https://a.example', 'corsAllowedOrigins', ['https://a.example']],
    ['--trusted-proxies=10.0.0.0/8,::1', 'trustedProxies', ['10.0.0.0/8', '::1']],
    ['--authorization-mode=RBAC,AlwaysAllow', 'authorizationMode', ['RBAC', 'AlwaysAllow']],
  ]
  for (const [arg, name, expected] of rows) t.same(config({ args: [arg] })[name], expected, arg)
})

void t.test('both ends of a range are allowed, and the step beyond is rejected with both ends named', async (t) => {
  const rows: readonly (readonly [string, string, boolean])[] = [
    ['--port', '65535', true],
    ['--port', '65536', false],
    ['--default-watch-cache-size', '64', true],
    ['--default-watch-cache-size', '63', false],
    ['--default-watch-cache-size', '1048576', true],
    ['--default-watch-cache-size', '1048577', false],
    ['--workers', '0', false],
    ['--bookmark-interval', '1s', true],
    ['--bookmark-interval', '999ms', false],
    ['--watch-cache-bytes', '1MiB', true],
    ['--watch-cache-bytes', '1048575', false],
    ['--watch-cache-sizes', 'pods#1048577', false],
  ]
  for (const [flag, value, fits] of rows) {
    t.equal(problems({ args: [flag, value] }).length, fits ? 0 : 1, `${flag} ${value}`)
  }
  t.same(problems({ args: ['--default-watch-cache-size=63'] }), [
    '--default-watch-cache-size: "63" is not in [64, 1048576]',
  ])
})

void t.test('a value of the wrong kind is rejected with the value shown', async (t) => {
  const rows: readonly (readonly [string, RegExp])[] = [
    ['--port=http', /"http" is neither a port/],
    ['--port=', /"" is neither a port/],
    ['--port=-1', /"-1"/],
    ['--workers=1.5', /not a whole number/],
    ['--workers=99999999999999999999', /not a whole number/],
    ['--workers=0x10', /not a whole number/],
    ['--bookmark-interval=1d', /not a duration/],
    ['--bookmark-interval=s', /not a duration/],
    ['--bookmark-interval=1s x', /not a duration/],
    ['--watch-cache-bytes=1TB', /not a size/],
    ['--watch-cache=yes', /neither true nor false/],
    ['--on-gap=ignore', /not one of expire, coalesce/],
    ['--etcd-servers=etcd', /not a URL/],
    ['--etcd-servers=127.0.0.1:', /not a URL/],
    ['--etcd-servers=etcd:99999', /not a URL/],
    ['--etcd-servers=tcp://127.0.0.1:2379', /not a URL/],
    ['--etcd-servers=unix://kine.sock', /not like "unix:\/\/\/run\/kine.sock"/],
    ['--metrics-bind-address=:', /not an IP address and a port/],
    ['--metrics-bind-address=:99999', /not an IP address and a port/],
    ['--etcd-servers=http://root:pw@a:2379', /contains a user or password/],
    ['--etcd-prefix=registry', /must begin with/],
    ['--etcd-prefix=/registry/', /not end with/],
    ['--bind-address=localhost', /not an IP address/],
    ['--cors-allowed-origins=https://a.example/path', /not an origin/],
    ['--cors-allowed-origins=*', /not an origin/],
    ['--trusted-proxies=10.0.0.0/33', /not an address/],
    ['--oidc-signing-algs=HS256', /not one of RS256/],
    ['--oidc-signing-algs=none', /not one of RS256/],
    ['--oidc-issuer-url=http://issuer.example', /https URL/],
    ['--watch-cache-sizes=pods=5', /resource#size/],
    ['--etcd-cafile=/missing.pem', /cannot be read: ENOENT/],
    ['--config=/missing.yaml', /cannot be read: ENOENT/],
    ['--resource=flags=/config/flags', /must end in/],
    ['--resource=Flags=/config/flags/', /lower-case/],
    ['--resource=nonesuch', /not a known resource/],
  ]
  for (const [arg, expected] of rows) {
    const found = problems({ args: [arg] })
    t.ok(
      found.some((problem) => expected.test(problem)),
      `${arg}: ${found.join(' | ')}`,
    )
  }
})

void t.test('a password in a URL is not printed', async (t) => {
  const args = [
    '--etcd-servers=http://root:geheim@a:2379',
    '--etcd-servers=root:geheim@a:2379',
    '--etcd-servers=unix://root:geheim@a',
    '--etcd-servers-overrides=/events#http://root:geheim@a:2379',
    '--nats-servers=nats://root:geheim@a:4222',
    '--nats-servers=root:geheim@a',
    '--upstream=http://root:geheim@a:1',
    '--passthrough=https://root:geheim@a:1',
    '--apiservice=a.b/v1=https://root:geheim@a:1',
    '--tracing-otlp-endpoint=http://root:geheim@a:1',
    '--oidc-issuer-url=https://root:geheim@a',
    '--oidc-issuer-url=https:///root:geheim@a',
    '--oidc-issuer-url=https://\\/root:geheim@a',
    '--service-account-issuer=https://root:geheim@a',
    '--etcd-servers=http://root:x@geheim@a:2379',
    '--etcd-servers=http://root:x/geheim@a:2379',
    '--cors-allowed-origins=https://root:geheim@a',
    'http://root:geheim@a:1',
  ]
  for (const arg of args) {
    const found = problems({ args: [arg] })
    t.ok(found.length > 0, arg)
    t.notMatch(found.join(), /geheim/, arg)
  }
  t.match(problems({ args: ['--upstream=http://root:geheim@a:1'] }).join(), '"http://…@a:1"', 'the rest of it is')
})

void t.test('all problems are reported at once', async (t) => {
  const found = problems({
    args: ['--config', 'c.yaml', '--port=http', '--ectd-servers', 'http://a:1', '--tls-cert-file=/cert.pem', 'stray'],
    env: { DISTRIBUTARY_WORKERS: 'many' },
    files: { 'c.yaml': 'bookmarkIntervall: 60s\nonGap: explode\n' },
  })
  t.same(found, [
    'unknown flag "--ectd-servers"; did you mean --etcd-servers?',
    'unexpected argument "stray"',
    'c.yaml:1:1: unknown option "bookmarkIntervall"; did you mean bookmarkInterval?',
    '--port: "http" is neither a port nor "off"',
    'DISTRIBUTARY_WORKERS: "many" is not a whole number',
    'c.yaml:2:8: onGap: "explode" is not one of expire, coalesce',
    '--tls-cert-file and --tls-private-key-file must be given together',
  ])
})

void t.test('a removed option or value names its replacement, wherever it is set', (t) => {
  const instead = 'it was removed; custom resources stored as CBOR are read as before, and clients get JSON or protobuf'
  t.same(problems(yaml('serveCbor: true', ['--serve-cbor', '--nats-servers=nats://a', '--nats-role=origin'])), [
    `unknown flag "--serve-cbor": ${instead}`,
    `c.yaml:1:1: unknown option "serveCbor": ${instead}`,
    '--nats-role: "origin" was removed: use auto, and send it no clients',
  ])
  const loaded = loadFrom({ env: { DISTRIBUTARY_SERVE_CBOR: 'true' } })
  t.same(loaded.kind === 'run' && loaded.warnings, [
    `DISTRIBUTARY_SERVE_CBOR names no option, so it is ignored: ${instead}`,
  ])
  t.end()
})

void t.test('what only the file sets is refused as a flag, and ignored as a variable with a warning', (t) => {
  t.same(problems({ args: ['--list-cache-bytes=0'] }), [
    'unknown flag "--list-cache-bytes": set listCacheBytes in the file of --config',
  ])
  const loaded = loadFrom({ ...yaml('listCacheBytes: 0'), env: { DISTRIBUTARY_LIST_CACHE_BYTES: '1' } })
  t.match(loaded, {
    config: { listCacheBytes: 0 },
    warnings: [
      'DISTRIBUTARY_LIST_CACHE_BYTES names no option, so it is ignored: set listCacheBytes in the file of --config',
    ],
  })
  t.end()
})

void t.test('the command line is parsed as people write it', async (t) => {
  const rows: readonly (readonly [readonly string[], readonly string[]])[] = [
    [['--port'], ['--port needs a value']],
    [['--port', '--watch-cache'], ['--port needs a value']],
    [['--nonsense'], ['unknown flag "--nonsense"']],
    [
      ['--nonsense=1', 'x'],
      ['unknown flag "--nonsense"', 'unexpected argument "x"'],
    ],
    [['-x'], ['unknown flag "-x"']],
    [['--__proto__=1'], ['unknown flag "--__proto__"']],
    [['--constructor'], ['unknown flag "--constructor"']],
    [['--watch-cache', 'false'], ['unexpected argument "false"']],
  ]
  for (const [args, expected] of rows) t.same(problems({ args }), expected, args.join(' '))
  t.equal(config({ args: ['--port=1000', '--port=1001'] }).port, 1_001, 'the last of a scalar counts')
})

void t.test('a secret is not accepted on the command line, nor repeated', async (t) => {
  t.same(problems({ args: ['--etcd-password=geheim'] }), ['unknown flag "--etcd-password"'])
})

void t.test('the variables that Kubernetes sets in a pod’s environment do not break the port', async (t) => {
  const env = {
    DISTRIBUTARY_PORT: 'tcp://10.0.0.1:8001',
    DISTRIBUTARY_SERVICE_HOST: '10.0.0.1',
    DISTRIBUTARY_SERVICE_PORT: '8001',
    DISTRIBUTARY_SERVICE_PORT_HTTPS: '8001',
    DISTRIBUTARY_PORT_8001_TCP: 'tcp://10.0.0.1:8001',
    DISTRIBUTARY_PORT_8001_TCP_PROTO: 'tcp',
    DISTRIBUTARY_PORT_8001_TCP_PORT: '8001',
    DISTRIBUTARY_PORT_8001_TCP_ADDR: '10.0.0.1',
    // Of a service named distributary-secure.
    DISTRIBUTARY_SECURE_PORT: 'tcp://10.0.0.2:443',
    DISTRIBUTARY_SECURE_SERVICE_HOST: '10.0.0.2',
  }
  t.equal(config({ env }).port, 8_001)
  t.match(loadFrom({ env }), { warnings: [] })
  t.equal(config({ env: { DISTRIBUTARY_PORT: '' } }).port, 8_001, 'an empty variable counts as unset')
})

void t.test('a variable that names no option is warned about, with the option that was meant', (t) => {
  const env = {
    DISTRIBUTARY_ETCD_SERVER: 'http://127.0.0.1:2379',
    DISTRIBUTARY_METRICS_PORT: '9090',
    DISTRIBUTARY_SERVICE_PORTS: '8001',
    DISTRIBUTARY_TOKEN: 'a',
    DISTRIBUTARY_SERVER: 'http://127.0.0.1:8001',
    DISTRIBUTARY_EMPTY: '',
    DISTRIBUTARY_LOG_LEVEL: 'info',
    OTHER: 'x',
  }
  const loaded = loadFrom({ env })
  t.same(loaded.kind === 'run' && loaded.warnings.map((warning) => warning.split(' ', 1)[0]), [
    'DISTRIBUTARY_ETCD_SERVER',
    'DISTRIBUTARY_METRICS_PORT',
    'DISTRIBUTARY_SERVICE_PORTS',
  ])
  t.match(loaded.kind === 'run' && loaded.warnings[0], /ignored; did you mean DISTRIBUTARY_ETCD_SERVERS\?$/)
  t.end()
})

void t.test('an option that npm has kept to itself is named, with a problem or as a warning', (t) => {
  // As `npm start --etcd-servers=http://a --port 80 --no-watch-cache` sets them.
  const env = {
    npm_config_etcd_servers: 'http://a',
    npm_config_port: 'true',
    npm_config_watch_cache: '',
    npm_config_x: '1',
  }
  const hints = ['--etcd-servers', '--port', '--watch-cache'].map(
    (flag) => `npm has kept ${flag} to itself: put -- before it, as in "npm start -- ${flag}"`,
  )
  const loaded = loadFrom({ env })
  t.strictSame(loaded.kind === 'run' && [...loaded.warnings].sort(), hints)
  const [unexpected, ...rest] = problems({ env, args: ['80'] })
  t.equal(unexpected, 'unexpected argument "80"')
  t.strictSame(rest.sort(), hints)
  t.end()
})

void t.test('a YAML file is read', async (t) => {
  t.match(
    config(
      yaml(`
etcdServers:
  - http://a:2379
  - http://b:2379
watchCacheSizes: pods#100
bookmarkInterval: 30s
minRequestTimeout: 60
watchCache: false
port:
`),
    ),
    {
      etcdServers: ['http://a:2379', 'http://b:2379'],
      watchCacheSizes: [{ resource: 'pods', batches: 100 }],
      bookmarkInterval: 30_000,
      minRequestTimeout: 60_000,
      watchCache: false,
      port: 8_001,
    },
  )
  t.match(config(yaml('')), { port: 8_001 }, 'an empty file')
  t.match(config(yaml('# only a comment\n')), { port: 8_001 })
})

void t.test('bad YAML is reported with file, line and column, and does not stop the other checks', async (t) => {
  const rows: readonly (readonly [string, RegExp])[] = [
    ['port: [1, 2]', /^c\.yaml:1:7: port must be a plain value/],
    ['port: {a: 1}', /^c\.yaml:1:7: port must be a plain value/],
    ['port: 1\nport: 2', /^c\.yaml:2:1: .*unique/],
    ['a: "unclosed', /^c\.yaml:1:\d+: /],
    ['- port: 1', /^c\.yaml:1:1: the file must contain one mapping/],
    ['just text', /^c\.yaml:1:1: the file must contain one mapping/],
    ['watchCache: "true"', /^c\.yaml:1:13: watchCache must be true or false/],
    ['watchCache: yes', /^c\.yaml:1:13: watchCache must be true or false/],
    ['\n  __proto__: 1', /^c\.yaml:2:3: unknown option "__proto__"/],
    ['constructor: 1', /unknown option "constructor"/],
    ['etcd-servers: http://a:1', /unknown option "etcd-servers"; did you mean etcdServers\?/],
    ['etcdPassword: x', /unknown option "etcdPassword"/],
    ['config: other.yaml', /unknown option "config"/],
    ['etcdServers: [[a]]', /^c\.yaml:1:15: etcdServers: items must be plain values/],
    ['a: &x 1\nport: *x', /c\.yaml:2:7: port must be a plain value/],
    ['%YAML 9\n---\nport: x', /port/],
    [`x: ${'y'.repeat(1_100_000)}`, /more than the limit of 1048576/],
  ]
  for (const [text, expected] of rows) {
    const found = problems(yaml(text))
    t.ok(
      found.some((problem) => expected.test(problem)),
      `${text.slice(0, 40)}: ${found.join(' | ')}`,
    )
  }
  t.equal(problems(yaml('port: [', ['--workers=x'])).length > 1, true)
})

void t.test('file and flags together make up the resource table', async (t) => {
  const c = config(
    yaml(
      `
resources:
  - name: secrets
  - name: widgets
    prefix: /tree/widgets/
    group: example.org
    version: v1beta1
    kind: Widget
    namespaced: true
    shortNames: [wd]
  - name: features
    prefix: feature-
    exact: true
  - name: blobs
    prefixBytes: /y8=
`,
      ['--resource=flags=/config/flags/', '--resource', 'deployments.apps'],
    ),
  )
  const served = (plural: string) => c.resources.find(({ resource }) => resource.plural === plural)
  t.match(served('secrets'), { origin: 'well-known' }, 'named in the file')
  t.match(served('deployments'), { origin: 'well-known' })
  t.match(served('widgets')?.resource, {
    group: 'example.org',
    version: 'v1beta1',
    kind: 'Widget',
    namespaced: true,
    shortNames: ['wd'],
    etcdPrefix: '/tree/widgets/',
  })
  t.equal(served('features')?.resource.etcdPrefix, 'feature-')
  t.equal(served('blobs')?.resource.etcdPrefix, '\xff/')
  t.match(served('flags')?.resource, { group: 'distributary.io', etcdPrefix: '/config/flags/' })
  const plain = config({}).resources.map(({ resource }) => resource.plural)
  t.ok(plain.includes('pods') && !plain.includes('secrets'), 'Secrets only when named')
})

void t.test('every list accepts its items with commas, over several flags, or both', async (t) => {
  const own = (args: readonly string[]): string[] =>
    config({ args })
      .resources.filter(({ resource }) => resource.group === 'distributary.io')
      .map(({ resource }) => `${resource.plural}=${resource.etcdPrefix}`)
  const both = ['flags=/config/flags/', 'rules=/config/rules/']
  t.same(own([`--resource=${both.join(',')}`]), both)
  t.same(own([`--resource=${both[0]}, ${both[1]},secrets`]), both)
  t.same(own(both.flatMap((one) => ['--resource', one])), both)
  const lists = Object.entries<Option<unknown>>(options).filter(([, { kind }]) => kind === 'list')
  t.ok(lists.length > 10)
  for (const [name, option] of lists) {
    const item = LIST_ITEMS[name] ?? 'a'
    t.same(option.parse([`${item},${item}`]), option.parse([item, item]), name)
    t.equal((option.parse([`${item},${item}`]) as readonly unknown[]).length, 2, name)
  }
})

void t.test('known resources are under the configured etcd prefix', async (t) => {
  const { resources } = config({ args: ['--etcd-prefix=/other'] })
  t.equal(resources.find(({ resource }) => resource.plural === 'nodes')?.resource.etcdPrefix, '/other/minions/')
})

void t.test('bad entries of the resource table are rejected', async (t) => {
  const rows: readonly (readonly [string, RegExp])[] = [
    ['resources: secrets', /^c\.yaml:1:1: resources must be a list/],
    ['resources: [secrets]', /^c\.yaml:1:13: resources: each entry must be a mapping/],
    ['resources: [{prefix: /a/}]', /needs a name/],
    ['resources: [{name: a, prefix: /a}]', /must end in/],
    ['resources: [{name: a, prefx: /a/}]', /unknown field "prefx"; did you mean prefix\?/],
    ['resources: [{name: a, kind: B}]', /has kind and no prefix/],
    ['resources: [{name: pods, exact: true}]', /has exact and no prefix/],
    ['resources: [{name: a, prefixBytes: "a!"}]', /"prefixBytes" "a!" is not base64/],
    ['resources: [{name: a, prefixBytes: YS8=, prefix: a/}]', /"prefix" and "prefixBytes" cannot be combined/],
    ['resources: [{name: a, prefix: /a/, namespaced: maybe}]', /namespaced must be true or false/],
    ['resources: [{name: a, prefix: /a/, shortNames: b}]', /shortNames must be a list/],
    ['resources: [{name: a, prefix: /a/, kind: lower}]', /CamelCase/],
    ['resources: [{name: 5}]', /name must be a string/],
    ['resources: [{name: nonesuch}]', /"nonesuch" is not a known resource/],
    ['resources: [{name: a, prefix: /a/}, {name: a, prefix: /b/}]', /already the name/],
    ['resources: [{name: __proto__, prefix: /a/}]', /lower-case/],
  ]
  for (const [text, expected] of rows) {
    const found = problems(yaml(text))
    t.ok(
      found.some((problem) => expected.test(problem)),
      `${text}: ${found.join(' | ')}`,
    )
  }
})

void t.test('the loaded config is deeply frozen', async (t) => {
  const c = config({ args: ['--etcd-servers=http://a:1', '--resource=a=/a/'] })
  t.throws(() => Object.assign(c, { port: 1 }), TypeError)
  t.ok(Object.isFrozen(c.etcdServers))
  t.ok(c.resources.every((entry) => Object.isFrozen(entry) && Object.isFrozen(entry.resource)))
})

void t.test('--help and --version win over every mistake', async (t) => {
  t.match(loadFrom({ args: ['--port=x', '--help'] }), { kind: 'help' })
  t.match(loadFrom({ args: ['-h'] }), { kind: 'help' })
  t.match(loadFrom({ args: ['--nonsense', '--version'] }), { kind: 'version' })
})
