/**
 * How each documented command is tested: the first matching row applies, and a command that is not run has a reason.
 */
export type How =
  /** Starts a server, which the page's later commands use. */
  | 'server'
  /** Flags of a server that needs what is missing here (certificates, a NATS, cores): only parsed and validated. */
  | 'flags'
  /** Exits with code 0. */
  | 'ends'
  /** Runs until it is stopped: it must have written something by then. */
  | 'streams'
  | 'prometheus'
  /** A script that must exist in package.json. */
  | 'script'
  /** The reason why the command is not run. */
  | { readonly not: string }

/** The first match applies. */
const TABLE: readonly (readonly [command: RegExp, how: How])[] = [
  [/…|\bFLAGS\b|<[a-z]+>|\b(NAME|POD|POSITION|URL)\b|\bvX\.Y\.Z\b/, { not: 'a pattern, with something left open' }],
  [/^cd YOUR_PROJECT /, { not: 'a pattern; npm run judge -- package installs the packed client' }],
  [/^docker /, { not: 'no container engine here; test/ops/image.test.ts runs what the container runs' }],
  [
    /^deploy\/kubernetes\/agents\/|^cd deploy\/|^kubectl -n \w+ (create|patch|rollout|port-forward|get configmap|get secret) |^kubectl get --raw \/\.well-known\/|^distributary doctor /,
    { not: 'no cluster here; npm run judge -- onboarding runs it on an API server' },
  ],
  [/^helm /, { not: 'no cluster here; test/ops/helm.test.ts renders the chart with these values' }],
  [
    /^kubectl (apply|rollout|annotate|create|label|delete|logs) /,
    { not: 'no cluster here; test/ops/deploy.test.ts renders the overlays' },
  ],
  [
    /^kubectl (describe certificate$|get (servicemonitor|pods -l app\.kubernetes\.io))/,
    { not: 'no cluster here; test/ops/helm.test.ts renders what it would find' },
  ],
  [
    /^distributary config check .*(\/etc\/|\.crt)/,
    { not: 'names files of another machine; test/server/wiring/check-config.test.ts runs it on its own' },
  ],
  [
    /^kubectl (--\S+ )?proxy\b/,
    { not: 'serves on a fixed port; test/security/foreign-pages.test.ts runs it on its own' },
  ],
  [/^kubectl (explain|get)$/, { not: 'the name of a command, in a sentence; test/clients/kubectl.test.ts runs it' }],
  [/^etcdctl lock$|^etcdctl .* watch /, { not: 'waits for something; test/etcd-api/etcd-api/etcdctl.test.ts runs it' }],
  [/^systemctl |^kill /, { not: 'of the machine that runs it; test/ops/deploy.test.ts checks the unit' }],
  [/^apt-get /, { not: 'installs on the machine' }],
  [/^git clone /, { not: 'this is the clone' }],
  [/^nats(-server)? /, { not: "NATS' own, from its manual" }],
  [/^etcdutl /, { not: "etcd's own, from its manual" }],
  [/^openssl /, { not: "OpenSSL's own, from its manual" }],
  [/^(flags|position)=|\$flags\b|^echo .* > tokens\.csv$/, { not: 'flags-page.test.ts runs its block as a whole' }],
  [/^etcdutl /, { not: 'of a newer etcd than is here; test/etcd/restore.test.ts restores with the same flags' }],
  [/^python3 -m http\.server /, { not: "Python's own; test/docs/flags-page.test.ts serves the page" }],
  [/^bun /, { not: 'no Bun here; npm run judge -- bun runs the server on it' }],
  [/^npm audit signatures$/, { not: 'asks a registry' }],
  [/^npm (i|install) /, { not: 'asks a registry; test/ops/package.test.ts installs the package' }],
  [/^npx (?!distributary)/, { not: 'asks a registry' }],
  [/^etcd refused /, { not: 'a log message' }],
  [/^etcd --data-dir /, { not: 'startEtcd runs it, with ports of its own' }],
  [/^node --import$|^curl (-N|--http2-prior-knowledge|-\S+)$/, { not: 'a flag, in a sentence' }],
  [/^node \.build\/bench|^npm run bench -- (?!--help)/, { not: 'measures for minutes' }],
  [/^npm run bench -- --help$/, 'ends'],
  [/^npm (ci|test)\b|^npm run (check|generate|build|judge|screenshots|release:check|pack:\S+|test:\S+)\b/, 'script'],
  // Workers are tested in test/fleet/, tickets in flags-page.test.ts.
  [/^npm start -- .*(cafile|certfile|service-account|creds|nkey|ticket-|tls-|oidc|nats-|workers)/, 'flags'],
  [/^(npm start|node dist\/main\.js|npx distributary)( -- (?!--help).*)?$/, 'server'],
  [/^npm start -- --help$|^distributary --/, 'ends'],
  [/^distributary get .* (-w|--watch-only)$|^curl (-\w+ )*-N |^kubectl .* (-w|--watch)$/, 'streams'],
  [/^(alias|curl|kubectl|etcdctl|distributary|printf|promtool) /, 'ends'],
  [/^prometheus /, 'prometheus'],
]

export const howOf = (command: string): How | null => TABLE.find(([pattern]) => pattern.test(command))?.[1] ?? null
