/** Options for replicas that share one etcd watch over NATS. */
import { bytes, choice, duration, file, integer, list, string } from '../option.js'
import { url } from './values.js'
import { SECOND, MINUTE, HOUR, MiB, GiB } from './units.js'

export const fleetOptions = {
  natsServers: list({
    default: [],
    parseItem: (text) => url(text, ['nats:', 'tls:']),
    doc: 'Servers of one NATS cluster with JetStream. Replicas that use it share one etcd watch per resource.',
  }),
  natsRole: choice({
    choices: ['auto', 'edge'],
    removed: { origin: 'use auto, and send it no clients' },
    default: 'auto',
    doc: 'auto: the replica serves clients and can be elected to read etcd for all. It also watches etcd itself when NATS has confirmed nothing for 5 to 8 s. edge: it serves clients and needs no route to etcd.',
  }),
  natsCluster: string({
    default: 'default',
    check: (text) => (/^[A-Za-z0-9_-]{1,32}$/.test(text) ? null : 'must be 1 to 32 letters, digits, "-" and "_"'),
    doc: 'Name of the etcd cluster behind the replicas. Replicas of two different etcd clusters on one NATS need different names, or each would use the data of the other.',
  }),
  natsCredsFile: file({
    doc: 'NATS credentials file (JWT and seed).',
  }),
  natsNkeyFile: file({
    doc: 'File with the seed of an nkey.',
  }),
  natsUsername: string({
    default: null,
    doc: 'NATS user name. Requires --nats-password-file.',
  }),
  natsPasswordFile: file({
    doc: 'File with the password of the NATS user. The server ignores a trailing newline.',
  }),
  natsCafile: file({
    doc: 'PEM file with the CAs that verify the certificates of the NATS servers. Setting it makes TLS mandatory.',
  }),
  natsCertfile: file({
    doc: 'PEM file with the client certificate for NATS. Requires --nats-keyfile.',
  }),
  natsKeyfile: file({
    doc: 'PEM file with the private key for --nats-certfile.',
  }),
  natsSigningKeyFile: file({
    doc: 'File with a secret key that all replicas share and NATS never sees: one line with at least 32 bytes in base64 (openssl rand -base64 32). Replicas then sign everything they send over NATS, and refuse unsigned data. A second line holds another accepted key, for rotation. The server reloads the file when it changes. Default: no signatures.',
  }),
  natsLease: duration({
    default: 5 * SECOND,
    min: SECOND,
    max: 5 * MINUTE,
    doc: 'Time after which another replica replaces a publisher that died. With a short lease, replicas renew more often, and a brief pause of the process can lose the lease.',
  }),
  natsReplicas: integer({
    default: 1,
    min: 1,
    max: 5,
    unit: 'servers',
    doc: 'Number of NATS servers that store each stream; it applies when the stream is created. With 1 the history is lost with that server; with three servers, use 3.',
  }),
  natsStreamBytes: bytes({
    default: 256 * MiB,
    min: MiB,
    max: 1_024 * GiB,
    doc: 'Maximum history of one resource in NATS; it applies when the stream is created. An edge that is disconnected for longer than this history lasts must relist.',
  }),
  maxStaleness: duration({
    default: null,
    min: SECOND,
    max: 168 * HOUR,
    doc: 'Age of the data above which a replica is not ready. Default: a replica stays ready without its source, answers from its cache, and reports the age in a header, a metric and /readyz?verbose. If you set it, an outage of etcd takes every replica out of its Service.',
  }),
} as const
