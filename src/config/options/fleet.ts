/** How replicas share one etcd watch over NATS. */
import { bytes, choice, duration, file, integer, list, string } from '../option.js'
import { url } from './values.js'
import { SECOND, MINUTE, HOUR, MiB, GiB } from './units.js'

export const fleetOptions = {
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
} as const
