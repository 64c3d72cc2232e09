import t from 'tap'

import { ConfigError } from '../../../src/server/config/config-error.js'
import { load } from '../../../src/server/config/load.js'
import { isLoopback } from '../../../src/server/config/relations.js'

function problems(args: string): readonly string[] {
  try {
    load(args.split(' ').filter(Boolean), {}, () => 'content')
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
}

const TLS = '--tls-cert-file=/c --tls-private-key-file=/k'

void t.test('each combination of options is accepted, or rejected with one matching problem', async (t) => {
  const rows: readonly (readonly [string, RegExp | null])[] = [
    [
      '--rebalance=a/b --pod-uid=u --resource=-endpointslices.discovery.k8s.io --etcd-servers=http://a:1',
      /--rebalance needs endpointslices\.discovery\.k8s\.io, which is not served/,
    ],
    [
      '--rebalance=a/b --pod-uid=u --watch-cache-sizes=endpointslices.discovery.k8s.io#0 --etcd-servers=http://a:1',
      /--rebalance needs endpointslices\.discovery\.k8s\.io in the cache/,
    ],
    ['--rebalance=a/b --pod-uid=u --watch-cache=false --etcd-servers=http://a:1', /in the cache/],
    ['--rebalance=a/b --pod-uid=u', /--rebalance and the in-process store cannot be combined/],
    ['--rebalance=a/b --etcd-servers=http://a:1', /--rebalance and --pod-uid must be given together/],
    ['--rebalance=b --pod-uid=u --etcd-servers=http://a:1', /"b" is not of the form namespace\/service/],
    ['--rebalance=a/b --pod-uid=u --etcd-servers=http://a:1', null],
    ['--rebalance=a/b --pod-uid=u --upstream=http://a:1', null],
    ['--rebalance=a/b --pod-uid=u --workers=4 --etcd-servers=http://a:1', null],
    ['--goaway-chance=0.01', /--goaway-chance and the in-process store cannot be combined/],
    ['--goaway-chance=0.02 --etcd-servers=http://a:1', null],
    ['--goaway-chance=0', null],
    ['--goaway-chance=0.021 --etcd-servers=http://a:1', /"0.021" is not in \[0, 0.02\]/],
    ['--goaway-chance=1% --etcd-servers=http://a:1', /"1%" is not a number such as 0.001/],
    ['--require-upstream', /--require-upstream needs --etcd-servers or --nats-servers or --upstream/],
    ['--require-upstream --etcd-servers=http://a:1', null],
    ['--etcd-servers=https://a:1 --etcd-certfile=/c', /--etcd-certfile and --etcd-keyfile/],
    ['--etcd-servers=https://a:1 --etcd-certfile=/c --etcd-keyfile=/k', null],
    ['--etcd-servers=https://a:1,http://b:1 --etcd-cafile=/c', /every endpoint of --etcd-servers/],
    ['--etcd-servers=https://a:1,http://b:1 --etcd-certfile=/c --etcd-keyfile=/k', /every endpoint of --etcd-servers/],
    ['--etcd-servers=http://a:1 --etcd-servers-overrides=/events#http://b:1;http://c:1,/nodes#http://d:1', null],
    ['--etcd-servers=https://a:1,unix:///b --etcd-cafile=/c', /every endpoint of --etcd-servers/],
    ['--etcd-servers=a:1 --etcd-cafile=/c', /every endpoint of --etcd-servers/],
    ['--etcd-servers=a:1 --etcd-servers-overrides=/events#b:1;unix:///c', null],
    ['--etcd-servers-overrides=/events#http://b:1', /needs --etcd-servers/],
    ['--upstream=http://a:1 --etcd-servers-overrides=/events#http://b:1', /needs --etcd-servers/],
    [
      '--etcd-servers=http://a:1 --etcd-servers-overrides=/events#http://b:1 --nats-servers=nats://c:1',
      /and --nats-servers cannot be combined/,
    ],
    [
      '--etcd-servers=http://a:1 --etcd-servers-overrides=/events#http://b:1 --enable-writes',
      /overrides and --enable-writes cannot be combined/,
    ],
    ['--etcd-servers=http://a:1 --etcd-servers-overrides=/event#http://b:1', /not a resource of Kubernetes/],
    ['--etcd-servers=http://a:1 --etcd-servers-overrides=events#http://b:1', /is not like "\/events#https:/],
    ['--etcd-servers=http://a:1 --etcd-servers-overrides=/events#b', /is not a URL/],
    ['--etcd-servers=http://a:1 --etcd-servers-overrides=/events#http://b:1;', /is not a URL/],
    [
      '--etcd-servers=https://a:1 --etcd-servers-overrides=/events#http://b:1 --etcd-cafile=/c',
      /every endpoint of --etcd-servers-overrides/,
    ],
    [
      '--etcd-servers=http://a:1 --etcd-servers-overrides=/events#http://b:1 --kubernetes-resources=never --resource=a=/a/',
      /and --kubernetes-resources=never cannot be combined: it names/,
    ],
    ['--etcd-username=root', /must be given together/],
    ['--etcd-username=root --etcd-password-file=/p', null],
    ['--tls-private-key-file=/k', /must be given together/],
    [TLS, null],
    ['--client-ca-file=/ca --authorization-mode=RBAC', /needs --tls-cert-file/],
    [`${TLS} --client-ca-file=/ca --authorization-mode=RBAC`, null],
    [
      `${TLS} --client-ca-file=/ca --upstream=http://a:1 --authorization-mode=RBAC`,
      /reads Roles and bindings from etcd/,
    ],
    ['--metrics-bind-address=127.0.0.1:9090', null],
    ['--metrics-bind-address=[::]:9090', null],
    ['--metrics-bind-address=:8001', /--metrics-bind-address and --port both use port 8001/],
    ['--metrics-bind-address=0.0.0.0:8001', /--metrics-bind-address and --port both use port 8001/],
    [`--metrics-bind-address=127.0.0.1:6443 ${TLS}`, /--metrics-bind-address and --secure-port both/],
    ['--metrics-bind-address=127.0.0.1:0 --port=0', null],
    ['--metrics-bind-address=9090', /not an IP address and a port such as/],
    ['--metrics-bind-address=host:9090', /not an IP address and a port such as/],
    ['--metrics-bind-address=[127.0.0.1]:9090', /not an IP address and a port such as/],
    ['--metrics-bind-address=127.0.0.1:99999', /not an IP address and a port such as/],
    ['--secure-port=7443', /^--secure-port needs --tls-cert-file/],
    [`--secure-port=7443 ${TLS}`, null],
    ['--secure-port=7443 --tls-cert-file=c --tls-private-key-file=k', null],
    ['--secure-port=7443 --tls-cert-file=/c', /must be given together/],
    ['--public-caching=pods=5s', null],
    ['--public-caching=pods=30s/30s,nodes=0s/60s', null],
    ['--public-caching=podz=5s', /^--public-caching: podz is not served; did you mean pods\?$/],
    ['--public-caching=deployment.apps=5s', /deployment\.apps is not served; did you mean deployments\.apps\?$/],
    ['--public-caching=deployments=5s', /deployments is not served; did you mean deployments\.apps\?$/],
    ['--public-caching=flags=5s --resource=flags=/f/', /flags is not served; did you mean flags\.distributary\.io\?$/],
    ['--public-caching=flag.distributary.io=5s --resource=flags=/f/', /did you mean flags\.distributary\.io\?$/],
    ['--public-caching=flags.distributary.io=5s --resource=flags=/f', /must end in a separator such as "\/"/],
    ['--public-caching=secrets=5s', /secrets is not served/],
    ['--public-caching=secrets=5s --resource=secrets', null],
    ['--watch-cache-sizes=podz#0', /^--watch-cache-sizes: podz is not served; did you mean pods\?$/],
    ['--watch-cache-sizes=deployments#0', /did you mean deployments\.apps\?$/],
    ['--watch-cache-sizes=secrets#0,certificates.cert-manager.io#100', null],
    ['--public-caching=events=5s --resource=-events', /events is not served/],
    ['--public-caching=widgets.example.com=5s', null],
    ['--public-caching=widgets.example.com=5s --resource=-widgets.example.com', /widgets\.example\.com is not served$/],
    [
      '--public-caching=widgets.example.com=5s --etcd-servers=http://a:1 --kubernetes-resources=never --resource=f=/f/',
      /is not served$/,
    ],
    ['--public-caching=podz=5s --upstream=http://a:1', null],
    ['--public-caching=pods', /is not like "flags.distributary.io=5s\/30s"/],
    ['--public-caching=pods=31s/30s', /is more than 60s in total/],
    ['--public-caching=pods=20s --watch-cache-age=20s --bookmark-interval=5s', /longer than --watch-cache-age \(20s\)/],
    ['--public-caching=pods=5s --token-auth-file=/t --authorization-mode=RBAC', /needs --anonymous-auth/],
    ['--public-caching=pods=5s --token-auth-file=/t --authorization-mode=RBAC --anonymous-auth', null],
    ['--etcd-servers=http://a:1 --enable-writes', null],
    ['--nats-servers=nats://a:1 --nats-role=edge --enable-writes', /^--enable-writes needs --etcd-servers/],
    ['--upstream=http://a:1 --enable-writes', /^--enable-writes and --upstream.*: writing needs etcd/],
    ['--upstream=http://a:1', null],
    ['--upstream=http://a:1 --require-upstream --kubeconfig=/k', null],
    ['--upstream=http://a:1 --etcd-servers=http://b:1', /the only source/],
    ['--upstream=https://a:1 --nats-servers=nats://b:1', /the only source/],
    ['--upstream=a:1', /is not a URL/],
    ['--upstream=http://a:1 --resource=flags=/config/flags/', /declare the prefix on the upstream server/],
    ['--kubeconfig=/k', /--kubeconfig needs --upstream/],
    ['--upstream=in-cluster', null],
    ['--on-gap-overrides=pods=later', /not of the form resource=expire/],
    ['--on-gap-overrides=pots=expire', /--on-gap-overrides: pots is not served; did you mean pods/],
    ['--upstream=in-cluster --kubeconfig=/k', /--upstream=in-cluster and --kubeconfig cannot be combined/],
    [
      '--enable-writes --etcd-servers=http://a:1 --passthrough=https://b:1 --authorization-mode=RBAC',
      /cannot be combined/,
    ],
    ['--enable-writes --upstream=http://a:1', /writing needs etcd/],
    ['--passthrough=https://b:1 --authorization-mode=RBAC', null],
    [
      '--authorization-mode=RBAC --passthrough=https://b:1 --apiservice=a.b/v1=https://c:1',
      /--apiservice and --passthrough cannot be combined/,
    ],
    ['--authorization-mode=RBAC --apiservice=a.b/v1=https://c:1,a.b/v2=https://c:1/below', null],
    [
      '--authorization-mode=RBAC --apiservice=a.b/v1=https://c:1 --apiservice=a.b/v1=https://d:1',
      /names a\.b\/v1 twice/,
    ],
    ['--passthrough-cafile=/ca', /needs --apiservice or an https --passthrough/],
    ['--apiservice=a.b/v1=http://c:1', /is not like/],
    ['--apiservice=v1=https://c:1', /is not like/],
    ['--apiservice=a.b/v1=https://u:p@c:1', /is not like/],
    ['--watch-cache=false', null],
    ['--watch-cache=false --workers=2', /and --workers above 1 cannot be combined/],
    ['--watch-cache-sizes=pods#0 --workers=2', /and --workers above 1 cannot be combined/],
    ['--watch-cache-sizes=pods#100 --workers=2', null],
    ['--port=off', /nothing to listen on/],
    [`${TLS} --port=off`, null],
    [`${TLS} --port=7000 --secure-port=7000`, /both 7000/],
    [`${TLS} --port=0 --secure-port=0`, null],
    ['--bind-address=0.0.0.0', /plain HTTP on 0\.0\.0\.0/],
    ['--bind-address=::', /plain HTTP on ::/],
    ['--bind-address=127.3.2.1', null],
    ['--bind-address=::1', null],
    ['--bind-address=0.0.0.0 --insecure-bind-any', null],
    ['--bind-address=0.0.0.0 --token-auth-file=/t --authorization-mode=RBAC', /plain HTTP on/],
    [`--bind-address=0.0.0.0 ${TLS}`, /nothing authenticates callers/],
    [`--bind-address=0.0.0.0 ${TLS} --anonymous-auth`, /nothing authenticates callers/],
    [`--bind-address=0.0.0.0 ${TLS} --token-auth-file=/t --authorization-mode=RBAC`, null],
    [`--bind-address=0.0.0.0 ${TLS} --token-auth-file=/t --port=8001 --authorization-mode=RBAC`, /plain HTTP on/],
    [`--bind-address=0.0.0.0 ${TLS} --insecure-bind-any`, null],
    ['--watch-cache-age=119s --bookmark-interval=60s', /at least twice --bookmark-interval/],
    ['--watch-cache-age=120s --bookmark-interval=60s', null],
    ['--shutdown-grace-period=5s --shutdown-watch-termination-grace-period=6s', /must fit in/],
    ['--shutdown-grace-period=5s --shutdown-watch-termination-grace-period=5s', null],
    ['--memory-target=128MiB', null],
    ['--memory-target=128MiB --watch-cache-bytes=100MiB', /--memory-target is less/],
    ['--oidc-issuer-url=https://i.example --authorization-mode=RBAC', /must be given together/],
    ['--oidc-issuer-url=https://i.example --oidc-client-id=x --authorization-mode=RBAC', null],
    ['--oidc-issuer-url=https://u:p@i.example --oidc-client-id=x', /must be an https URL without user, password/],
    ['--service-account-issuer=https://i.example --authorization-mode=RBAC', null],
    ['--service-account-issuer=https://u:p@i.example --authorization-mode=RBAC', /must be an https URL without user/],
    // With key files the issuer is only a name, and the API server accepts it too.
    ['--service-account-issuer=https://u:p@i.example --service-account-key-file=/k --authorization-mode=RBAC', null],
    [
      '--service-account-issuer=local --authorization-mode=RBAC',
      /must be an https URL without user, password, query or fragment, because the server fetches the keys from it/,
    ],
    ['--service-account-issuer=local --service-account-key-file=/k --authorization-mode=RBAC', null],
    ['--service-account-issuer=local --authentication-kubeconfig=/k --authorization-mode=RBAC', null],
    [
      '--service-account-issuer=kubernetes/serviceaccount --service-account-key-file=/k --authorization-mode=RBAC',
      /tokens from Secrets can only be reviewed by an API server/,
    ],
    [
      '--service-account-issuer=https://i.example --oidc-issuer-url=https://i.example --oidc-client-id=x --authorization-mode=RBAC',
      /name the same issuer/,
    ],
    ['--service-account-key-file=/k', /--service-account-key-file needs --service-account-issuer/],
    ['--api-audiences=edge', /--api-audiences needs --service-account-issuer or --authentication-kubeconfig/],
    ['--api-audiences=edge --authentication-kubeconfig=/k --authorization-mode=RBAC', null],
    ['--resource=-events', null],
    ['--etcd-servers=http://a:1 --resource=-namespaces', null],
    ['--etcd-servers=http://a:1 --enable-writes --resource=-namespaces', /--enable-writes needs namespaces/],
    ['--enable-writes --resource=-poddisruptionbudgets', /--enable-writes needs poddisruptionbudgets\.policy/],
    ['--authorization-mode=', /is empty/],
    ['--authorization-mode=RBAC,RBAC', /names RBAC twice/],
    ['--authorization-mode=Node,RBAC --enable-writes=false', null],
    ['--authorization-mode=Node,RBAC --enable-writes', /Node and --enable-writes cannot be combined/],
    [
      '--authorization-mode=Node --enable-writes=false --kubernetes-resources=never --resource=flags=/f/',
      /never cannot be combined: it reads pods/,
    ],
    ['--authorization-mode=Policy', /must be given together/],
    ['--authorization-policy-file=/p', /must be given together/],
    ['--authorization-mode=Policy --authorization-policy-file=/p', null],
    ['--authorization-mode=Webhook', /must be given together/],
    ['--authorization-mode=Webhook --authorization-kubeconfig=/k', null],
  ]
  for (const [args, expected] of rows) {
    const found = problems(args)
    if (expected === null) t.same(found, [], args)
    else t.ok(found.length === 1 && expected.test(found[0] ?? ''), `${args}: ${found.join(' | ')}`)
  }
})

void t.test(
  'a configuration that identifies callers, or has a server that does, must set an authorization mode, on any address',
  async (t) => {
    const authenticators = {
      nobody: '',
      'client certificates': '--client-ca-file=/ca',
      'the token file': '--token-auth-file=/t',
      'OpenID Connect': '--oidc-issuer-url=https://i.example --oidc-client-id=x',
      'service account tokens': '--service-account-issuer=https://i.example',
      TokenReview: '--authentication-kubeconfig=/k',
      'front proxies': '--requestheader-client-ca-file=/ca',
    }
    const behind = {
      nothing: '',
      'an API server': '--passthrough=https://b:1',
      'aggregated APIs': '--apiservice=a.b/v1=https://c:1',
    }
    const modes = {
      'none given': '',
      AlwaysAllow: '--authorization-mode=AlwaysAllow',
      Policy: '--authorization-mode=Policy --authorization-policy-file=/p',
      RBAC: '--authorization-mode=RBAC',
      Webhook: '--authorization-mode=Webhook --authorization-kubeconfig=/k',
      'RBAC,AlwaysAllow': '--authorization-mode=RBAC,AlwaysAllow',
    }
    const addresses = { loopback: TLS, 'every address': `${TLS} --bind-address=0.0.0.0 --insecure-bind-any` }
    for (const [who, authenticator] of Object.entries(authenticators)) {
      for (const [server, passed] of Object.entries(behind)) {
        for (const [mode, authorizer] of Object.entries(modes)) {
          for (const [where, address] of Object.entries(addresses)) {
            for (const anonymous of ['', '--anonymous-auth']) {
              const found = problems([authenticator, passed, authorizer, address, anonymous].join(' '))
              const isRefused = mode === 'none given' && (who !== 'nobody' || server !== 'nothing')
              const name = `${who}, ${server}, ${mode}, ${where} ${anonymous}`
              if (!isRefused) t.same(found, [], name)
              else {
                const flag = (authenticator || passed).split('=')[0]
                t.match(
                  found,
                  [new RegExp(`^${flag} needs --authorization-mode: RBAC, Webhook or Policy decide`)],
                  name,
                )
                t.equal(found.length, 1, name)
              }
            }
          }
        }
      }
    }
  },
)

void t.test('the mode may also be set in the environment and in the file', async (t) => {
  const given = (environment: Record<string, string>, file: string): string => {
    const read = (path: string): string => (path === '/config.yaml' ? file : 'content')
    const loaded = load(['--token-auth-file=/t', '--config=/config.yaml'], environment, read)
    return loaded.kind === 'run' ? loaded.config.authorizationMode.join() : ''
  }
  t.equal(given({ DISTRIBUTARY_AUTHORIZATION_MODE: 'AlwaysAllow' }, ''), 'AlwaysAllow')
  t.equal(given({}, 'authorizationMode: [AlwaysAllow]'), 'AlwaysAllow')
  t.throws(() => given({}, ''), ConfigError)
  t.throws(() => given({ DISTRIBUTARY_AUTHORIZATION_MODE: '' }, ''), ConfigError, 'an empty variable gives nothing')
})

void t.test('a relation is not checked on a value already found wrong', async (t) => {
  t.same(problems('--bind-address=everywhere'), ['--bind-address: "everywhere" is not an IP address'])
})

void t.test('loopback addresses are recognized', async (t) => {
  for (const address of ['127.0.0.1', '127.255.255.255', '::1']) t.ok(isLoopback(address), address)
  for (const address of [
    '0.0.0.0',
    '::',
    '10.0.0.1',
    '128.0.0.1',
    '::ffff:127.0.0.1',
    'localhost',
    '127.0.0.1.example.org',
    '',
  ]) {
    t.notOk(isLoopback(address), address)
  }
})

void t.test('what may be stripped, and with what', async (t) => {
  const NOTE = String.raw`metadata.annotations.example\.com/note`
  const problemsOf = (yaml: string, args = ''): readonly string[] => {
    try {
      load(['--config=/c', ...args.split(' ').filter(Boolean)], {}, () => yaml)
      return []
    } catch (error) {
      if (error instanceof ConfigError) return error.problems
      throw error
    }
  }
  const CONSENT = `stripAnnotations: true\nenableWrites: false\nstrip: ['pods=${NOTE}']`
  const many = Array.from({ length: 60 }, (_, i) => `'things.g${i}.example.com=metadata.managedFields'`).join(', ')
  const rows: readonly (readonly [yaml: string, args: string, problem: RegExp | null])[] = [
    ["strip: ['*=metadata.managedFields']", '', null],
    ["strip: ['pods=metadata.managedFields']", '--etcd-servers=http://a:1 --enable-writes', null],
    [
      "strip: ['pods=metadata.managedFields']",
      '--etcd-servers=http://a:1 --passthrough=http://b:1 --authorization-mode=AlwaysAllow',
      null,
    ],
    ["strip: ['things.example.com=metadata.managedFields']", '', null],
    ["strip: ['pod=metadata.managedFields']", '', /strip: pod is not served; did you mean pods/],
    ["strip: ['pods']", '', /"pods" is not like "pods=metadata.managedFields"/],
    ["strip: ['pods=spec']", '', /spec is neither metadata.managedFields nor an annotation/],
    [`strip: [${many}]`, '', /strip is \d+ characters long, at most 2048/],
    [CONSENT, '', null],
    ["strip: ['*=metadata.managedFields']", '--etcd-servers=http://a:1 --resource=flags=/f/ --etcd-api=flags', null],
    [
      "strip: ['flags.distributary.io=metadata.managedFields']",
      '--etcd-servers=http://a:1 --resource=flags=/f/ --etcd-api=flags',
      /strip names flags.distributary.io, which --etcd-api serves/,
    ],
    [`enableWrites: false\nstrip: ['pods=${NOTE}']`, '', /an annotation in strip needs stripAnnotations/],
    [CONSENT, '--enable-writes', /an annotation in strip and --enable-writes cannot be combined/],
    [
      CONSENT,
      '--etcd-servers=http://a:1 --passthrough=http://b:1 --authorization-mode=AlwaysAllow',
      /an annotation in strip and --passthrough cannot be combined/,
    ],
  ]
  for (const [yaml, args, problem] of rows) {
    const found = problemsOf(yaml, args)
    if (problem === null) t.same(found, [], `${yaml} ${args}`)
    else t.match(found, [problem], `${yaml} ${args}`)
  }
})
