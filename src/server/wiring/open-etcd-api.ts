/** Opens etcd's own API for the prefixes of `--etcd-api`, behind the same gate and limits as every other request. */
import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import { API_GROUP, type Access, type Admitted, type Right } from '../../etcd-api/access.js'
import { EtcdApi } from '../../etcd-api/etcd-api.js'
import {
  type EtcdError,
  invalidAuthToken,
  permissionDenied,
  timedOut,
  tooManyRequests,
} from '../../etcd-api/etcd-error.js'
import { MAX_STREAMS_PER_CONNECTION } from '../../etcd-api/limits.js'
import { type KeyRange, overlaps } from '../../etcd-api/key-range.js'
import type { ServedPrefix } from '../../etcd-api/served-prefixes.js'
import { keyFromText } from '../../engine/model/event.js'
import type { RawUpstream } from '../../engine/upstream/upstream.js'
import { InternalError, StatusError } from '../../kubernetes/model/status.js'
import { type Attributes, pathAttributes } from '../auth/authz/authorizer.js'
import { networkOf } from '../auth/client-address.js'
import type { Exchange } from '../transports/exchange/exchange.js'
import { expectNoEnd } from '../transports/exchange/expect-no-end.js'
import type { RequestGate } from '../transports/gate/request-gate.js'
import { limitPings } from '../transports/limits/ping-strikes.js'
import { oncePer } from '../../support/memo.js'
import { turns } from '../../support/turns.js'
import { GrpcStream } from '../transports/grpc/grpc-stream.js'
import type { ServerDeps } from './server-deps.js'
import { type ClientLimits, isOpenToAll, openSemaphore } from './open-client-limits.js'
import type { Limits } from './open-limits.js'
import { isEtcdPrefix, type ResourceStage } from './open-resources.js'

export interface EtcdApiParts {
  readonly raw: RawUpstream | undefined
  readonly stage: ResourceStage
  readonly limits: Limits
  readonly clients: ClientLimits
  readonly gate: RequestGate
}

export interface EtcdApiHandler {
  /** Answers one gRPC call. @param refused the reason to reject it. */
  handle(this: void, exchange: Exchange, refused?: StatusError): void
  /** Ends the streams that do not end with the watches of a cache. */
  drain(): void
  /** Ends all streams. Resolves when their clients have been sent how they ended, or do not read it. */
  end(): Promise<void>
}

/**
 * How long a stopping server waits for requests in progress, and for clients to take the ends of their streams. A
 * status that is not sent looks like a fault of the server instead of a restart.
 */
const END_MS = 5_000
/** All connections on which no caller has been admitted yet share what limits give to one identity. */
const UNKNOWN = 'unknown connections'

/** Returns null if no prefix is served in this way. */
export function openEtcdApi(
  deps: ServerDeps,
  { raw, stage, limits, clients, gate }: EtcdApiParts,
): EtcdApiHandler | null {
  const { config, clock, logger, metrics, onInternalError } = deps
  if (config.etcdApi.length === 0 || raw === undefined) return null
  const isOpen = isOpenToAll(config)
  const maxStreams = Math.max(MAX_STREAMS_PER_CONNECTION, config.http2MaxStreamsPerConnection)
  const isAllowedAnything = config.authorizationMode.every((mode) => mode === 'AlwaysAllow')
  const kubernetes = keyFromText(`${config.etcdPrefix}/`)
  /** The key that API servers read to find out whether etcd is healthy. */
  const health = keyFromText(`${config.etcdPrefix}/health`)
  const prefixes = function* (): Generator<ServedPrefix> {
    for (const { resource } of stage.registry.list()) {
      if (!isEtcdPrefix(config, resource)) continue
      const found = stage.resources.findLive(resource.group, resource.version, resource.plural)
      if (found !== undefined) yield found
    }
  }
  const api = new EtcdApi({
    prefixes,
    raw,
    advertiseUrl: config.etcdApiAdvertiseUrl,
    isWritable: config.enableWrites,
    // What Kubernetes stores is shown only where rules say so: it includes Secrets.
    isHidden: (range: KeyRange) =>
      isAllowedAnything &&
      stage.kubernetes?.isRuledOut !== true &&
      overlaps(range, kubernetes) &&
      !(range.isOne && range.start === health),
    limits: {
      requests: openSemaphore(deps, 'etcd-requests'),
      forwarded: openSemaphore(deps, 'etcd-forwarded'),
      leases: openSemaphore(deps, 'etcd-forwarded'),
      ranges: clients.semaphores.lists,
      writes: limits.writes,
      pastStates: limits.pastStates,
      watchers: limits.watchers,
      forwardedWatches: openSemaphore(deps, 'etcd-watches'),
      streams: openSemaphore(deps, 'etcd-streams'),
    },
    metrics: metrics.etcdApi,
    clock,
    logger,
    onInternalError: (error) => onInternalError(new InternalError('an internal error occurred', { cause: error })),
  })
  deps.closing.add(() => api.close())
  const limitPingsOf = oncePer((session: ServerHttp2Session): true => {
    limitPings(session, clock, () => metrics.requests.rejected('pings'))
    return true
  })
  /** Lets the connection of a known client have more streams than others may. */
  const allowStreams = oncePer((session: ServerHttp2Session): true => {
    session.settings({ maxConcurrentStreams: maxStreams })
    return true
  })
  /** Connections on which a caller has been admitted. */
  const known = new WeakSet<ServerHttp2Session>()
  const open = new Set<ServerHttp2Stream>()
  let onEmpty = (): void => {}
  return {
    drain: () => api.drain(),
    end: async () => {
      api.close()
      if (open.size === 0) return
      const empty = new Promise<void>((resolve) => {
        onEmpty = resolve
      })
      const giveUp = clock.setTimer(END_MS, () => onEmpty())
      await empty
      giveUp.cancel()
    },
    handle: (exchange, refused) => {
      const stream = streamOf(exchange)
      // `end` waits for it.
      expectNoEnd(exchange.response)
      const over = (): void => void (open.delete(stream) && open.size === 0 && onEmpty())
      if (!stream.closed) open.add(stream)
      // Node's response has sent the status when this listener is called. Clients may keep their half open after it.
      stream.once('wantTrailers', () => setImmediate(over))
      stream.once('close', over)
      onSession(stream, limitPingsOf)
      const isKnown = known.has(stream.session as ServerHttp2Session)
      const onAdmitted = (): void =>
        onSession(stream, (session) => {
          known.add(session)
          allowStreams(session)
        })
      const network = isKnown ? networkOf(gate.addressOf(exchange)) : UNKNOWN
      const check = refused === undefined ? checkOf(gate, exchange, onAdmitted) : refusing(refused)
      api.handle(new GrpcStream(exchange), { isOpen: isOpen && refused === undefined, network, check })
    },
  }
}

function refusing(refused: StatusError): Access['check'] {
  return async () => {
    throw refusalOf(refused)
  }
}

function checkOf(gate: RequestGate, exchange: Exchange, onAdmitted: () => void): Access['check'] {
  return (rights) =>
    asEtcd(async () => {
      const [first] = rights
      const whole = exchange.access
      const check = async (): Promise<Admitted> =>
        first === undefined ? await known(gate, exchange) : await allowed(gate, exchange, rights)
      const isPart = whole !== null && first !== undefined
      const admitted = isPart
        ? await gate.checkPart(exchange, whole, attributesOf(exchange, first), check)
        : await check()
      onAdmitted()
      return {
        ...admitted,
        require: (more) => asEtcd(() => admitted.require(more)),
        confirm: () => asEtcd(() => admitted.confirm()),
      }
    })
}

function streamOf({ response }: Exchange): ServerHttp2Stream {
  return (response as unknown as { readonly stream: ServerHttp2Stream }).stream
}

function onSession(stream: ServerHttp2Stream, act: (session: ServerHttp2Session) => unknown): void {
  const session = stream.session as ServerHttp2Session | undefined
  if (session?.destroyed === false) act(session)
}

/** Admits a request that needs no permission, or whose permissions are known later. */
async function known(gate: RequestGate, exchange: Exchange): Promise<Admitted> {
  const caller = await gate.checkKnown(exchange, pathAttributes('post', exchange.path))
  const required: Right[] = []
  const require = async (rights: readonly Right[]): Promise<void> => {
    for (const right of rights) required.push(right)
    if (rights.length > 0) await allowed(gate, exchange, rights)
  }
  return {
    identity: caller.identity,
    isAnonymous: caller.isAnonymous,
    require,
    confirm: async () => {
      await caller.confirm()
      await require(required.splice(0))
    },
    keep: () => () => {},
  }
}

/** @param rights at least one. */
async function allowed(gate: RequestGate, exchange: Exchange, rights: readonly Right[]): Promise<Admitted> {
  const [first, ...required] = rights.map((right) => attributesOf(exchange, right))
  const caller = await gate.check(exchange, first!)
  const requireAll = async (all: readonly Attributes[]): Promise<void> => {
    for (const attributes of all) {
      if (turns.isOver) await turns.take()
      await caller.authorize(attributes)
    }
  }
  await requireAll(required)
  return {
    identity: caller.identity,
    isAnonymous: false,
    require: async (more) => {
      const all = more.map((right) => attributesOf(exchange, right))
      for (const attributes of all) required.push(attributes)
      await requireAll(all)
    },
    confirm: async () => {
      await caller.confirm()
      await requireAll(required)
    },
    keep: (revoked) => caller.keep(revoked),
  }
}

/** @throws EtcdError instead of a refusal of the gate. */
async function asEtcd<T>(check: () => Promise<T>): Promise<T> {
  try {
    return await check()
  } catch (error) {
    throw refusalOf(error)
  }
}

function attributesOf({ path }: Exchange, { verb, resource, name, namesFrom }: Right): Attributes {
  return {
    verb,
    isResourceRequest: true,
    group: API_GROUP,
    version: 'v1',
    resource,
    subresource: '',
    namespace: '',
    name,
    ...(namesFrom === '' ? {} : { namesFrom }),
    path,
  }
}

/** The gate's refusals in etcd's words. The reason is for the log and the access log. */
function refusalOf(error: unknown): EtcdError | Error {
  if (!(error instanceof StatusError)) return error as Error
  if (error.code === 401) return invalidAuthToken(error)
  if (error.code === 403) return permissionDenied(error)
  if (error.code === 429) return tooManyRequests(error)
  return error instanceof InternalError ? error : timedOut(error)
}
