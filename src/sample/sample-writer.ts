/**
 * Keeps the sample cluster changing, with a few revisions a second like those of a real cluster. Each tick makes one
 * change: a node's heartbeat if one is due, otherwise usually the next step of a pod that is starting or terminating,
 * otherwise something new.
 *
 * The writer has no state except the store. It reads the store and skips objects that it does not understand. The
 * counts of a pod's owners change in the same revision as the pod, so that an observer sees a consistent cluster at
 * every revision. The writer is not a controller, so objects that users delete stay deleted.
 */
import { keyFromText } from '../engine/model/event.js'
import type { Clock, Timer } from '../support/clock.js'
import { randomInteger, type Random } from '../support/random.js'
import { type SampleStore, SampleTransaction, type Stored } from './sample-transaction.js'

const FIRST_TICK_MS = 100
const TICK_MS = [200, 500] as const
const HEARTBEAT_MS = 10_000
/** A pod's default `terminationGracePeriodSeconds`. */
const GRACE_SECONDS = 30
/** The most events to keep. A real cluster drops events after an hour instead. */
const MAX_EVENTS = 100
/** The letters from which Kubernetes generates names, chosen to spell no words. */
const LETTERS = 'bcdfghjklmnpqrstvwxz2456789'

interface Pod extends Stored {
  metadata: Stored['metadata'] & {
    uid: string
    creationTimestamp: string
    deletionTimestamp?: string
    deletionGracePeriodSeconds?: number
  }
  spec: { nodeName: string }
  status: {
    phase: string
    podIP?: string
    conditions: { type: string; status: string }[]
    containerStatuses: { restartCount: number }[]
  }
}

type Lease = Stored & { spec: { renewTime: string } }
type Event = Stored & { lastTimestamp: string }

export class SampleWriter {
  #timer: Timer | null
  #transaction: SampleTransaction

  constructor(
    private readonly store: SampleStore,
    private readonly clock: Clock,
    private readonly random: Random,
  ) {
    this.#transaction = new SampleTransaction(store)
    this.#timer = clock.setTimer(FIRST_TICK_MS, () => this.#tick())
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = null
  }

  #tick(): void {
    this.#timer = this.clock.setTimer(randomInteger(this.random, ...TICK_MS), () => this.#tick())
    this.#transaction = new SampleTransaction(this.store)
    this.#change()
    this.#transaction.commit()
  }

  #change(): void {
    const leases = this.#transaction.list<Lease>('leases/kube-node-lease')
    const [oldest] = leases.filter(isLease).sort((a, b) => (a.spec.renewTime < b.spec.renewTime ? -1 : 1))
    if (oldest !== undefined && this.clock.now() - Date.parse(oldest.spec.renewTime) >= HEARTBEAT_MS) {
      oldest.spec.renewTime = this.#time().replace('Z', '.000000Z')
      return this.#transaction.put('leases', oldest)
    }
    const pods = this.#transaction.list<Pod>('pods').filter(isWhole)
    const moving = pods.filter((pod) => !isServing(pod))
    const serving = pods.filter(isServing)
    if (moving.length > 0 && this.random.next() < 0.7) return this.#advance(this.#pick(moving), pods)
    const action = this.#pick(['flag', 'crash', 'crash', 'replacement'])
    if (action === 'flag' || serving.length === 0) return this.#turnFlag()
    const pod = this.#pick(serving)
    // A pod of a StatefulSet keeps its number, so its replacement could not have a new name.
    if (action === 'crash' || /-\d+$/.test(pod.metadata.name)) this.#crash(pod)
    else this.#replace(pod)
  }

  #turnFlag(): void {
    const key = keyFromText('/config/flags/checkout/express')
    this.store.commit([{ type: 'put', key, value: Buffer.from(this.#pick(['on', 'off'])) }])
  }

  /** Removes a terminating pod. Makes a starting or restarting pod ready. */
  #advance(pod: Pod, pods: readonly Pod[]): void {
    if (pod.metadata.deletionTimestamp !== undefined) return this.#transaction.remove('pods', pod)
    let host = 2
    while (pods.some(({ status }) => status.podIP === `10.244.9.${host}`)) host++
    pod.status.podIP ??= `10.244.9.${host}`
    pod.status.phase = 'Running'
    this.#setReady(pod, true, { running: { startedAt: this.#time() } })
    this.#note(pod, 'Normal', 'Started', 'started its container')
  }

  #crash(pod: Pod): void {
    const lastState = { terminated: { exitCode: 137, reason: 'OOMKilled', finishedAt: this.#time() } }
    for (const container of pod.status.containerStatuses) {
      Object.assign(container, { restartCount: container.restartCount + 1, lastState })
    }
    this.#setReady(pod, false, { waiting: { reason: 'CrashLoopBackOff' } })
    this.#note(pod, 'Warning', 'BackOff', 'back-off restarting failed container')
  }

  /** Starts terminating one pod and creates its replacement. */
  #replace(pod: Pod): void {
    const { podIP: _, ...status } = structuredClone(pod.status)
    const name = pod.metadata.name.replace(/[^-]+$/, this.#word(5))
    const metadata = { ...pod.metadata, name, uid: this.#uid(), creationTimestamp: this.#time() }
    for (const container of status.containerStatuses) Object.assign(container, { restartCount: 0, lastState: {} })
    // The API server always sets both fields, and kubectl relies on that.
    pod.metadata.deletionTimestamp = this.#time(GRACE_SECONDS)
    pod.metadata.deletionGracePeriodSeconds = GRACE_SECONDS
    this.#transaction.put('pods', pod)
    const successor = { ...pod, metadata, status: { ...status, phase: 'Pending' } }
    this.#setReady(successor, false, { waiting: { reason: 'ContainerCreating' } })
    this.#note(successor, 'Normal', 'Scheduled', `assigned to ${pod.spec.nodeName}`)
  }

  /** Writes the pod, and updates the counts of its owners. */
  #setReady(pod: Pod, ready: boolean, state: object): void {
    for (const container of pod.status.containerStatuses) Object.assign(container, { ready, started: ready, state })
    for (const condition of pod.status.conditions) {
      if (!condition.type.endsWith('Ready')) continue
      Object.assign(condition, { status: ready ? 'True' : 'False', lastTransitionTime: this.#time() })
    }
    this.#transaction.put('pods', pod)
    const { namespace, labels } = pod.metadata
    const isOfApp = ({ metadata }: Stored): boolean => metadata.labels?.['app'] === labels?.['app']
    const pods = this.#transaction.list<Pod>(`pods/${namespace}`).filter(isOfApp)
    const count = pods.filter(isWhole).filter(isServing).length
    for (const path of ['deployments', 'replicasets', 'statefulsets', 'daemonsets']) {
      const names = path === 'daemonsets' ? ['numberReady', 'numberAvailable'] : ['readyReplicas', 'availableReplicas']
      for (const owner of this.#transaction.list<Stored & { status?: object }>(`${path}/${namespace}`)) {
        if (!isOfApp(owner)) continue
        owner.status = { ...owner.status, ...Object.fromEntries(names.map((name) => [name, count])) }
        this.#transaction.put(path, owner)
      }
    }
  }

  /** Writes an event about a pod, and removes the oldest event if there are too many. */
  #note({ metadata: { name, namespace, uid } }: Pod, type: string, reason: string, message: string): void {
    const at = this.#time()
    const events = this.#transaction.list<Event>('events')
    const [oldest] = events.sort((a, b) => (a.lastTimestamp < b.lastTimestamp ? -1 : 1))
    if (events.length >= MAX_EVENTS) this.#transaction.remove('events', oldest!)
    const event = {
      kind: 'Event',
      apiVersion: 'v1',
      metadata: { name: `${name}.${this.#word(16)}`, namespace, uid: this.#uid(), creationTimestamp: at },
      involvedObject: { kind: 'Pod', apiVersion: 'v1', namespace, name, uid },
      source: { component: 'kubelet' },
      type,
      reason,
      message,
      count: 1,
      firstTimestamp: at,
      lastTimestamp: at,
    }
    this.#transaction.put('events', event)
  }

  /** @param from not empty. */
  #pick<T>(from: readonly T[]): T {
    return from[randomInteger(this.random, 0, from.length - 1)]!
  }

  #word(length: number, letters = LETTERS): string {
    return Array.from({ length }, () => letters[randomInteger(this.random, 0, letters.length - 1)]).join('')
  }

  #uid(): string {
    return [8, 4, 4, 4, 12].map((length) => this.#word(length, '0123456789abcdef')).join('-')
  }

  #time(secondsFromNow = 0): string {
    return `${new Date(this.clock.now() + secondsFromNow * 1_000).toISOString().slice(0, 19)}Z`
  }
}

function isLease({ spec }: Partial<Lease>): boolean {
  return typeof spec?.renewTime === 'string'
}

/** Whether the pod has all fields that this writer reads. A pod created by a user may lack some. */
function isWhole({ spec, status }: Partial<Pod>): boolean {
  return spec?.nodeName !== undefined && Array.isArray(status?.conditions) && Array.isArray(status.containerStatuses)
}

function isServing({ metadata, status }: Pod): boolean {
  const isReady = status.conditions.some(({ type, status: is }) => type === 'Ready' && is === 'True')
  return isReady && metadata.deletionTimestamp === undefined
}
