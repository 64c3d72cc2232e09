/**
 * Every option of the server, once: flag, default, bounds, and what goes wrong with a bad value. The environment name,
 * the YAML key, `--help`, the docs and the schema of the Helm values are all made from this table.
 *
 * To add an option, add its entry here *with the code that reads it*: an option that nothing reads does not exist.
 * Flags that kube-apiserver has too mean here what they mean there. How options depend on each other is `relations.ts`.
 */
import { isIP } from 'node:net'

import {
  boolean,
  bytes,
  choice,
  duration,
  file,
  integer,
  list,
  OptionValueError,
  pick,
  port,
  quote,
  secret,
  string,
  type ValueOf,
} from './option.js'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const MiB = 2 ** 20
const GiB = 2 ** 30

export const AUTHORIZATION_MODES = ['AlwaysAllow', 'Policy', 'RBAC', 'Webhook'] as const

/** Asymmetric only: with a symmetric one, whoever can verify a token can make one. */
export const SIGNING_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'ES256',
  'ES384',
  'ES512',
  'PS256',
  'PS384',
  'PS512',
  'EdDSA',
] as const

export const options = {
  // ── Upstream ──────────────────────────────────────────────────────────────────────────────────────────────────────
  etcdServers: list({
    flag: '--etcd-servers',
    group: 'Upstream',
    default: [],
    parseItem: (text) => url(text, ['http:', 'https:']),
    doc: 'Endpoints of one etcd cluster. Without any upstream the server runs on an in-process store filled with sample objects.',
  }),
  etcdPrefix: string({
    flag: '--etcd-prefix',
    group: 'Upstream',
    default: '/registry',
    check: (text) => (/^\/.*[^/]$/.test(text) ? null : 'must begin with "/" and not end with one'),
    doc: 'Where the Kubernetes objects live in etcd. A wrong one shows as resources that are all empty.',
  }),
  etcdCafile: file({
    flag: '--etcd-cafile',
    group: 'Upstream',
    doc: "Certificate authorities that etcd's certificate is checked against, in PEM. Default: the system's.",
  }),
  etcdCertfile: file({
    flag: '--etcd-certfile',
    group: 'Upstream',
    doc: 'Client certificate shown to etcd, in PEM. Needs --etcd-keyfile.',
  }),
  etcdKeyfile: file({
    flag: '--etcd-keyfile',
    group: 'Upstream',
    doc: 'Private key of --etcd-certfile, in PEM.',
  }),
  etcdUsername: string({
    flag: '--etcd-username',
    group: 'Upstream',
    default: null,
    doc: 'etcd user, where its authentication is on. It needs to read the prefix, and to write it only with --enable-writes.',
  }),
  etcdPasswordFile: file({
    flag: '--etcd-password-file',
    group: 'Upstream',
    doc: "File with the etcd user's password; a newline at its end is dropped.",
  }),
  etcdPassword: secret({
    flag: '--etcd-password',
    group: 'Upstream',
    doc: "The etcd user's password; --etcd-password-file is the better way.",
  }),
  upstream: string({
    flag: '--upstream',
    group: 'Upstream',
    default: null,
    check: (text) => problemOfUrl(text, ['http:', 'https:']),
    doc: 'Feed from another distributary, or from a kube-apiserver, by list and watch over HTTP instead of from etcd. What that serves and this caller may list is served, Secrets only by --resource.',
  }),
  kubeconfig: file({
    flag: '--kubeconfig',
    group: 'Upstream',
    doc: 'Who this server is to --upstream: certificate authority, and token or client certificate, of the current context. Its server address is not used.',
  }),
  passthrough: string({
    flag: '--passthrough',
    group: 'Upstream',
    default: null,
    check: (text) => problemOfUrl(text, ['https:', 'http:']),
    doc: "API server that answers all but cached gets, lists and watches: writes, logs, exec, other groups. With the caller's own bearer token, or as a front proxy (--proxy-client-cert-file).",
  }),
  passthroughCafile: file({
    flag: '--passthrough-cafile',
    group: 'Upstream',
    doc: "Certificate authorities that the certificate of --passthrough is checked against, in PEM. Default: the system's.",
  }),
  apiservice: list({
    flag: '--apiservice',
    group: 'Upstream',
    default: [],
    parseItem: apiServiceAddress,
    formatItem: ({ group, version, url: address }) => `${group}/${version}=${address}`,
    doc: 'Without --passthrough: who answers an aggregated API, "metrics.k8s.io/v1beta1=https://10.0.0.9:443". Repeatable. An APIService in etcd without an address here answers 503.',
  }),
  apiserviceCafile: file({
    flag: '--apiservice-cafile',
    group: 'Upstream',
    doc: "Certificate authorities that the certificates of --apiservice are checked against, in PEM; `caBundle` of the object is not read. Default: the system's.",
  }),
  passthroughMaxRequests: integer({
    flag: '--passthrough-max-requests',
    group: 'Upstream',
    default: 1_000,
    min: 1,
    max: 100_000,
    unit: 'requests',
    doc: 'Requests passed on at one time, to each server, streams and tunnels included; each holds a connection of its own. Beyond it: 429.',
  }),
  passthroughTimeout: duration({
    flag: '--passthrough-timeout',
    group: 'Upstream',
    default: MINUTE,
    min: SECOND,
    max: HOUR,
    doc: 'How long the head of an answer may take, as --request-timeout of the API server. Short cuts slow writes off without undoing them.',
  }),
  proxyClientCertFile: file({
    flag: '--proxy-client-cert-file',
    group: 'Upstream',
    doc: 'Certificate that proves this server to be a front proxy, in PEM; the API server trusts names in X-Remote-* from it (--requestheader-client-ca-file there). Needed for callers known by a certificate.',
  }),
  proxyClientKeyFile: file({
    flag: '--proxy-client-key-file',
    group: 'Upstream',
    doc: 'Private key of --proxy-client-cert-file, in PEM.',
  }),
  requireUpstream: boolean({
    flag: '--require-upstream',
    group: 'Upstream',
    default: false,
    doc: 'Refuse to start on the in-process store. Container, Helm chart and systemd unit set it, so that a lost setting is not answered with sample objects.',
  }),

  // ── Fleet ─────────────────────────────────────────────────────────────────────────────────────────────────────────
  natsServers: list({
    flag: '--nats-servers',
    group: 'Fleet',
    default: [],
    parseItem: (text) => url(text, ['nats:', 'tls:']),
    doc: 'Servers of one NATS with JetStream, through which replicas share one etcd watch per resource.',
  }),
  natsRole: choice({
    flag: '--nats-role',
    group: 'Fleet',
    choices: ['auto', 'edge', 'origin'],
    default: 'auto',
    doc: 'auto: serves, and may be elected to read etcd for all. edge: serves, needs no route to etcd. origin: reads etcd, serves nobody.',
  }),
  natsCluster: string({
    flag: '--nats-cluster',
    group: 'Fleet',
    default: 'default',
    check: (text) => (/^[A-Za-z0-9_-]{1,32}$/.test(text) ? null : 'must be 1 to 32 letters, digits, "-" and "_"'),
    doc: 'Names the etcd behind the replicas. Replicas of two etcds with one name on one NATS would take each other for publishers.',
  }),
  natsCredsFile: file({
    flag: '--nats-creds-file',
    group: 'Fleet',
    doc: 'NATS credentials file (JWT and seed).',
  }),
  natsNkeyFile: file({
    flag: '--nats-nkey-file',
    group: 'Fleet',
    doc: 'File with the seed of an nkey.',
  }),
  natsUsername: string({
    flag: '--nats-username',
    group: 'Fleet',
    default: null,
    doc: 'NATS user. Needs --nats-password-file.',
  }),
  natsPasswordFile: file({
    flag: '--nats-password-file',
    group: 'Fleet',
    doc: "File with the NATS user's password; a newline at its end is dropped.",
  }),
  natsCafile: file({
    flag: '--nats-cafile',
    group: 'Fleet',
    doc: "Certificate authorities that the NATS servers' certificates are checked against, in PEM. With it, TLS is required.",
  }),
  natsCertfile: file({
    flag: '--nats-certfile',
    group: 'Fleet',
    doc: 'Client certificate shown to NATS, in PEM. Needs --nats-keyfile.',
  }),
  natsKeyfile: file({
    flag: '--nats-keyfile',
    group: 'Fleet',
    doc: 'Private key of --nats-certfile, in PEM.',
  }),
  natsFallback: choice({
    flag: '--nats-fallback',
    group: 'Fleet',
    choices: ['none', 'etcd'],
    default: 'none',
    doc: 'etcd: a replica in role auto whose NATS is away for 5 s watches etcd itself. Every such replica is then a watcher of etcd.',
  }),
  natsLease: duration({
    flag: '--nats-lease',
    group: 'Fleet',
    default: 5 * SECOND,
    min: SECOND,
    max: 5 * MINUTE,
    doc: 'A publisher that dies is replaced after about this. Short leases cost renewals and are lost in a pause.',
  }),
  natsReplicas: integer({
    flag: '--nats-replicas',
    group: 'Fleet',
    default: 1,
    min: 1,
    max: 5,
    unit: 'servers',
    doc: 'NATS servers that hold each stream, when it is first made. 1 loses the history with its server; take 3 with three servers.',
  }),
  natsStreamBytes: bytes({
    flag: '--nats-stream-bytes',
    group: 'Fleet',
    default: 256 * MiB,
    min: MiB,
    max: 1_024 * GiB,
    doc: 'Most history that NATS holds of one resource, when the stream is first made. An edge that is away for longer than it lasts relists.',
  }),
  maxStaleness: duration({
    flag: '--max-staleness',
    group: 'Fleet',
    default: 5 * MINUTE,
    min: SECOND,
    max: 168 * HOUR,
    doc: 'A replica whose source has been away for longer is not ready, though it goes on serving what it has.',
  }),

  // ── Serving ───────────────────────────────────────────────────────────────────────────────────────────────────────
  bindAddress: string({
    flag: '--bind-address',
    group: 'Serving',
    default: '127.0.0.1',
    check: (text) => (isIP(text) === 0 ? 'is not an IP address' : null),
    doc: 'Address to listen on. Anything but loopback needs TLS and an authenticator.',
  }),
  port: port({
    flag: '--port',
    group: 'Serving',
    default: undefined,
    doc: 'Plain HTTP port; 0 picks a free one and the log says which. Default: 8001 without TLS and off with it.',
  }),
  securePort: integer({
    flag: '--secure-port',
    group: 'Serving',
    default: 6443,
    min: 0,
    max: 65_535,
    doc: 'HTTPS port; 0 picks a free one and the log says which. Needs --tls-cert-file or --tls-self-signed.',
  }),
  insecureBindAny: boolean({
    flag: '--insecure-bind-any',
    group: 'Serving',
    default: false,
    doc: 'Listen beyond loopback without TLS or without an authenticator: whoever reaches the port reads everything served.',
  }),
  enableWrites: boolean({
    flag: '--enable-writes',
    group: 'Serving',
    default: null,
    doc: 'Accept create, update, patch and delete. Beside a kube-apiserver this goes round its admission control. Default: only on the in-process store.',
  }),
  compress: boolean({
    flag: '--compress',
    group: 'Serving',
    default: false,
    doc: 'Compress the watch of every client that accepts gzip, not only of those that ask for it. Saves network, costs CPU for each group.',
  }),
  corsAllowedOrigins: list({
    flag: '--cors-allowed-origins',
    group: 'Serving',
    default: [],
    parseItem: origin,
    doc: 'Origins, compared whole (kube-apiserver takes patterns), whose pages may read answers. Off by default.',
  }),
  websocketAllowedOrigins: list({
    flag: '--websocket-allowed-origins',
    group: 'Serving',
    default: [],
    parseItem: origin,
    doc: "Origins besides the server's own whose pages may open a WebSocket: browsers send it without asking CORS first.",
  }),
  http2MaxStreamsPerConnection: integer({
    flag: '--http2-max-streams-per-connection',
    group: 'Serving',
    default: 250,
    min: 1,
    max: 10_000,
    unit: 'streams',
    doc: 'Concurrent requests on one HTTP/2 connection. Too few make clients open more connections; too many let one client hold much.',
  }),
  workers: integer({
    flag: '--workers',
    group: 'Serving',
    default: 1,
    min: 1,
    max: 256,
    unit: 'processes',
    doc: 'Processes that serve connections. Each above one holds its own copy of the cache; etcd still sees one watch per resource.',
  }),

  // ── TLS ───────────────────────────────────────────────────────────────────────────────────────────────────────────
  tlsCertFile: file({
    flag: '--tls-cert-file',
    group: 'TLS',
    doc: 'Certificate, with its chain, in PEM. Read again when it changes, without dropping a watch. Needs --tls-private-key-file.',
  }),
  tlsPrivateKeyFile: file({
    flag: '--tls-private-key-file',
    group: 'TLS',
    doc: 'Private key of --tls-cert-file, in PEM.',
  }),
  tlsMinVersion: choice({
    flag: '--tls-min-version',
    group: 'TLS',
    choices: ['VersionTLS12', 'VersionTLS13'],
    default: 'VersionTLS12',
    doc: 'Oldest TLS version accepted. 1.3 turns away old clients.',
  }),
  tlsSelfSigned: boolean({
    flag: '--tls-self-signed',
    group: 'TLS',
    default: false,
    doc: 'Make a certificate at each start, for trying out: no client can know it, so none is protected from a man in the middle.',
  }),

  // ── Resources ─────────────────────────────────────────────────────────────────────────────────────────────────────
  resource: list({
    flag: '--resource',
    group: 'Resources',
    default: [],
    commas: false,
    parseItem: (text) => text,
    doc: '"secrets" adds a known resource that is off by default; "flags=/config/flags/" serves an etcd prefix. Repeatable. The YAML key resources takes more detail.',
  }),
  protoDescriptors: file({
    flag: '--proto-descriptors',
    group: 'Resources',
    doc: 'FileDescriptorSet with the kinds of your own that are stored as protobuf. Without it those can be had as protobuf only.',
  }),

  // ── Watch cache ───────────────────────────────────────────────────────────────────────────────────────────────────
  watchCache: boolean({
    flag: '--watch-cache',
    group: 'Watch cache',
    default: true,
    doc: 'Off: every list is read from etcd and every watch is a watch on etcd, which is what this server is there to avoid.',
  }),
  watchCacheSizes: list({
    flag: '--watch-cache-sizes',
    group: 'Watch cache',
    default: [],
    parseItem: watchCacheSize,
    doc: 'Per resource, "pods#50000,deployments.apps#0": batches of history kept; 0 turns the cache of that resource off.',
  }),
  defaultWatchCacheSize: integer({
    flag: '--default-watch-cache-size',
    group: 'Watch cache',
    default: 8_192,
    min: 64,
    max: 1_048_576,
    unit: 'batches',
    doc: 'Batches of history kept per resource at least, within --watch-cache-age and --watch-cache-bytes; the last 75 s are kept whatever their count.',
  }),
  watchCacheBytes: bytes({
    flag: '--watch-cache-bytes',
    group: 'Watch cache',
    default: 64 * MiB,
    min: MiB,
    max: 64 * GiB,
    doc: 'Most memory for the history of one resource, encoded frames included. Wins over time and count: too little turns a short disconnect into a relist.',
  }),
  watchCacheAge: duration({
    flag: '--watch-cache-age',
    group: 'Watch cache',
    default: HOUR,
    min: 10 * SECOND,
    max: 168 * HOUR,
    doc: 'Oldest history kept. Must outlast two bookmark intervals, or an idle client cannot resume.',
  }),
  backfillRevisions: integer({
    flag: '--backfill-revisions',
    group: 'Watch cache',
    default: 10_000,
    min: 0,
    max: 1_000_000,
    unit: 'revisions',
    doc: 'History read back from etcd at start, so that clients resume across our restart. Much of it is dear for etcd; 0 makes all relist.',
  }),
  onGap: choice({
    flag: '--on-gap',
    group: 'Watch cache',
    choices: ['expire', 'coalesce'],
    default: 'expire',
    doc: 'When etcd has compacted past us: end the watches with 410 as the API server would, or send the difference and stay connected.',
  }),

  // ── Watches ───────────────────────────────────────────────────────────────────────────────────────────────────────
  minRequestTimeout: duration({
    flag: '--min-request-timeout',
    group: 'Watches',
    default: 30 * MINUTE,
    min: SECOND,
    max: 24 * HOUR,
    doc: 'A watch that asks for no timeout ends after a random time between this and twice this. Short means many reconnects.',
  }),
  bookmarkInterval: duration({
    flag: '--bookmark-interval',
    group: 'Watches',
    default: MINUTE,
    min: SECOND,
    max: 10 * MINUTE,
    doc: 'How often a quiet watch is told how far it has come. Seldom means long replays on resume.',
  }),
  requestTimeout: duration({
    flag: '--request-timeout',
    group: 'Watches',
    default: MINUTE,
    min: SECOND,
    max: 10 * MINUTE,
    doc: 'Most time for a request that is not a watch.',
  }),
  shutdownGracePeriod: duration({
    flag: '--shutdown-grace-period',
    group: 'Watches',
    default: 30 * SECOND,
    min: SECOND,
    max: 10 * MINUTE,
    doc: 'Most time from SIGTERM to exit. Keep it below what the platform allows before it kills.',
  }),
  shutdownWatchTerminationGracePeriod: duration({
    flag: '--shutdown-watch-termination-grace-period',
    group: 'Watches',
    default: 10 * SECOND,
    min: 0,
    max: 10 * MINUTE,
    doc: 'Over this time after SIGTERM the running watches are ended one by one, so that clients do not all come back at once.',
  }),

  // ── Limits ────────────────────────────────────────────────────────────────────────────────────────────────────────
  maxWatchers: integer({
    flag: '--max-watchers',
    group: 'Limits',
    default: 50_000,
    min: 1,
    max: 10_000_000,
    unit: 'watches',
    doc: 'Running watches in one process; beyond it 429. Count 12 KB of memory for each, 45 KB over TLS.',
  }),
  maxWatchersPerClient: integer({
    flag: '--max-watchers-per-client',
    group: 'Limits',
    default: 20_000,
    min: 1,
    max: 10_000_000,
    unit: 'watches',
    doc: 'Running watches of one identity, or of one address where nobody authenticates; beyond it 429.',
  }),
  maxInitialStates: integer({
    flag: '--max-initial-states',
    group: 'Limits',
    default: 64,
    min: 1,
    max: 100_000,
    unit: 'responses',
    doc: 'Large lists and initial states on their way at one time; beyond it they wait their turn, fairly between identities, then 429.',
  }),
  listCacheBytes: bytes({
    flag: '--list-cache-bytes',
    group: 'Limits',
    default: 64 * MiB,
    min: 0,
    max: 64 * GiB,
    doc: 'Memory for encoded lists shared by clients that ask for the same. 0 encodes each anew.',
  }),
  memoryTarget: bytes({
    flag: '--memory-target',
    group: 'Limits',
    default: null,
    min: 128 * MiB,
    max: 1_024 * GiB,
    doc: 'Resident memory of a process at which new lists and watches are refused with 429; caches shrink from 85 % of it. Set it below the container limit. Default: none.',
  }),
  requestsPerSecond: integer({
    flag: '--requests-per-second',
    group: 'Limits',
    default: 400,
    min: 1,
    max: 1_000_000,
    unit: 'requests/s',
    doc: 'Sustained requests of one identity, with bursts of ten times that; beyond it 429 with Retry-After.',
  }),
  initialBytesPerSecond: bytes({
    flag: '--initial-bytes-per-second',
    group: 'Limits',
    default: null,
    min: 64 * 2 ** 10,
    max: 1_024 * GiB,
    doc: 'Bytes of lists and initial states sent to one identity each second. Default: none.',
  }),
  trustedProxies: list({
    flag: '--trusted-proxies',
    group: 'Limits',
    default: [],
    parseItem: addressRange,
    doc: 'Addresses or ranges (10.0.0.0/8) whose X-Forwarded-For is believed. From anyone else it is ignored.',
  }),

  // ── Authentication ────────────────────────────────────────────────────────────────────────────────────────────────
  clientCaFile: file({
    flag: '--client-ca-file',
    group: 'Authentication',
    doc: 'Accept client certificates signed by one of these authorities: the common name is the user, the organizations are the groups.',
  }),
  tokenAuthFile: file({
    flag: '--token-auth-file',
    group: 'Authentication',
    doc: 'CSV file of bearer tokens: token,user,uid,"group1,group2". Read again when it changes.',
  }),
  oidcIssuerUrl: string({
    flag: '--oidc-issuer-url',
    group: 'Authentication',
    default: null,
    check: (text) => (/^https:\/\/[^\s?#]+$/.test(text) ? null : 'must be an https URL without query or fragment'),
    doc: 'Accept JWTs of this OpenID Connect issuer. Needs --oidc-client-id.',
  }),
  oidcClientId: string({
    flag: '--oidc-client-id',
    group: 'Authentication',
    default: null,
    doc: 'Audience that a JWT must be meant for.',
  }),
  oidcAudiences: list({
    flag: '--oidc-audiences',
    group: 'Authentication',
    default: [],
    parseItem: (text) => text,
    doc: 'More audiences, of which one is enough.',
  }),
  oidcCaFile: file({
    flag: '--oidc-ca-file',
    group: 'Authentication',
    doc: "Certificate authorities for the issuer's own certificate. Default: the system's.",
  }),
  oidcUsernameClaim: string({
    flag: '--oidc-username-claim',
    group: 'Authentication',
    default: 'sub',
    doc: 'Claim that names the user. "email" counts only when email_verified does not say false.',
  }),
  oidcUsernamePrefix: string({
    flag: '--oidc-username-prefix',
    group: 'Authentication',
    default: null,
    doc: 'Put before the user name; "-" for none. Default: the issuer and "#", unless the claim is email.',
  }),
  oidcGroupsClaim: string({
    flag: '--oidc-groups-claim',
    group: 'Authentication',
    default: null,
    doc: 'Claim that holds the groups, a string or a list. Default: no groups.',
  }),
  oidcGroupsPrefix: string({
    flag: '--oidc-groups-prefix',
    group: 'Authentication',
    default: null,
    doc: 'Put before each group, so that an issuer cannot name a group such as system:masters.',
  }),
  oidcSigningAlgs: list({
    flag: '--oidc-signing-algs',
    group: 'Authentication',
    default: ['RS256'],
    choices: SIGNING_ALGORITHMS,
    parseItem: (text) => pick(SIGNING_ALGORITHMS, text),
    doc: 'Signature algorithms accepted. There is no symmetric one and no "none".',
  }),
  oidcClockSkew: duration({
    flag: '--oidc-clock-skew',
    group: 'Authentication',
    default: 10 * SECOND,
    min: 0,
    max: 5 * MINUTE,
    doc: 'How far the clocks of issuer and server may differ. An expired token lives this much longer.',
  }),
  authenticationKubeconfig: file({
    flag: '--authentication-kubeconfig',
    group: 'Authentication',
    doc: 'Kubeconfig of an API server that judges bearer tokens (TokenReview).',
  }),
  authenticationTokenWebhookCacheTtl: duration({
    flag: '--authentication-token-webhook-cache-ttl',
    group: 'Authentication',
    default: 10 * SECOND,
    min: 0,
    max: 10 * MINUTE,
    doc: 'How long the answer about a token is kept: a token taken back is believed that much longer.',
  }),
  requestheaderClientCaFile: file({
    flag: '--requestheader-client-ca-file',
    group: 'Authentication',
    doc: 'Believe the user headers of front proxies whose certificate one of these authorities signed. Use an authority that signs nothing else.',
  }),
  requestheaderAllowedNames: list({
    flag: '--requestheader-allowed-names',
    group: 'Authentication',
    default: [],
    parseItem: (text) => text,
    doc: 'Common names those proxies may have. Empty: any that the authority signed.',
  }),
  requestheaderUsernameHeaders: list({
    flag: '--requestheader-username-headers',
    group: 'Authentication',
    default: ['X-Remote-User'],
    parseItem: headerName,
    doc: 'Headers to look for the user name in, in this order.',
  }),
  requestheaderGroupHeaders: list({
    flag: '--requestheader-group-headers',
    group: 'Authentication',
    default: ['X-Remote-Group'],
    parseItem: headerName,
    doc: 'Headers that name the groups.',
  }),
  requestheaderExtraHeadersPrefix: list({
    flag: '--requestheader-extra-headers-prefix',
    group: 'Authentication',
    default: ['X-Remote-Extra-'],
    parseItem: headerName,
    doc: "Beginnings of headers that carry the user's other facts.",
  }),
  anonymousAuth: boolean({
    flag: '--anonymous-auth',
    group: 'Authentication',
    default: false,
    doc: 'Let requests without credentials in as system:anonymous, for the authorizer to judge.',
  }),

  // ── Authorization ─────────────────────────────────────────────────────────────────────────────────────────────────
  authorizationMode: list<(typeof AUTHORIZATION_MODES)[number]>({
    flag: '--authorization-mode',
    group: 'Authorization',
    default: ['AlwaysAllow'],
    choices: AUTHORIZATION_MODES,
    parseItem: (text) => pick(AUTHORIZATION_MODES, text),
    doc: 'Who decides, asked in this order; one yes is enough. AlwaysAllow lets every identity read everything served.',
  }),
  authorizationPolicyFile: file({
    flag: '--authorization-policy-file',
    group: 'Authorization',
    doc: 'YAML file of the Policy mode. Read again when it changes; a broken one keeps the last good one and says so.',
  }),
  authorizationKubeconfig: file({
    flag: '--authorization-kubeconfig',
    group: 'Authorization',
    doc: 'Kubeconfig of the API server that the Webhook mode asks (SubjectAccessReview).',
  }),
  authorizationWebhookCacheAuthorizedTtl: duration({
    flag: '--authorization-webhook-cache-authorized-ttl',
    group: 'Authorization',
    default: 10 * SECOND,
    min: 0,
    max: 10 * MINUTE,
    doc: 'How long a yes is kept: a right taken away lives that much longer, on running watches too.',
  }),
  authorizationWebhookCacheUnauthorizedTtl: duration({
    flag: '--authorization-webhook-cache-unauthorized-ttl',
    group: 'Authorization',
    default: 10 * SECOND,
    min: 0,
    max: 10 * MINUTE,
    doc: 'How long a no is kept: a right newly given is missed that much longer.',
  }),

  // ── Process ───────────────────────────────────────────────────────────────────────────────────────────────────────
  config: file({
    flag: '--config',
    group: 'Process',
    doc: 'YAML file with these same options under their YAML keys, and the resource table. Flags and environment win over it.',
  }),
  logLevel: choice({
    flag: '--log-level',
    group: 'Process',
    choices: ['debug', 'info', 'warn', 'error'],
    default: 'info',
    doc: 'Least severe lines written. debug says much for every connection.',
  }),
  logFormat: choice({
    flag: '--log-format',
    group: 'Process',
    choices: ['json', 'text'],
    default: 'json',
    doc: 'One JSON object per line, or lines for people.',
  }),
  auditLogPath: string({
    flag: '--audit-log-path',
    group: 'Process',
    default: null,
    doc: 'File that gets one JSON line per request; "-" for standard output. Default: no audit log.',
  }),
  tracingOtlpEndpoint: string({
    flag: '--tracing-otlp-endpoint',
    group: 'Process',
    default: null,
    check: (text) => (isUrl(text) ? null : 'is not the base address of a collector such as http://127.0.0.1:4318'),
    doc: 'OpenTelemetry collector that gets spans of lists, upstream lists and relists, by OTLP over HTTP: http://127.0.0.1:4318. Default: no tracing.',
  }),
  tracingSamplingRatePerMillion: integer({
    flag: '--tracing-sampling-rate-per-million',
    group: 'Process',
    default: 1_000_000,
    min: 0,
    max: 1_000_000,
    doc: "Lists traced among a million whose caller sent no traceparent; with one, the caller's decision counts.",
  }),
} as const

export type OptionName = keyof typeof options

/** What the table alone gives, before defaults that depend on other options are filled in. */
export type OptionValues = { readonly [Name in OptionName]: ValueOf<(typeof options)[Name]> }

export const optionNames = Object.keys(options) as readonly OptionName[]

/** `--etcd-servers` is `DISTRIBUTARY_ETCD_SERVERS`. */
export function environmentName(name: OptionName): string {
  return `DISTRIBUTARY_${options[name].flag.slice(2).replaceAll('-', '_').toUpperCase()}`
}

/** null for those that have no place in the file: the file's own path, secrets, and what `resources:` says better. */
export function yamlKey(name: OptionName): string | null {
  return name === 'config' || name === 'resource' || options[name].kind === 'secret' ? null : name
}

export interface WatchCacheSize {
  /** `pods`, `deployments.apps`. */
  readonly resource: string
  /** 0: no cache for it. */
  readonly batches: number
}

function watchCacheSize(text: string): WatchCacheSize {
  const match = /^([a-z0-9][-a-z0-9.]*)#(\d{1,7})$/.exec(text)
  if (match === null) throw new OptionValueError(`${quote(text)} is not of the form resource#size`)
  const batches = Number(match[2])
  if (batches > 1_048_576) throw new OptionValueError(`${quote(text)} is above 1048576`)
  return { resource: match[1] ?? '', batches }
}

export interface ApiServiceAddress {
  readonly group: string
  readonly version: string
  readonly url: string
}

function apiServiceAddress(text: string): ApiServiceAddress {
  const match = /^([a-z0-9][-a-z0-9]*(?:\.[a-z0-9][-a-z0-9]*)+)\/([a-z0-9][-a-z0-9]*)=(https:.*)$/.exec(text)
  const [, group, version, address] = match ?? []
  if (group === undefined || version === undefined || address === undefined || !isUrl(address.replace(/\/$/, ''))) {
    throw new OptionValueError(`${quote(text)} is not like "metrics.k8s.io/v1beta1=https://10.0.0.9:443"`)
  }
  return { group, version, url: url(address, ['https:']) }
}

function problemOfUrl(text: string, protocols: readonly string[]): string | null {
  try {
    url(text, protocols)
    return null
  } catch {
    return `is not a URL such as ${protocols[0]}//127.0.0.1:8001, without user and password`
  }
}

function url(text: string, protocols: readonly string[]): string {
  const parsed = URL.canParse(text) ? new URL(text) : null
  if (parsed === null || !protocols.includes(parsed.protocol) || parsed.hostname === '') {
    throw new OptionValueError(`${quote(text)} is not a URL such as ${protocols[0]}//127.0.0.1:2379`)
  }
  if (parsed.username !== '' || parsed.password !== '') {
    throw new OptionValueError(
      `the URL of ${quote(parsed.host)} holds a user or password: give them by their own options`,
    )
  }
  return text.replace(/\/$/, '')
}

/** An address to which paths are added. */
function isUrl(text: string): boolean {
  return /^https?:\/\/[^/?#@]+(\/[^?#@]*[^/?#@])?$/.test(text) && URL.canParse(text)
}

function origin(text: string): string {
  if (!URL.canParse(text) || new URL(text).origin !== text) {
    throw new OptionValueError(`${quote(text)} is not an origin such as https://app.example.org`)
  }
  return text
}

function headerName(text: string): string {
  if (!/^[A-Za-z0-9-]+$/.test(text)) throw new OptionValueError(`${quote(text)} is not a header name`)
  return text
}

function addressRange(text: string): string {
  const [address = '', bits, ...rest] = text.split('/')
  const family = isIP(address)
  const mostBits = family === 4 ? 32 : 128
  if (
    family === 0 ||
    rest.length > 0 ||
    (bits !== undefined && !(/^\d{1,3}$/.test(bits) && Number(bits) <= mostBits))
  ) {
    throw new OptionValueError(`${quote(text)} is not an address or a range such as 10.0.0.0/8`)
  }
  return text
}
