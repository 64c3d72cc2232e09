/**
 * etcd's own protocol, in front of etcd: what declared prefixes hold is answered from their caches, and the rest is
 * forwarded if the caller may see or change all of it. What a client can tell apart is equal to etcd, but for member
 * ids, raft terms, and what the options forbid.
 *
 * Each method is authorized first, answered next, and confirmed last, because the permission may be gone after a wait.
 */
import type { IdentitySemaphore } from '../engine/model/shared-limits.js'
import type { Key } from '../engine/model/event.js'
import type { Revision } from '../engine/model/revision.js'
import type { RpcStatus } from '../engine/upstream/etcd/rpc-status.js'
import type { RawUpstream } from '../engine/upstream/upstream.js'
import type { Clock, Timer } from '../support/clock.js'
import type { Logger } from '../support/log.js'
import { oncePer } from '../support/memo.js'
import { turns } from '../support/turns.js'
import { type Access, type Admitted, type Right, rightTo, rightToRead, type Verb } from './access.js'
import type { ByteStream } from './byte-stream.js'
import { authNotEnabled, etcdErrorOf, noLeader, permissionDenied, stopped, unimplemented } from './etcd-error.js'
import { GrpcCall } from './grpc-call.js'
import { Identity } from './identity.js'
import { KeepAliveStream } from './keep-alive-stream.js'
import { type KeyRange, keyRange } from './key-range.js'
import { keysIn, keysOfLease, LEASE_PATHS, leaseIdIn, LeaseCount, wantsKeys } from './leases.js'
import type { EtcdApiMetrics } from './metrics.js'
import {
  findState,
  type LargeSlot,
  rangeBody,
  type RangeState,
  type ResponseBody,
  selectRange,
} from './range-reader.js'
import { answerReads, decodeReadTransaction, isSerializable, rangesOf } from './read-transaction.js'
import { decode, decodeRange, type RangeRequest } from './requests.js'
import { encodeHeader, field, lengthOf, memberListResponse } from './responses.js'
import { ServedPrefixes, type ServedPrefix } from './served-prefixes.js'
import { fieldsExcept, statusAsMember } from './status.js'
import { Bridges, WATCH_PATH } from './watch/bridges.js'
import { HeldWatches } from './watch/held-watches.js'
import { SharedMessages } from './watch/shared-messages.js'
import { type WatchContext, WatchStream } from './watch/watch-stream.js'
import { WriteRights } from './write-rights.js'

export interface EtcdApiOptions {
  readonly prefixes: () => Iterable<ServedPrefix>
  readonly raw: RawUpstream
  /** The URL that clients get as the only member's; null for the authority that the client used. */
  readonly advertiseUrl: string | null
  /** Whether writes are forwarded. */
  readonly isWritable: boolean
  /** Whether a range that no declared prefix covers must stay hidden, whatever the caller may do. */
  readonly isHidden: (range: KeyRange) => boolean
  /**
   * Slots of forwarded requests, of large requests being received, and of large ranges being sent; `pastStates` of
   * states being rebuilt.
   */
  readonly limits: {
    readonly requests: Pick<IdentitySemaphore, 'acquire'>
    readonly forwarded: IdentitySemaphore
    /** Look-ups of the keys of leases, with slots of their own, so that slow readers cannot end other clients' keepalives. */
    readonly leases: IdentitySemaphore
    readonly ranges: IdentitySemaphore
    readonly writes: IdentitySemaphore
    readonly pastStates: Pick<IdentitySemaphore, 'acquire'>
    readonly watchers: IdentitySemaphore
    readonly forwardedWatches: IdentitySemaphore
    readonly streams: IdentitySemaphore
  }
  readonly metrics: EtcdApiMetrics
  readonly clock: Clock
  readonly logger: Logger
  readonly onInternalError: (error: Error) => void
}

/** The highest revision in the responses on one connection. */
interface Connection {
  revision: Revision
}

/** A response, as parts; null when the method has answered by itself. */
type Parts = readonly Uint8Array[]

interface Unary {
  readonly call: GrpcCall
  readonly stream: ByteStream
  readonly access: Access
  readonly request: Buffer
}

type Method = (unary: Unary) => Promise<Parts | ResponseBody>

const LEADER_CHECK_MS = 500
/** etcd ends such streams after three times its election timeout, which is a second by default. */
const NO_LEADER_MS = 3_000
/** For how long a keepalive relies on an earlier look at the keys of its lease, and for how many leases of a stream. */
const ALLOWED_MS = 5_000
const MAX_ALLOWED = 1_000
const NOTHING = new Uint8Array(0)
/** Of a RangeRequest. */
const SERIALIZABLE_FIELD: ReadonlySet<number> = new Set([7])
const ALL_KEYS = keyRange('\0' as Key, '\0' as Key)
/** From this size on, a range takes one of the slots for large responses. */
const LARGE_BYTES = 256 * 1024
/** So many keys take a slot before they are encoded, which takes time, and for a transaction memory. */
const LARGE_KEYS = 1_000

const PATHS = {
  range: '/etcdserverpb.KV/Range',
  txn: '/etcdserverpb.KV/Txn',
  put: '/etcdserverpb.KV/Put',
  deleteRange: '/etcdserverpb.KV/DeleteRange',
  compact: '/etcdserverpb.KV/Compact',
  hashKv: '/etcdserverpb.Maintenance/HashKV',
  alarm: '/etcdserverpb.Maintenance/Alarm',
  memberList: '/etcdserverpb.Cluster/MemberList',
  authenticate: '/etcdserverpb.Auth/Authenticate',
  status: '/etcdserverpb.Maintenance/Status',
} as const

export class EtcdApi {
  readonly #options: EtcdApiOptions
  readonly #prefixes: ServedPrefixes
  readonly #identity: Identity
  readonly #bridges: Bridges
  readonly #watchContext: WatchContext
  readonly #streams = new Set<WatchStream>()
  readonly #keepAlives = new Set<KeepAliveStream>()
  readonly #leases: LeaseCount
  /** The streams whose clients require that etcd has a leader. */
  readonly #needLeader = new Set<WatchStream>()
  #leaderCheck: Timer | null = null
  #isDraining = false
  readonly #connectionOf = oncePer((_connection: object): Connection => ({ revision: 0 as Revision }))
  readonly #methods: ReadonlyMap<string, Method> = new Map<string, Method>([
    [PATHS.range, (unary) => this.#range(unary)],
    [PATHS.txn, (unary) => this.#txn(unary)],
    [PATHS.put, (unary) => this.#put(unary)],
    [PATHS.deleteRange, (unary) => this.#deleteRange(unary)],
    [PATHS.compact, (unary) => this.#compact(unary)],
    [LEASE_PATHS.grant, (unary) => this.#leaseGrant(unary)],
    [LEASE_PATHS.revoke, (unary) => this.#leaseRevoke(unary)],
    [LEASE_PATHS.timeToLive, (unary) => this.#leaseTimeToLive(unary)],
    [LEASE_PATHS.leases, (unary) => this.#readOther(LEASE_PATHS.leases, 'leases', unary)],
    [PATHS.hashKv, (unary) => this.#readOther(PATHS.hashKv, 'hashes', unary)],
    [PATHS.alarm, (unary) => this.#alarm(unary)],
    [PATHS.memberList, (unary) => this.#memberList(unary)],
    [PATHS.status, (unary) => this.#status(unary)],
    [PATHS.authenticate, () => Promise.reject(authNotEnabled())],
  ])

  constructor(options: EtcdApiOptions) {
    this.#options = options
    this.#prefixes = new ServedPrefixes(options.prefixes)
    this.#identity = new Identity(options.raw, options.clock)
    this.#leases = new LeaseCount(options.clock)
    this.#bridges = new Bridges(options.raw, options.clock)
    this.#watchContext = {
      ...options,
      ...options.limits,
      prefixes: this.#prefixes,
      identity: this.#identity,
      held: new HeldWatches(),
      bridges: this.#bridges,
      messages: new SharedMessages(options.clock),
    }
  }

  /** Ends the streams that no cache feeds; the others end with the watches of their caches. */
  drain(): void {
    this.#isDraining = true
    for (const stream of this.#streams) if (!stream.isCached) stream.fail(stopped())
    for (const stream of this.#keepAlives) stream.fail(stopped())
  }

  close(): void {
    this.#isDraining = true
    this.#leaderCheck?.cancel()
    for (const stream of [...this.#streams, ...this.#keepAlives]) stream.fail(stopped())
    this.#bridges.close()
  }

  /** Serves one stream. Never throws: every failure ends the stream with a status. */
  handle(stream: ByteStream, access: Access): void {
    const { clock, metrics, limits } = this.#options
    const method = this.#methods.get(stream.path)
    const isKnown = method !== undefined || stream.path === WATCH_PATH || stream.path === LEASE_PATHS.keepAlive
    const name = isKnown ? methodName(stream.path) : 'other'
    const onEnded = (code: RpcStatus): void => metrics.requestEnded(name, String(code))
    const call = new GrpcCall(stream, clock, onEnded, (signal) => limits.requests.acquire(access.network, signal))
    if (this.#isDraining) return call.fail(stopped())
    if (stream.path === WATCH_PATH) return this.#watch(call, stream, access)
    if (stream.path === LEASE_PATHS.keepAlive) return this.#keepAlive(call, access)
    if (method === undefined) {
      stream.pause()
      this.#options.logger.debug({ path: stream.path }, 'method is not served (--etcd-api)')
      return call.fail(unimplemented(stream.path))
    }
    void this.#answer(call, stream, access, method)
  }

  #watch(call: GrpcCall, stream: ByteStream, access: Access): void {
    const { metrics } = this.#options
    const watches: WatchStream = new WatchStream(this.#watchContext, call, access, () => {
      metrics.streams('watch', -1)
      this.#streams.delete(watches)
      this.#needLeader.delete(watches)
    })
    metrics.streams('watch', 1)
    this.#streams.add(watches)
    if (stream.header('hasleader') === 'true') {
      this.#needLeader.add(watches)
      this.#leaderCheck ??= this.#checkLeaderLater()
    }
    watches.start()
  }

  /** A client that requires a leader would rather lose its stream than hear nothing from a cut-off etcd. */
  #checkLeaderLater(): Timer {
    return this.#options.clock.setTimer(LEADER_CHECK_MS, () => {
      for (const stream of this.#needLeader) if (stream.isSilent(NO_LEADER_MS)) stream.fail(noLeader())
      this.#leaderCheck = this.#needLeader.size === 0 ? null : this.#checkLeaderLater()
    })
  }

  async #answer(call: GrpcCall, stream: ByteStream, access: Access, method: Method): Promise<void> {
    try {
      const request = await call.readOne()
      const response = await method({ call, stream, access, request })
      if ('bytes' in response) await call.sendLarge(response.parts, response.bytes)
      else await call.sendLarge(response, lengthOf(response))
      call.succeed()
    } catch (caught) {
      this.#fail(call, caught)
    }
  }

  #fail(call: GrpcCall, caught: unknown): void {
    if (call.isOver) return
    const error = etcdErrorOf(caught)
    if (error.message === 'internal error') this.#options.onInternalError(caught as Error)
    call.fail(error)
  }

  async #range(unary: Unary): Promise<Parts | ResponseBody> {
    const request = decodeRange(unary.request)
    const prefix = this.#prefixes.covering(request.range)
    const admitted = await unary.access.check([this.#rightTo('read', request.range)])
    const state = prefix === null ? null : await this.#state(prefix, request, unary, admitted)
    if (prefix === null || state === null) return await this.#forward(PATHS.range, unary, admitted)
    const result = await selectRange(state.snapshot, prefix.served.resource.etcdPrefix, request)
    if (result === null) return await this.#forward(PATHS.range, unary, admitted)
    const slot = this.#largeSlot(unary.call, admitted)
    await slot.forKeys(result.objects.length)
    const body = await rangeBody(result, request, this.#options.raw.showsLeasesOfKeys())
    return await this.#respond(prefix, state.revision, body, unary, admitted, slot)
  }

  /** Returns null if etcd must answer. */
  async #state(
    { cache }: ServedPrefix,
    request: Pick<RangeRequest, 'revision' | 'serializable'>,
    { call: { signal }, stream }: Unary,
    { identity }: Admitted,
  ): Promise<RangeState | null> {
    return await findState(cache, request, {
      notBefore: this.#connectionOf(stream.connection).revision,
      signal,
      enter: () => this.#options.limits.pastStates.acquire(identity, signal),
    })
  }

  /** Adds the header. */
  async #respond(
    prefix: ServedPrefix,
    revision: Revision,
    body: ResponseBody,
    { stream }: Unary,
    admitted: Admitted,
    slot: LargeSlot,
  ): Promise<ResponseBody> {
    const identity = await this.#identity.get()
    await slot.forBytes(body.bytes)
    await admitted.confirm()
    const connection = this.#connectionOf(stream.connection)
    connection.revision = Math.max(connection.revision, revision) as Revision
    prefix.metrics.listBytes(body.bytes)
    const head = field(1, [encodeHeader(identity, revision)])
    return { parts: chained(head, body.parts), bytes: lengthOf(head) + body.bytes }
  }

  /** A large response takes one of the slots for them, until its client has all of it or the call ends. */
  #largeSlot(call: GrpcCall, { identity }: Admitted): LargeSlot {
    let isTaken = false
    const take = async (isLarge: boolean): Promise<void> => {
      if (isTaken || !isLarge) return
      isTaken = true
      call.keep(await this.#options.limits.ranges.acquire(identity, call.signal))
    }
    return { forKeys: (keys) => take(keys >= LARGE_KEYS), forBytes: (bytes) => take(bytes >= LARGE_BYTES) }
  }

  async #put(unary: Unary): Promise<Parts | ResponseBody> {
    return await this.#write(PATHS.put, unary, (rights) => rights.put(unary.request))
  }

  async #deleteRange(unary: Unary): Promise<Parts | ResponseBody> {
    return await this.#write(PATHS.deleteRange, unary, (rights) => rights.delete(unary.request))
  }

  /** A transaction of nothing but ranges is a read. */
  async #txn(unary: Unary): Promise<Parts | ResponseBody> {
    return await this.#write(PATHS.txn, unary, (rights) => rights.transaction(unary.request))
  }

  async #write(path: string, unary: Unary, read: (rights: WriteRights) => void): Promise<Parts | ResponseBody> {
    const rights = new WriteRights((verb, range) => this.#rightTo(verb, range))
    read(rights)
    if (rights.isWrite) this.#assertWritable()
    const admitted = await unary.access.check(rights.all)
    if (!this.#mayTouchAllKeys(unary.access))
      for (const lease of rights.leases) await this.#requireKeysOf(lease, 'update', admitted, unary.call.signal)
    if (rights.isWrite || path !== PATHS.txn) return await this.#forward(path, unary, admitted, rights.isWrite)
    const slot = this.#largeSlot(unary.call, admitted)
    const cached = await this.#readTransaction(unary, admitted, slot)
    return cached ?? (await this.#forward(path, unary, admitted, false, slot))
  }

  /** Answers a transaction from the cache; null if etcd must answer. */
  async #readTransaction(unary: Unary, admitted: Admitted, slot: LargeSlot): Promise<ResponseBody | null> {
    const transaction = decodeReadTransaction(unary.request)
    const prefix = transaction === null ? null : this.#prefixes.coveringAll(rangesOf(transaction))
    if (transaction === null || prefix === null) return null
    const freshness = { revision: 0, serializable: isSerializable(transaction) }
    const state = await this.#state(prefix, freshness, unary, admitted)
    if (state === null) return null
    const { etcdPrefix } = prefix.served.resource
    const showsLeases = this.#options.raw.showsLeasesOfKeys()
    const body = await answerReads(transaction, state, { prefix: etcdPrefix, showsLeases, slot })
    return body === null ? null : await this.#respond(prefix, state.revision, body, unary, admitted, slot)
  }

  #assertWritable(): void {
    if (!this.#options.isWritable) throw permissionDenied('writes are not enabled (--enable-writes)')
  }

  /** Whether no lease can have a key that this caller may not see or change. */
  #mayTouchAllKeys({ isOpen }: Access): boolean {
    return isOpen && !this.#options.isHidden(ALL_KEYS)
  }

  /** Whoever decides about a lease decides about all its keys. */
  async #requireKeysOf(lease: string, verb: Verb | 'read', admitted: Admitted, signal: AbortSignal): Promise<void> {
    const { raw, limits } = this.#options
    const leave = await limits.leases.acquire(admitted.identity, signal)
    const keys = await keysOfLease(raw, lease, signal).finally(leave)
    await this.#requireKeys(keys, verb, admitted)
  }

  async #requireKeys(keys: readonly Key[], verb: Verb | 'read', admitted: Admitted): Promise<void> {
    const rights: Right[] = []
    for (const key of keys) {
      if (turns.isOver) await turns.take()
      rights.push(this.#rightTo(verb, keyRange(key, '' as Key)))
    }
    await admitted.require(rights)
  }

  /** Leases without keys belong to nobody, but only to callers with a name. */
  async #checkKnown(access: Access): Promise<Admitted> {
    const admitted = await access.check([])
    if (admitted.isAnonymous) throw permissionDenied('an anonymous caller has no leases')
    return admitted
  }

  async #leaseGrant(unary: Unary): Promise<Parts> {
    this.#assertWritable()
    const admitted = await this.#checkKnown(unary.access)
    this.#leases.assertRoom(admitted.identity)
    const [response = NOTHING] = await this.#forward(LEASE_PATHS.grant, unary, admitted, true)
    this.#leases.granted(admitted.identity, response)
    return [response]
  }

  async #leaseRevoke(unary: Unary): Promise<Parts> {
    this.#assertWritable()
    const admitted = await this.#checkKnown(unary.access)
    const lease = leaseIdIn(unary.request)
    if (!this.#mayTouchAllKeys(unary.access)) await this.#requireKeysOf(lease, 'delete', admitted, unary.call.signal)
    const parts = await this.#forward(LEASE_PATHS.revoke, unary, admitted, true)
    this.#leases.ended(admitted.identity, lease)
    return parts
  }

  /** etcd's answer may include the keys of the lease, and showing them is a read. */
  async #leaseTimeToLive(unary: Unary): Promise<Parts> {
    const admitted = await unary.access.check([])
    const [response = NOTHING] = await this.#forward(LEASE_PATHS.timeToLive, unary, admitted)
    if (!this.#mayTouchAllKeys(unary.access) && wantsKeys(unary.request))
      await this.#requireKeys(keysIn(response), 'read', admitted)
    return [response]
  }

  async #compact(unary: Unary): Promise<Parts> {
    this.#assertWritable()
    const admitted = await unary.access.check([{ verb: 'create', resource: 'compactions', name: '', namesFrom: '' }])
    return await this.#forward(PATHS.compact, unary, admitted, true)
  }

  /** Hashes and the ids of all leases say something about every key. */
  async #readOther(path: string, resource: 'hashes' | 'leases', unary: Unary): Promise<Parts> {
    const verb = resource === 'leases' ? 'list' : 'get'
    return await this.#forward(path, unary, await unary.access.check([{ verb, resource, name: '', namesFrom: '' }]))
  }

  /** Only listing the alarms: `etcdctl endpoint health` does. */
  async #alarm(unary: Unary): Promise<Parts> {
    let action = 0
    decode(unary.request, { varints: { 1: (reader) => (action = reader.int32()) } })
    if (action !== 0) throw permissionDenied('alarms cannot be changed here')
    return await this.#forward(PATHS.alarm, unary, await unary.access.check([]))
  }

  /** Returns the only member: this server, so that clients that follow the members stay here. */
  async #memberList({ stream, access }: Unary): Promise<Parts> {
    const admitted = await access.check([])
    const { advertiseUrl } = this.#options
    const url = advertiseUrl ?? `${stream.isSecure ? 'https' : 'http'}://${stream.authority}`
    const identity = await this.#identity.get()
    await admitted.confirm()
    return memberListResponse(encodeHeader(identity, 0), identity.memberId, 'distributary', url)
  }

  /** etcd's status, as that of this server's only member. Clients decide by the version what they may ask for. */
  async #status(unary: Unary): Promise<Parts> {
    const admitted = await unary.access.check([])
    const [response = new Uint8Array(0)] = await this.#forward(PATHS.status, unary, admitted)
    const identity = await this.#identity.get()
    return statusAsMember(response, identity)
  }

  /**
   * Sends the request to etcd as it is. The caller may see or change all of it.
   * @param slot of the call, if the cache has begun to answer it.
   * @throws EtcdError, RpcError, UpstreamError
   */
  async #forward(
    path: string,
    { call, stream, request }: Pick<Unary, 'call' | 'stream' | 'request'>,
    admitted: Admitted,
    isWrite = false,
    slot = this.#largeSlot(call, admitted),
  ): Promise<Parts> {
    const { raw, limits, metrics } = this.#options
    const { signal } = call
    const leave = await (isWrite ? limits.writes : limits.forwarded).acquire(admitted.identity, signal)
    try {
      metrics.forwarded(methodName(path))
      if (isWrite) await admitted.confirm()
      const connection = this.#connectionOf(stream.connection)
      const notBefore = connection.revision
      // A write goes on if its client leaves: its outcome is etcd's.
      let response = await raw.call(path, request, isWrite ? { isRepeatable: false } : { isRepeatable: true, signal })
      let revision = this.#identity.learn(response)
      if (path === PATHS.range && revision < notBefore && decodeRange(request).serializable) {
        // The member that has answered a serializable range is behind another one that has answered before.
        response = await raw.call(path, linearizable(request), { isRepeatable: true, signal })
        revision = this.#identity.learn(response)
      }
      if (!isWrite) {
        await slot.forBytes(response.length)
        await admitted.confirm()
      }
      connection.revision = Math.max(connection.revision, revision) as Revision
      return [response]
    } finally {
      // The response to a write that has happened is never refused, even a large one. It keeps the slot until it is sent.
      if (isWrite) call.keep(leave)
      else leave()
    }
  }

  #rightTo(verb: Verb | 'read', range: KeyRange): Right {
    const prefix = this.#prefixes.covering(range)
    if (prefix === null && this.#options.isHidden(range)) throw permissionDenied('the range is not a declared prefix')
    return verb === 'read' ? rightToRead(range, prefix) : rightTo(verb, range, prefix)
  }

  #keepAlive(call: GrpcCall, access: Access): void {
    const { raw, metrics, clock, isWritable } = this.#options
    if (!isWritable) return call.fail(permissionDenied())
    /** When each lease was last found to have no foreign keys. */
    const allowed = new Map<string, number>()
    let admitted: Promise<Admitted> | null = null
    let hasSlot = false
    const streams = this.#keepAlives
    const keepAlive: KeepAliveStream = new KeepAliveStream({
      raw,
      call,
      authorize: async (lease) => {
        admitted ??= this.#checkKnown(access)
        const caller = await admitted
        if (!hasSlot) call.keep(await this.#options.limits.streams.acquire(caller.identity, call.signal))
        hasSlot = true
        this.#leases.kept(caller.identity, lease)
        const allowedMs = allowed.get(lease) ?? -Infinity
        if (this.#mayTouchAllKeys(access) || allowedMs > clock.monotonic() - ALLOWED_MS) return
        // The caller itself may be gone by now, and after the wait for etcd.
        admitted = this.#checkKnown(access)
        const known = await admitted
        await this.#requireKeysOf(lease, 'update', known, call.signal)
        await known.confirm()
        if (allowed.size >= MAX_ALLOWED) allowed.clear()
        allowed.set(lease, clock.monotonic())
      },
      onClose: () => {
        metrics.streams('lease-keep-alive', -1)
        streams.delete(keepAlive)
      },
    })
    metrics.streams('lease-keep-alive', 1)
    streams.add(keepAlive)
    keepAlive.start()
  }
}

function* chained(first: Iterable<Uint8Array>, rest: Iterable<Uint8Array>): Generator<Uint8Array> {
  yield* first
  yield* rest
}

/** @param request for a range. */
function linearizable(request: Buffer): Buffer {
  return Buffer.concat(fieldsExcept(request, SERIALIZABLE_FIELD))
}

/** `range` for `/etcdserverpb.KV/Range`. */
function methodName(path: string): string {
  return path
    .slice(path.lastIndexOf('/') + 1)
    .replaceAll(/\B[A-Z]/g, '-$&')
    .toLowerCase()
}
