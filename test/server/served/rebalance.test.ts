/** When a replica moves connections to new replicas, and how many; with simulated clients that connect again. */
import t from 'tap'
import {
  beginWaiting,
  type Endpoint,
  next,
  type RebalanceState,
  type Report,
  type Sight,
} from '../../../src/server/served/rebalance.js'
import { seededRandom } from '../../../src/support/random.js'

const pod = (uid: string, { owner = 'd-1', isReady = true } = {}): Endpoint => ({ uid, owner, isReady })
const unready = (uid: string): Endpoint => pod(uid, { isReady: false })

/** One replica, seen once a second. */
class Replica {
  connections = 0
  readonly reports: Report[] = []
  /** The number of connections closed in each second. */
  readonly closed: number[] = []
  #state: RebalanceState | null = null

  constructor(readonly uid: string) {}

  see(nowMs: number, endpoints: readonly Endpoint[]): number {
    const sight: Sight = { nowMs, endpoints, connections: () => this.connections }
    const { state, close, report } = next((this.#state ??= beginWaiting(sight, this.uid)), sight, this.uid)
    this.#state = state
    if (report !== null) this.reports.push(report)
    this.closed.push(close)
    this.connections -= close
    return close
  }

  get total(): number {
    return this.closed.reduce((all, one) => all + one, 0)
  }
}

/** Replicas whose clients connect again after two seconds, to the one that `balance` picks. */
class Fleet {
  readonly replicas = new Map<string, Replica>()
  endpoints: readonly Endpoint[] = []
  nowMs = 1_000_000
  readonly #returning: { readonly atMs: number; readonly was: Replica }[] = []
  readonly #random = seededRandom(7)

  constructor(readonly balance: 'random' | 'sticky' = 'random') {}

  /** Replicas start when they become endpoints, and end when they no longer are. */
  set(...endpoints: readonly Endpoint[]): void {
    this.endpoints = endpoints
    for (const { uid } of endpoints) if (!this.replicas.has(uid)) this.replicas.set(uid, new Replica(uid))
    const gone = [...this.replicas.values()].filter(({ uid }) => endpoints.every((one) => one.uid !== uid))
    for (const replica of gone) {
      this.replicas.delete(replica.uid)
      for (; replica.connections > 0; replica.connections--) this.#connect(null)
    }
  }

  live(seconds: number): void {
    for (let second = 0; second < seconds; second++) {
      this.nowMs += 1_000
      while (this.#returning[0] !== undefined && this.#returning[0].atMs <= this.nowMs)
        this.#connect(this.#returning.shift()!.was)
      for (const replica of this.replicas.values()) {
        const closed = replica.see(this.nowMs, this.endpoints)
        for (let i = 0; i < closed; i++) this.#returning.push({ atMs: this.nowMs + 2_000, was: replica })
      }
    }
  }

  #connect(was: Replica | null): void {
    const ready = this.endpoints.filter(({ isReady }) => isReady)
    const { uid } = ready[Math.floor(this.#random.next() * ready.length)]!
    const picked = this.balance === 'sticky' && was !== null ? was : this.replicas.get(uid)!
    picked.connections++
  }

  get(uid: string): Replica {
    return this.replicas.get(uid)!
  }

  get closed(): number {
    return [...this.replicas.values()].reduce((sum, { total }) => sum + total, 0)
  }
}

/** Two replicas that have been there for a while, with their connections. */
function two(connections: number, balance?: 'random' | 'sticky'): Fleet {
  const fleet = new Fleet(balance)
  fleet.set(pod('a'), pod('b'))
  fleet.live(120)
  for (const uid of ['a', 'b']) fleet.get(uid).connections = connections
  return fleet
}

void t.test('a new pod gets its share, once it has been ready for a minute', async (t) => {
  const fleet = two(300)
  fleet.set(pod('a'), pod('b'), unready('c'))
  fleet.live(90)
  t.equal(fleet.closed, 0, 'nothing moves to a pod that is not ready')
  fleet.set(pod('a'), pod('b'), pod('c'))
  fleet.live(59)
  t.equal(fleet.closed, 0, 'nothing moves in the first minute')
  fleet.live(200)
  for (const uid of ['a', 'b']) {
    const { connections, reports, closed } = fleet.get(uid)
    t.match(reports, [{ outcome: 'balanced', newPods: 1, before: 300, target: 200 }])
    t.ok(connections <= 220, `at most 110% of the target: ${connections}`)
    t.ok(connections >= 190, `not less than its share: ${connections}`)
    t.ok(Math.max(...closed) <= 6, 'at most 2% a second')
  }
  t.ok(fleet.get('c').connections >= 170, `the new one has its share within 15%: ${fleet.get('c').connections}`)
  t.equal(fleet.get('c').total, 0, 'the new one moves nobody')
  const { closed } = fleet
  fleet.live(1_000)
  t.equal(fleet.closed, closed, 'a pod is new only once')
})

void t.test('in a large fleet a new pod gets its share too', async (t) => {
  const fleet = new Fleet()
  const old = Array.from({ length: 9 }, (_, i) => pod(`p${i}`))
  fleet.set(...old)
  fleet.live(120)
  for (const { uid } of old) fleet.get(uid).connections = 1_000
  fleet.set(...old, pod('new'))
  fleet.live(360)
  const { connections } = fleet.get('new')
  t.ok(connections >= 765 && connections <= 1_035, `within 15% of 900: ${connections}`)
})

void t.test('several new pods in one minute are one move', async (t) => {
  const fleet = two(300)
  fleet.set(pod('a'), pod('b'), pod('c'))
  fleet.live(40)
  fleet.set(pod('a'), pod('b'), pod('c'), pod('d'))
  fleet.live(40)
  t.equal(fleet.closed, 0)
  fleet.live(220)
  t.match(fleet.get('a').reports, [{ outcome: 'balanced', newPods: 2, before: 300, target: 150 }])
  for (const uid of ['c', 'd']) t.equal(fleet.get(uid).total, 0, 'neither new pod moves anybody to the other')
})

void t.test('a pod that appears during a move is new afterwards', async (t) => {
  const fleet = two(300)
  fleet.set(pod('a'), pod('b'), pod('c'))
  fleet.live(70)
  fleet.set(pod('a'), pod('b'), pod('c'), unready('d'))
  fleet.live(20)
  fleet.set(pod('a'), pod('b'), pod('c'), pod('d'))
  fleet.live(400)
  t.match(fleet.get('a').reports, [
    { outcome: 'balanced', newPods: 1 },
    { outcome: 'balanced', newPods: 1 },
  ])
  t.match(fleet.get('c').reports, [{ outcome: 'balanced', newPods: 1 }])
  t.equal(fleet.get('d').total, 0)
})

void t.test('a rolling update moves nobody', async (t) => {
  const fleet = two(300)
  const steps: readonly (readonly Endpoint[])[] = [
    [pod('a'), pod('b'), pod('c', { owner: 'd-2', isReady: false })],
    // minReadySeconds: everything is ready for longer than a minute in the middle of a rollout.
    [pod('a'), pod('b'), pod('c', { owner: 'd-2' })],
    [unready('a'), pod('b'), pod('c', { owner: 'd-2' })],
    [pod('b'), pod('c', { owner: 'd-2' })],
    [pod('b'), pod('c', { owner: 'd-2' }), pod('d', { owner: 'd-2', isReady: false })],
    [pod('b'), pod('c', { owner: 'd-2' }), pod('d', { owner: 'd-2' })],
    [unready('b'), pod('c', { owner: 'd-2' }), pod('d', { owner: 'd-2' })],
    [pod('c', { owner: 'd-2' }), pod('d', { owner: 'd-2' })],
  ]
  for (const seconds of [5, 200]) {
    for (const endpoints of steps) {
      fleet.set(...endpoints)
      fleet.live(seconds)
      t.equal(fleet.closed, 0)
    }
    fleet.live(600)
    t.equal(fleet.closed, 0, 'nor afterwards')
    fleet.set(pod('a'), pod('b'))
    fleet.live(600)
  }
})

void t.test('readiness that flaps moves nobody', async (t) => {
  const fleet = two(300)
  for (let i = 0; i < 40; i++) {
    fleet.set(pod('a'), pod('b'), pod('c'))
    fleet.live(30 + (i % 25))
    fleet.set(pod('a'), i % 2 === 0 ? unready('b') : pod('b'), unready('c'))
    fleet.live(5)
  }
  t.equal(fleet.closed, 0)
  fleet.set(pod('a'), pod('b'), pod('c'))
  fleet.live(70)
  t.ok(fleet.closed > 0, 'until it stays ready')
  fleet.set(pod('a'), pod('b'), unready('c'))
  fleet.live(1)
  const { closed } = fleet
  t.match(fleet.get('a').reports, [{ outcome: 'interrupted' }])
  fleet.set(pod('a'), pod('b'), pod('c'))
  fleet.live(600)
  t.equal(fleet.closed, closed, 'a pod that flaps later starts no second move')
})

void t.test('an old pod that flaps, or that is replaced in other slices, moves nobody', async (t) => {
  const fleet = two(300)
  for (const endpoints of [[pod('a'), unready('b')], [pod('a'), pod('b')], [pod('a')], [pod('a'), pod('b')]]) {
    const b = fleet.get('b')
    fleet.set(...endpoints)
    fleet.replicas.set('b', b)
    fleet.live(50)
  }
  fleet.live(600)
  t.equal(fleet.closed, 0)
})

void t.test('a pod that replaces one that has failed gets its share', async (t) => {
  const fleet = two(300)
  fleet.set(pod('a'))
  fleet.live(20)
  t.equal(fleet.get('a').connections, 600)
  fleet.set(pod('a'), pod('c'))
  fleet.live(300)
  t.match(fleet.get('a').reports, [{ outcome: 'balanced', before: 600, target: 300 }])
})

void t.test('where clients return to the same pod, a move stops after a minute', async (t) => {
  const fleet = two(300, 'sticky')
  fleet.set(pod('a'), pod('b'), pod('c'))
  fleet.live(60 + 62)
  for (const uid of ['a', 'b']) t.match(fleet.get(uid).reports, [{ outcome: 'no-progress', before: 300, seconds: 60 }])
  const { closed } = fleet
  fleet.live(600)
  t.equal(fleet.closed, closed)
  t.equal(fleet.get('a').connections, 300)
})

void t.test('a move ends after five minutes', async (t) => {
  const replica = new Replica('a')
  const endpoints = [pod('a'), pod('b')]
  replica.see(0, [pod('a')])
  for (let second = 1; second <= 60; second++) replica.see(second * 1_000, [pod('a')])
  replica.connections = 1_000
  // Of twenty that leave, nineteen return: progress is slow, but never none.
  for (let second = 61; second <= 500; second++) {
    const closed = replica.see(second * 1_000, endpoints)
    replica.connections += Math.floor(closed * 0.95)
  }
  t.match(replica.reports, [{ outcome: 'timeout', seconds: 300, before: 1_000, target: 500 }])
})

void t.test('a handful of connections move one by one, and none where none has to', async (t) => {
  const fleet = two(3)
  fleet.set(pod('a'), pod('b'), pod('c'))
  fleet.live(400)
  for (const uid of ['a', 'b']) {
    t.ok(Math.max(...fleet.get(uid).closed) <= 1)
    t.match(fleet.get(uid).reports, [{ before: 3, target: 2 }])
  }
  const idle = two(0)
  idle.set(pod('a'), pod('b'), pod('c'))
  idle.live(400)
  t.same(idle.get('a').reports, [])
})

void t.test('a pod that is not behind the Service moves nobody', async (t) => {
  const replica = new Replica('elsewhere')
  replica.connections = 100
  for (let second = 0; second < 300; second++) {
    replica.see(second * 1_000, second < 100 ? [pod('a')] : [pod('a'), pod('b')])
  }
  t.equal(replica.total, 0)
})
