/** Options for the source of the objects: etcd, another server, and the API server behind this one. */
import { boolean, file, integer, list, string } from '../option.js'
import { apiServiceAddress, etcdServer, etcdServersOverride, headerPattern, problemOfUrl } from './values.js'

export const upstreamOptions = {
  etcdServers: list({
    default: [],
    parseItem: etcdServer,
    doc: 'Endpoints of one etcd cluster: https://10.0.0.7:2379, 127.0.0.1:2379, which is plain HTTP, or a socket, as kine in k3s has: unix:///var/lib/rancher/k3s/server/kine.sock. Without any upstream the server runs on an in-process store filled with sample objects.',
  }),
  etcdServersOverrides: list({
    default: [],
    parseItem: etcdServersOverride,
    formatItem: ({ group, plural, servers }) => `${group}/${plural}#${servers.join(';')}`,
    doc: 'Resources stored in other etcd clusters, in the format of the API server\'s option of the same name: "/events#https://10.0.0.8:2379;https://10.0.0.9:2379". They use the prefix, certificates and user of --etcd-servers. Custom resources are always in the main etcd.',
  }),
  etcdPrefix: string({
    default: '/registry',
    check: (text) => (/^\/.*[^/]$/.test(text) ? null : 'must begin with "/" and not end with one'),
    doc: 'Prefix of the Kubernetes objects in etcd. If it is wrong, every resource is empty.',
  }),
  etcdCafile: file({
    doc: "PEM file with the CAs that verify etcd's certificate. Default: the system's. When it changes, the server reloads it, and uses it for new connections only.",
  }),
  etcdCertfile: file({
    doc: 'PEM file with the client certificate for etcd. Requires --etcd-keyfile. When they change, the server reloads both, and uses them for new connections only.',
  }),
  etcdKeyfile: file({
    doc: 'PEM file with the private key for --etcd-certfile.',
  }),
  etcdUsername: string({
    default: null,
    doc: 'User name for etcd, if etcd authenticates users. The user must be able to read the prefix, and, with --enable-writes, to write to it.',
  }),
  etcdPasswordFile: file({
    doc: 'File with the password of the etcd user. The server ignores a trailing newline, and reloads the file when it changes.',
  }),
  encryptionProviderConfig: file({
    doc: 'EncryptionConfiguration file with the keys to decrypt what a kube-apiserver has encrypted in etcd; use the same file as for the kube-apiserver option of that name. The server reloads it when it changes. The first provider of a resource encrypts what is written through this server. Keys and plaintext never leave the process that serves them.',
  }),
  upstream: string({
    default: null,
    check: (text) => (text === 'in-cluster' ? null : problemOfUrl(text, ['http:', 'https:'])),
    doc: "URL of another distributary or of a kube-apiserver; in-cluster: the API server of this pod's cluster, with the pod's service account. The server lists and watches it over HTTP instead of reading etcd, and serves every resource there that it may list; Secrets only with --resource.",
  }),
  kubeconfig: file({
    doc: 'Kubeconfig with the credentials for --upstream: the CA and the token or client certificate of its current context. The server ignores the address in it.',
  }),
  passthrough: string({
    default: null,
    check: (text) => problemOfUrl(text, ['https:', 'http:']),
    doc: "URL of an API server that answers everything except cached gets, lists and watches: writes, logs, exec, other groups. The server sends the caller's own bearer token, or acts as a front proxy (--proxy-client-cert-file).",
  }),
  passthroughCafile: file({
    doc: "PEM file with the CAs that verify the certificates of --passthrough and --apiservice. The server does not read `caBundle` of an APIService. Default: the system's.",
  }),
  apiservice: list({
    default: [],
    parseItem: apiServiceAddress,
    formatItem: ({ group, version, url: address }) => `${group}/${version}=${address}`,
    doc: 'Address of an aggregated API server, for use without --passthrough: "metrics.k8s.io/v1beta1=https://10.0.0.9:443". Repeatable. Requests to an APIService in etcd that has no address here get 503.',
  }),
  passthroughMaxRequests: integer({
    default: 1_000,
    min: 1,
    max: 100_000,
    unit: 'requests',
    isFileOnly: true,
    doc: 'Maximum number of concurrent requests to each server behind --passthrough or --apiservice, including streams and tunnels; each takes its own connection. One client holds three quarters of them at most, unless everybody may do everything. Further requests get 429.',
  }),
  passthroughStripHeaders: list({
    default: ['X-Remote-*', 'X-Group', 'X-User'],
    parseItem: headerPattern,
    isFileOnly: true,
    doc: 'Request headers that the server does not forward, because the server behind it might trust them as the identity of the user; a trailing "*" matches any suffix. X-Remote-User, -Group, -Uid and -Extra-* are never forwarded.',
  }),
  proxyClientCertFile: file({
    doc: 'PEM file with the certificate that identifies this server as a front proxy. The API server (--requestheader-client-ca-file there) then trusts the names in X-Remote-* headers. Required to forward requests of callers that have a client certificate.',
  }),
  proxyClientKeyFile: file({
    doc: 'PEM file with the private key for --proxy-client-cert-file.',
  }),
  requireUpstream: boolean({
    default: false,
    doc: 'Refuse to start on the in-process store. The container, the Helm chart and the systemd unit set it, so that a missing setting never results in sample objects.',
  }),
} as const
