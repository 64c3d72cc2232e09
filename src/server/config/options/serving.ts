/** Options for the server's addresses and TLS. */
import { isIP } from 'node:net'
import { boolean, choice, file, integer, list, parsed, port, string } from '../option.js'
import { hostName, origin, socketAddress } from './values.js'

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
    doc: 'IP address and port of an additional listener with /metrics, /livez, /readyz and /healthz, and nothing else: 0.0.0.0:9090, [::]:9090; port 0 picks a free one. It is plain HTTP without authentication: anyone who can reach it sees the names of resources and the numbers of objects and clients. Default: none; the other ports have these paths as well.',
  }),
  insecureBindAny: boolean({
    default: false,
    doc: 'Allow listening beyond loopback without TLS or without an authenticator. Anyone who can reach the port can then read everything the server serves.',
  }),
  enableWrites: boolean({
    default: null,
    doc: 'Accept create, update, patch and delete. Next to a kube-apiserver such writes bypass its admission control. Default: only on the in-process store.',
  }),
  serveCbor: boolean({
    default: false,
    doc: 'Answer in CBOR when clients ask for application/cbor, as an API server does with its feature gate CBORServingAndStorage. Otherwise they get the next format that they accept, or 406, as from an API server without the gate. Custom resources stored as CBOR are read in any case.',
  }),
  compress: boolean({
    default: false,
    doc: 'Compress every watch whose client accepts gzip. By default the server compresses only initial states, and watches with compress=gzip. It saves bandwidth and costs CPU time per group of watchers.',
  }),
  streamHandles: boolean({
    default: true,
    doc: "Write to watchers with Node's private stream handles, which is a fifth cheaper per event. The server tests them at each start, and does not use them if the test fails. false: use only Node's public API.",
  }),
  corsAllowedOrigins: list({
    default: [],
    parseItem: origin,
    doc: "Origins, in addition to the server's own, whose pages may read responses and open WebSockets, with the credentials of the browser: exact origins, not patterns as in kube-apiserver. Default: none.",
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
