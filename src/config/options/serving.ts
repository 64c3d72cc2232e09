/** Where and how the server listens, and over which TLS. */
import { isIP } from 'node:net'
import { boolean, choice, file, integer, list, port, string } from '../option.js'
import { origin } from './values.js'

export const servingOptions = {
  // ── Serving ────────────────────────────────────────────────────────────────────────────────────────────────────────
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

  // ── TLS ────────────────────────────────────────────────────────────────────────────────────────────────────────────
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
} as const
