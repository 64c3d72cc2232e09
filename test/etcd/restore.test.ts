/**
 * A newer etcd restored to an older state, in each of the three usual ways, under a server that stays connected and
 * keeps receiving requests. The restored state takes over as a whole: nobody reads a mixture of two states or part of
 * one, and no consistent read misses a write acknowledged after the restore.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { ends, type Scenario, startScenario } from '../fault/scenario.js'
import { assertGuarantees } from '../guarantees/validate.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'

const PODS = 100
const STATE_KEYS = Array.from({ length: PODS }, (_, i) => `/registry/pods/c/p${i}`)

interface Item {
  readonly metadata: { readonly name: string; readonly labels?: { readonly era?: string } }
}

interface Way {
  save(s: Scenario, path: string): Promise<void>
  restore(s: Scenario, path: string): Promise<void>
}

const ways: Record<string, Way> = {
  'a snapshot': {
    save: async ({ etcd }, path) => await etcd.saveSnapshot(path),
    restore: async ({ etcd }, path) => await etcd.restoreSnapshot(path),
  },
  'a copy of the data': {
    save: async ({ etcd }, path) => await etcd.saveData(path),
    restore: async ({ etcd }, path) => await etcd.restoreData(path),
  },
  'a snapshot with its revision bumped': {
    save: async ({ etcd }, path) => await etcd.saveSnapshot(path),
    restore: async ({ etcd }, path) =>
      await etcd.restoreSnapshot(path, undefined, ['--bump-revision', '1000000', '--mark-compacted']),
  },
}

/** Returns every pod of the state, for a write in a single revision. */
function stateOf(era: string): Record<string, object> {
  return Object.fromEntries(STATE_KEYS.map((key, i) => [key, pod(`p${i}`, { namespace: 'c', labels: { era } })]))
}

/** Reads continuously until it is stopped, and records violations. */
class Reader {
  readonly violations: string[] = []
  /** The era of the newest whole state shown by a list at any revision. */
  era: string | null = null
  /** The last value shown by a consistent get of the one pod. */
  consistent: string | null = null
  /** The time from which consistent reads must show the write after the restore. */
  acknowledgedAt = Infinity
  #isStopped = false
  readonly #running: Promise<unknown>

  constructor(readonly url: string) {
    this.#running = Promise.all([this.#lists(), this.#gets()])
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#running
  }

  async #lists(): Promise<void> {
    while (!this.#isStopped) {
      const answer = await fetch(`${this.url}/api/v1/namespaces/c/pods?resourceVersion=0`)
      const { items } = (await answer.json()) as { items?: readonly Item[] }
      if (answer.status !== 200 || items === undefined) continue
      const state = items.filter(({ metadata }) => metadata.name !== 'x')
      const eras = new Set(state.map(({ metadata }) => metadata.labels?.era ?? ''))
      if (state.length !== PODS || eras.size !== 1) {
        this.violations.push(`a list has ${state.length} of ${PODS} pods, of ${[...eras].join(' and ')}`)
      }
      this.era = [...eras][0] ?? null
    }
  }

  async #gets(): Promise<void> {
    while (!this.#isStopped) {
      const askedAt = performance.now()
      const answer = await fetch(`${this.url}/api/v1/namespaces/c/pods/x`)
      const { metadata } = (await answer.json()) as Item
      const era = answer.status === 200 ? metadata.labels?.era : answer.status === 404 ? 'not there' : undefined
      if (era === undefined) continue
      if (askedAt > this.acknowledgedAt && era !== 'after') {
        this.violations.push(`a consistent get shows ${era} after the write was acknowledged`)
      }
      this.consistent = era
    }
  }
}

for (const [name, way] of Object.entries(ways)) {
  void t.test(
    `etcd continues from ${name}: the restored state replaces the old one, and consistent reads return it`,
    async (t) => {
      const s = await startScenario(t)
      const directory = await mkdtemp(join(tmpdir(), 'distributary-restore-'))
      t.teardown(() => rm(directory, { recursive: true, force: true }))
      const x = (era: string): Record<string, object> => ({
        '/registry/pods/c/x': pod('x', { namespace: 'c', labels: { era } }),
      })
      await s.writer.commit({ ...stateOf('first'), ...x('first') })
      await way.save(s, join(directory, 'backup'))
      await s.writer.commit({ ...stateOf('second'), ...x('second') }, 20_000)
      const watches = await s.watchAll()
      await s.settle()
      const before = await s.control.finish()
      const reader = new Reader(s.h.url)
      await until(() => reader.era === 'second' && reader.consistent === 'second', 'the later state is read')

      await way.restore(s, join(directory, 'backup'))
      await s.writer.commit(x('after'), 20_000)
      reader.acknowledgedAt = performance.now()
      await until(() => reader.era === 'first' && reader.consistent === 'after', 'the restored state is read')
      await reader.stop()
      t.same(reader.violations, [])
      await Promise.all(watches.map((watch) => watch.ended))
      // 410 from the replaced cache; 504 from a watch that was waiting for a revision that no longer exists.
      const kinds = ends(watches).map((end) => end.replace(/ ×\d+$/, ''))
      t.ok(
        kinds.every((end) => end === 'error 410' || end === 'error 504'),
        `every watcher must list again: ${kinds.join()}`,
      )
      assertGuarantees(t, s.recorder.history(), before)

      await s.forget()
      await s.watchAll()
      for (let i = 0; i < 10; i++) await s.write()
      await s.judge(t, await s.settle())
    },
  )
}
