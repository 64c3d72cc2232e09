/**
 * A plain watch of etcd through the same broken network as the server's: it records what any client of this etcd would
 * have received. Events that it misses without an error were lost by etcd.
 *
 * It resumes after its last revision, as etcd allows; where that is compacted, it starts over with a new record.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Key } from '../../src/engine/model/event.js'
import { type EtcdHistoryRecorder, recordEtcdHistory } from '../support/etcd-history.js'
import type { EtcdProcess } from '../support/etcd-process.js'
import type { FaultProxy } from '../support/fault-proxy.js'
import type { WatchRecord } from '../support/history.js'

const LOOK_MS = 200

export class ControlBesideUs {
  readonly #t: Pick<Test, 'teardown'>
  readonly #etcd: Pick<EtcdProcess, 'url' | 'call'>
  readonly #recorders: EtcdHistoryRecorder[] = []
  #isClosed = false
  #running: Promise<void> = Promise.resolve()

  constructor(t: Pick<Test, 'teardown'>, member: EtcdProcess, proxy: FaultProxy) {
    this.#t = t
    this.#etcd = { url: `http://127.0.0.1:${proxy.port}`, call: (path, body) => member.call(path, body) }
  }

  start(): void {
    this.#running = this.#run()
  }

  /** The records: one for each time that the watch had to start over. */
  records(prefix: Key): WatchRecord[] {
    return this.#recorders.map((recorder, i) => ({
      ...recorder.control(prefix),
      name: `etcd itself, through the same faults, ${i + 1}`,
    }))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const recorder of this.#recorders) recorder.close()
    await this.#running
  }

  async #run(): Promise<void> {
    while (!this.#isClosed) {
      const last = this.#recorders.at(-1)
      if (last === undefined || last.failure !== null) await this.#begin()
      await delay(LOOK_MS)
    }
  }

  async #begin(): Promise<void> {
    try {
      // A connection that stalls while it is opened is abandoned, as any client would do.
      const begun = await Promise.race([recordEtcdHistory(this.#t, this.#etcd), delay(5_000, null)])
      if (begun === null) return
      this.#recorders.push(begun)
      if (this.#isClosed) begun.close()
    } catch {
      // etcd is down, or has compacted in the meantime.
    }
  }
}
