/**
 * A seeded random schedule for a scenario: writes, watchers that come, go, stop reading and resume at offsets from −100
 * to +100, lists of every kind, and faults of etcd and of its connections. The seed decides what is done but not when
 * etcd and the sockets answer, so it repeats the kind of run, not the run itself.
 */
import { randomInteger } from '../../src/support/random.js'
import type { Revision } from '../../src/engine/model/revision.js'
import { ListError, type RecordedWatch } from '../support/watch-recorder.js'
import { type Scenario, scopes } from './scenario.js'
import { pause } from '../support/until.js'

export interface ScheduleOptions {
  readonly watchersAtOnce: number
}

/** Each fault begins and ends; at most one is active at a time. */
const faults: readonly ((s: Scenario) => Promise<void>)[] = [
  async (s) => s.pick(s.proxies).cut(s.pick(['rst', 'fin'] as const)),
  async (s) => s.pick(s.proxies).cut(s.pick(['rst', 'fin'] as const)),
  async (s) => s.pick(s.proxies).cutAfter(randomInteger(s.random, 1, 3_000)),
  async (s) => {
    const proxy = s.pick(s.proxies)
    proxy.stall(...s.pick([[], ['to-client'], ['to-server']] as const))
    await pause(randomInteger(s.random, 10, 1_500))
    proxy.release()
  },
  async (s) => {
    const proxy = s.pick(s.proxies)
    proxy.setLatency(randomInteger(s.random, 1, 60))
    await pause(randomInteger(s.random, 100, 800))
    proxy.setLatency(0)
  },
  async (s) => {
    await Promise.all(s.proxies.map((proxy) => proxy.refuse()))
    for (const proxy of s.proxies) proxy.cut()
    await pause(randomInteger(s.random, 50, 600))
    if (s.random.next() < 0.4) await compact(s)
    await Promise.all(s.proxies.map((proxy) => proxy.accept()))
  },
  async (s) => await s.pick(s.members).restart(),
  async (s) => {
    const member = s.pick(s.members)
    await member.kill('SIGSTOP')
    await pause(randomInteger(s.random, 50, 1_500))
    await member.kill('SIGCONT')
  },
  async (s) => await compact(s),
]

/** Faults of the network between the members, for scenarios that can break it. */
const peerFaults: typeof faults = [
  async (s) => {
    s.peers?.isolate(randomInteger(s.random, 0, s.members.length - 1), s.pick(['both', 'in', 'out'] as const))
    await pause(randomInteger(s.random, 200, 3_000))
    s.peers?.heal()
  },
  async (s) => {
    const from = randomInteger(s.random, 0, s.members.length - 1)
    s.peers?.drop(from, (from + randomInteger(s.random, 1, s.members.length - 1)) % s.members.length)
    await pause(randomInteger(s.random, 200, 3_000))
    s.peers?.heal()
  },
]

/** Compacts only what the control has received. */
async function compact(s: Scenario): Promise<void> {
  // Compacting twice at the same revision, or while etcd is down, fails harmlessly.
  await s.etcd.compact(s.control.revision).catch(() => {})
}

export class Schedule {
  readonly #s: Scenario
  readonly #options: ScheduleOptions
  #fault: Promise<void> | null = null
  readonly #paused = new Set<RecordedWatch>()
  readonly #lists: Promise<void>[] = []
  #revision: Revision
  faults = 0
  writes = 0
  /** Answers to lists that no contract allows. */
  readonly unexpected: string[] = []

  constructor(s: Scenario, options: ScheduleOptions) {
    this.#s = s
    this.#options = options
    this.#revision = s.cacheRevision
  }

  /**
   * How much fits into the time depends on the seed and the machine; members take seconds to notice a partition, and to
   * heal.
   *
   * @param least the minimum to do, however long it takes.
   */
  async run(durationMs: number, least = { faults: 0, writes: 0 }): Promise<void> {
    const end = performance.now() + durationMs
    const isEnough = (): boolean => this.faults >= least.faults && this.writes >= least.writes
    while (performance.now() < end || !isEnough()) await this.step()
  }

  async step(): Promise<void> {
    const choice = this.#s.random.next()
    if (choice < 0.5) await this.#write()
    else if (choice < 0.72) this.#watch()
    else if (choice < 0.77) this.#running()?.destroy()
    else if (choice < 0.81) this.#pause()
    else if (choice < 0.86) this.#unpause()
    else if (choice < 0.93) this.#list()
    else if (choice < 0.96) this.#breakSomething()
    else await pause(randomInteger(this.#s.random, 0, 15))
  }

  /** Ends what the schedule began, and then the scenario. @returns the last revision. */
  async settle(): Promise<Revision> {
    await this.#fault
    for (const watch of this.#paused) watch.unpause()
    for (const member of this.#s.members) await member.kill('SIGCONT')
    await Promise.all(this.#lists)
    return await this.#s.settle()
  }

  async #write(): Promise<void> {
    const { writer } = this.#s
    const revision = await Promise.race([writer.tryCommit(this.#s.randomChange()), pause(200)])
    if (revision === null || revision === undefined) return
    this.writes++
    if (revision > this.#revision) this.#revision = revision
  }

  #breakSomething(): void {
    if (this.#fault !== null) return
    this.faults++
    this.#fault = this.#s
      .pick(this.#s.peers === null ? faults : [...faults, ...peerFaults])(this.#s)
      .finally(() => {
        this.#fault = null
      })
  }

  #watch(): void {
    const { recorder, random } = this.#s
    if (recorder.watches.filter(({ end }) => end === 'open').length >= this.#options.watchersAtOnce) return
    const ended = recorder.watches.slice(-200).filter(({ end }) => end === 'cut' || end === 'eof')
    const again = ended[randomInteger(random, 0, Math.max(0, ended.length - 1))]
    if (again !== undefined && random.next() < 0.5) {
      recorder.resume(again, random.next() < 0.5 ? 'bookmark' : 'event')
      return
    }
    const scope = this.#s.pick(scopes)
    const offset = String(Math.max(1, this.#revision + randomInteger(random, -100, 100)))
    const choice = random.next()
    if (choice < 0.45) recorder.watch({ ...scope, resourceVersion: offset })
    else if (choice < 0.7) recorder.watch({ ...scope, sendInitialEvents: true })
    else if (choice < 0.8) recorder.watch({ ...scope, resourceVersion: '0' })
    else if (choice < 0.9) recorder.watch({ ...scope, resourceVersion: '0', allowWatchBookmarks: false })
    else recorder.watch({ ...scope, sendInitialEvents: true, timeoutSeconds: 1 })
  }

  #running(): RecordedWatch | undefined {
    const open = this.#s.recorder.watches.filter(({ end }) => end === 'open')
    return open.length === 0 ? undefined : this.#s.pick(open)
  }

  #pause(): void {
    const watch = this.#running()
    if (watch === undefined) return
    watch.pause()
    this.#paused.add(watch)
  }

  #unpause(): void {
    const [watch] = this.#paused
    if (watch === undefined) return
    watch.unpause()
    this.#paused.delete(watch)
  }

  #list(): void {
    const { random, recorder } = this.#s
    const scope = this.#s.pick(scopes)
    const resourceVersion = String(Math.max(1, this.#revision - randomInteger(random, 0, 50)))
    const limit = randomInteger(random, 1, 20)
    const request = this.#s.pick([
      scope,
      { ...scope, resourceVersion: '0' },
      { ...scope, resourceVersion, resourceVersionMatch: 'NotOlderThan' as const },
      { ...scope, limit },
      { ...scope, resourceVersion, resourceVersionMatch: 'Exact' as const },
    ])
    const list = recorder.list(request).then(
      () => {},
      (error: unknown) => {
        // Correct answers to a list at a compacted revision, or while the storage is down; any other is not.
        if (error instanceof ListError && [410, 429, 504].includes(error.status)) return
        this.unexpected.push(String(error))
      },
    )
    this.#lists.push(list)
  }
}
