/**
 * A small, believable Kubernetes cluster for a first run without etcd. It has five nodes, six namespaces, about fifty
 * pods with their owners, services and a custom resource under `/registry`, and a few keys that are not objects. The
 * initial contents are in sample-cluster.json; a slow writer keeps changing them until it is stopped.
 */
import type { Key } from '../engine/model/event.js'
import { type Clock, systemClock } from '../support/clock.js'
import { readPackageFile } from '../support/package-file.js'
import { type Random, seededRandom } from '../support/random.js'
import type { SampleStore } from './sample-transaction.js'
import { SampleWriter } from './sample-writer.js'

export interface SampleClusterOptions {
  readonly clock?: Clock
  /** Default: the same changes on every run. */
  readonly random?: Random
  /** Whether to keep changing the store after filling it. Default: true. */
  readonly writes?: boolean
}

export interface SampleCluster {
  /** Stops writing; the contents stay. */
  stop(): void
}

/**
 * Each entry has exactly one of `object`, `text` and `base64`. The last two are for keys that are not Kubernetes
 * objects.
 */
interface Entry {
  readonly key: Key
  readonly object?: object
  readonly text?: string
  readonly base64?: string
}

/**
 * The time at which the file was written. All times in the file are shifted, so that they are as long before now as
 * they were before this time.
 */
const WRITTEN_AT = Date.parse('2026-06-01T12:00:00Z')

/** Fills the store at once, one key per revision, and starts writing. */
export function startSampleCluster(store: SampleStore, options: SampleClusterOptions = {}): SampleCluster {
  const { clock = systemClock, random = seededRandom(1), writes = true } = options
  for (const { key, object, text, base64 } of readEntries(clock.now())) {
    const value = object === undefined ? Buffer.from(text ?? base64!, text === undefined ? 'base64' : 'utf8') : null
    store.commit([{ type: 'put', key, value: value ?? Buffer.from(JSON.stringify(object)) }])
  }
  if (!writes) return { stop() {} }
  const writer = new SampleWriter(store, clock, random)
  return { stop: () => writer.stop() }
}

function readEntries(now: number): readonly Entry[] {
  const written = readPackageFile('src/sample/sample-cluster.json').toString('utf8')
  const moved = written.replace(
    /(?<=")(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{6})?Z(?=")/g,
    (_, seconds, fraction = '') => {
      const time = new Date(Date.parse(`${seconds as string}Z`) + now - WRITTEN_AT)
      return `${time.toISOString().slice(0, 19)}${fraction as string}Z`
    },
  )
  return JSON.parse(moved) as readonly Entry[]
}
