/** Options for the server's addresses and TLS. */
import { isIP } from 'node:net'
import { boolean, choice, file, fraction, integer, list, parsed, port, string } from '../option.js'
import { hostName, origin, problemOfUrl, socketAddress } from './values.js'

export const servingOptions = {
  bindAddress: string({
    default: '127.0.0.1',
    check: (text) => (isIP(text) === 0 ? 'is not an IP address' : null),
    doc: 'IP address to listen on. Any address other than loopback requires TLS and an authenticator.',
  }),
  port: port({
    default: undefined,
    doc: 'Port for plain HTTP; 0 picks a free one, which the log reports. Default: 8001 without TLS, off with TLS.',
  }),
  securePort: integer({
    default: 6443,
    min: 0,
    max: 65_535,
    doc: 'Port for HTTPS; 0 picks a free one, which the log reports. Requires --tls-cert-file.',
  }),
  metricsBindAddress: parsed({
    parse: socketAddress,
    doc: 'IP address and port of an additional listener with /metrics, /livez, /readyz and /healthz, and nothing else: 0.0.0.0:9090, [::]:9090, or :9090, which is the same as [::]:9090; port 0 picks a free one. It is plain HTTP without authentication: anyone who can reach it sees the names of resources and the numbers of objects and clients. Default: none; the other ports have these paths as well.',
  }),
  insecureBindAny: boolean({
    default: false,
    doc: 'Allow listening beyond loopback without TLS or without an authenticator. Anyone who can reach the port can then read everything the server serves.',
  }),
  enableWrites: boolean({
    default: null,
    doc: 'Accept create, update, patch and delete. Next to a kube-apiserver such writes bypass its admission control. Default: only on the in-process store.',
  }),
  etcdApi: list({
    default: [],
    parseItem: (text) => text,
    doc: 'Declared prefixes, without namespaces, that are also served in etcd\'s own gRPC API, on the same ports: "flags". Clients of etcd read them from the cache; all other keys are forwarded to callers who may read them. Requires --etcd-servers, and a single process that caches these prefixes. Their values are kept a second time, exactly as etcd has them.',
  }),
  etcdApiAdvertiseUrl: string({
    default: null,
    check: (text) => problemOfUrl(text, ['http:', 'https:']),
    doc: "URL that clients of etcd's own API get as the only member of the cluster, and use from then on. Default: the host and port that the client used.",
  }),
  compress: boolean({
    default: false,
    doc: 'Compress every watch whose client accepts gzip. By default the server compresses only initial states, and watches with compress=gzip. It saves bandwidth and costs CPU time per group of watchers.',
  }),
  streamHandles: boolean({
    default: true,
    doc: "Write to watchers with Node's private stream handles, which takes 13 to 19% less CPU per event. The server tests them at each start, and does not use them if the test fails. false: use only Node's public API.",
  }),
  corsAllowedOrigins: list({
    default: [],
    parseItem: origin,
    doc: "Origins, in addition to the server's own, whose pages may read responses, write and open WebSockets, with the credentials of the browser: exact origins, not patterns as in kube-apiserver. Default: none.",
  }),
  allowedHosts: list({
    default: [],
    parseItem: hostName,
    doc: 'Host names that clients may use, in addition to IP addresses and localhost: "api.example.com", ".example.com" for all under it, "*" for any. Without an authenticator the server refuses other names, because a web page could make its own name resolve to this server. With an authenticator all names are allowed unless you set this.',
  }),
  http2MaxStreamsPerConnection: integer({
    default: 250,
    min: 1,
    max: 10_000,
    unit: 'streams',
    doc: 'Maximum number of concurrent requests on one HTTP/2 connection. A low limit makes clients open more connections; a high one lets a single client use more resources.',
  }),
  goawayChance: fraction({
    default: 0,
    min: 0,
    max: 0.02,
    doc: 'Probability that an HTTP/2 request makes the server send GOAWAY, so that the client opens its next connection through the load balancer, perhaps to another replica. Requests and watches in progress are not affected. 0.001 is a good value. Only for several replicas behind a load balancer: with one, clients would only reconnect for nothing.',
  }),
  rebalance: string({
    default: null,
    check: (text) =>
      /^[a-z0-9][-a-z0-9]*\/[a-z0-9][-a-z0-9]*$/.test(text) ? null : 'is not of the form namespace/service',
    doc: 'The Service in front of the replicas, as NAMESPACE/SERVICE. Once a new pod has been ready for a minute, each older replica ends some of its connections, one at a time and at most 2% a second. Their clients reconnect, and the new pod gets its share. Watches end with a bookmark and resume without a list. Requires --pod-uid, and endpointslices in the cache. Not for DaemonSets, or Services with a Local traffic policy. Default: none.',
  }),
  podUid: string({
    default: null,
    doc: 'UID of the pod in which the server runs, for --rebalance. In a pod, set DISTRIBUTARY_POD_UID from metadata.uid.',
  }),
  workers: integer({
    default: 1,
    min: 1,
    max: 256,
    unit: 'processes',
    doc: 'Number of processes that serve connections. With more than one, each holds a copy of the cache; etcd still sees one watch per resource.',
  }),
} as const

export const tlsOptions = {
  tlsCertFile: file({
    doc: "PEM file with the server's certificate and its chain. The server reloads it when it changes, without ending watches. Requires --tls-private-key-file.",
  }),
  tlsPrivateKeyFile: file({
    doc: 'PEM file with the private key for --tls-cert-file.',
  }),
  tlsMinVersion: choice({
    choices: ['VersionTLS12', 'VersionTLS13'],
    default: 'VersionTLS12',
    doc: 'Minimum TLS version. VersionTLS13 rejects old clients.',
  }),
} as const
