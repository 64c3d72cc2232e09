/** A server of etcd's API without a network, over an etcd that answers when the test says so. */
import { EtcdApi, type EtcdApiOptions } from '../../../src/etcd-api/etcd-api.js'
import { overlaps } from '../../../src/etcd-api/key-range.js'
import type { ServedPrefix } from '../../../src/etcd-api/served-prefixes.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import { FairSemaphore } from '../../../src/server/limits/fair-semaphore.js'
import { silentLogger } from '../../../src/support/log.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { FakeAccess, FakeClient, FakeEtcd } from './fakes.js'
import { encode, type Fields } from './harness.js'

export const pathOf = (method: string): string => `/etcdserverpb.${method}`

export interface Opened {
  readonly raw: FakeEtcd
  readonly clock: VirtualClock
  readonly limits: Record<'forwarded' | 'ranges' | 'writes' | 'forwardedWatches', FairSemaphore>
  /** Begins a call, which has its request already if there is one. */
  call(this: void, method: string, request: Fields | null, access?: FakeAccess, connection?: object): FakeClient
}

/** A server that hides `/registry/`. @param prefixes the declared ones that it serves. */
export function openApi(
  answer: (path: string, request: Uint8Array) => Buffer | Promise<Buffer>,
  slots = 4,
  prefixes: readonly ServedPrefix[] = [],
  clock = new VirtualClock(),
): Opened {
  const raw = new FakeEtcd(answer)
  const semaphore = (): FairSemaphore =>
    new FairSemaphore({
      slots,
      maxSlotsPerIdentity: slots,
      maxWaiting: 10,
      maxWaitingPerIdentity: 10,
      maxWaitMs: 1_000,
      clock,
      onRejected: () => {},
    })
  const limits = {
    requests: semaphore(),
    forwarded: semaphore(),
    leases: semaphore(),
    ranges: semaphore(),
    writes: semaphore(),
    pastStates: semaphore(),
    watchers: semaphore(),
    forwardedWatches: semaphore(),
    streams: semaphore(),
  }
  const nothing = (): void => {}
  const options: EtcdApiOptions = {
    prefixes: () => prefixes,
    raw,
    advertiseUrl: null,
    isWritable: true,
    isHidden: (range) => overlaps(range, keyFromText('/registry/')),
    limits,
    metrics: { requestEnded: nothing, forwarded: nothing, streams: nothing, watches: nothing },
    clock,
    logger: silentLogger,
    onInternalError: (error) => {
      throw error
    },
  }
  const api = new EtcdApi(options)
  return {
    raw,
    clock,
    limits,
    call: (method, request, access = new FakeAccess(), connection = {}) => {
      const client = new FakeClient(pathOf(method), connection)
      api.handle(client, access)
      return request === null ? client : client.ask(encode(request))
    },
  }
}
