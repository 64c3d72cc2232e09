/** Options for the served resources, their caches, and the lifetimes of history and watches. */
import { boolean, bytes, choice, duration, file, integer, list, string } from '../option.js'
import { formatStripRules } from '../../../kubernetes/dialect/stripped-fields.js'
import { publicResource, resourceGapPolicy, stripRule, watchCacheSize } from './values.js'
import { SECOND, MINUTE, HOUR, MiB, GiB } from './units.js'

export const resourceOptions = {
  resource: list({
    default: [],
    doc: '"secrets" adds a known resource that is off by default; "resource.k8s.io/v1beta1" adds an alpha or beta version, and "api/all", "api/beta" or "api/alpha" every such version, as in the API server\'s --runtime-config; "flags=/config/flags/" serves an etcd prefix, which ends in a separator; "-events" leaves out a resource that has too many objects, or cannot be read here. With --passthrough the API server then answers for it; otherwise it is unknown here. Separate items with commas, or repeat the flag. Use the YAML key resources for more detail, or for a prefix that contains a comma, is exact or is not text.',
  }),
  kubernetesResources: choice({
    choices: ['auto', 'always', 'never'],
    default: 'auto',
    doc: "Whether to serve Kubernetes' own resources. auto: yes, unless the server declares prefixes over etcd and finds nothing under Kubernetes' default prefix; then it serves only the declared ones until something is stored there. always is implied by an explicit etcd prefix or Kubernetes resource, writes, RBAC, NATS, --passthrough and --apiservice.",
  }),
  publicCaching: list({
    default: [],
    parseItem: publicResource,
    doc: 'Resources that anyone may read, with two durations: how long shared caches (a CDN, nginx) may answer gets and lists from their copy, and how much longer they may do so while they revalidate it: "flags.distributary.io=5s/30s". At most 60s together. The server does not start unless its authorizer lets system:anonymous list each of them. By default answers are private and revalidated each time.',
  }),
  ofrep: string({
    default: null,
    doc: 'Declared prefix, without namespaces, whose values are feature flags: "flags". They are also served under /ofrep/v1/, in the OpenFeature Remote Evaluation Protocol, to callers who may get, list and watch the resource. Streams for callers who log in need --ticket-key-file.',
  }),
  selectAnyField: boolean({
    default: false,
    doc: "Let field selectors name any scalar path of Kubernetes' own kinds and custom resources, not only the labels that the API server accepts. A typo then matches nothing instead of being refused. Declared prefixes always accept any path.",
  }),
  strip: list({
    default: [],
    parseItem: stripRule,
    formatItem: (rule) => formatStripRules([rule]),
    isFileOnly: true,
    doc: 'Fields that the server leaves out of every object of a resource, in memory and in every response: "pods=metadata.managedFields", or "*=metadata.managedFields" for all resources. Responses name them in X-Distributary-Stripped. Clients cannot select by them. Single annotations need the consent of stripAnnotations.',
  }),
  stripAnnotations: boolean({
    default: false,
    isFileOnly: true,
    doc: 'Allow strip to leave out single annotations by name: "deployments.apps=metadata.annotations.kubectl\\.kubernetes\\.io/last-applied-configuration". A client that reads an object here, changes it and writes it to the API server deletes the annotation there.',
  }),
  protoDescriptors: file({
    doc: 'FileDescriptorSet for custom kinds that are stored as protobuf. Without it, clients can read those objects only as protobuf.',
  }),
} as const

export const watchCacheOptions = {
  watchCache: boolean({
    default: true,
    doc: 'Cache resources. With false, every list reads etcd and every watch opens a watch on etcd, which is the load that this server exists to avoid.',
  }),
  watchCacheSizes: list({
    default: [],
    parseItem: watchCacheSize,
    doc: 'History in batches for individual resources: "pods#50000,deployments.apps#0". 0 turns the cache of that resource off.',
  }),
  defaultWatchCacheSize: integer({
    default: 8_192,
    min: 64,
    max: 1_048_576,
    unit: 'batches',
    doc: 'Number of batches of history to keep per resource, within --watch-cache-age and --watch-cache-bytes. The last 75 s are kept even if they exceed this number.',
  }),
  watchCacheBytes: bytes({
    default: 64 * MiB,
    min: MiB,
    max: 64 * GiB,
    doc: 'Maximum memory for the history of one resource, encoded frames included. It takes precedence over age and count: too little turns a short disconnect into a relist.',
  }),
  watchCacheAge: duration({
    default: HOUR,
    min: 10 * SECOND,
    max: 168 * HOUR,
    doc: 'Maximum age of history; for a stream in NATS it applies when the stream is created. It must be at least twice the bookmark interval, or an idle client cannot resume.',
  }),
  backfillRevisions: integer({
    default: 10_000,
    min: 0,
    max: 1_000_000,
    unit: 'revisions',
    doc: 'Revisions of history that the server reads back when it starts, so that clients can resume after its restart: from etcd, or from the watch cache of the API server behind `--upstream`. etcd reads them all at once, whatever their keys, while writes wait: for 100,000 revisions of 1 KiB, about a second. With 0 all clients relist.',
  }),
  onGap: choice({
    choices: ['expire', 'coalesce'],
    default: null,
    doc: 'What happens when the server has missed revisions that etcd has compacted, or that a restarted API server no longer has (--upstream). expire: watches end with 410, as with the API server. coalesce: the server sends the difference, and watches continue. Default: coalesce with --upstream, otherwise expire.',
  }),
  onGapOverrides: list({
    default: [],
    parseItem: resourceGapPolicy,
    formatItem: ({ resource, policy }) => `${resource}=${policy}`,
    doc: 'Another --on-gap for individual resources: "leases.coordination.k8s.io=expire".',
  }),
} as const

export const watchOptions = {
  minRequestTimeout: duration({
    default: 30 * MINUTE,
    min: SECOND,
    max: 24 * HOUR,
    doc: 'Duration of a watch that sets no timeout: it ends after a random time between this value and twice this value. Short times cause many reconnects.',
  }),
  bookmarkInterval: duration({
    default: MINUTE,
    min: SECOND,
    max: 10 * MINUTE,
    doc: 'Time between two bookmarks of a quiet watch. With a long interval, clients that resume replay more.',
  }),
  requestTimeout: duration({
    default: MINUTE,
    min: SECOND,
    max: HOUR,
    doc: 'Maximum time for a request that is not a watch. For forwarded requests (--passthrough, --apiservice), it limits only the wait for the response headers. A forwarded write that times out may still take effect.',
  }),
  shutdownGracePeriod: duration({
    default: 30 * SECOND,
    min: SECOND,
    max: 10 * MINUTE,
    doc: 'Maximum time from SIGTERM to exit. It must be shorter than the time after which the platform kills the process.',
  }),
  shutdownDelayDuration: duration({
    default: 0,
    min: 0,
    max: 10 * MINUTE,
    doc: 'Time after SIGTERM during which the server reports unready but keeps serving, including new watches, so that load balancers stop sending clients before the drain begins. In its second half every connection ends after its next response. --shutdown-grace-period begins after it.',
  }),
  shutdownWatchTerminationGracePeriod: duration({
    default: 10 * SECOND,
    min: 0,
    max: 10 * MINUTE,
    doc: 'Maximum time after SIGTERM over which the server ends running watches, so that clients do not all reconnect at once. It ends at least 200 a second, so few watches take less time.',
  }),
} as const
