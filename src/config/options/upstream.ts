/** Where the objects come from: etcd, another server, and the API server that gets what is not served here. */
import { boolean, duration, file, integer, list, secret, string } from '../option.js'
import { apiServiceAddress, problemOfUrl, url } from './values.js'
import { SECOND, MINUTE, HOUR } from './units.js'

export const upstreamOptions = {
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
} as const
