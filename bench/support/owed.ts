/**
 * The changes that agents should have received when the bench is not the writer: all changes in etcd's own history to
 * what they watch, read after the measurement.
 */
import { request } from 'node:http'
import { decodeObject } from '../../src/kubernetes/codec/protobuf/decode.js'
import { kubernetesSchema } from '../../src/kubernetes/codec/protobuf/schema.js'
import { LineSplitter } from '../../test/support/json-lines.js'
import { type AfterEach, WATCHES_OF_AGENT, WIDE_AGENTS } from './agents.js'
import type { WatchedVersions } from './watchers.js'

export interface OwedChange {
  readonly revision: number
  readonly key: string
  readonly isDelete: boolean
  /** The index of the watch among an agent's watches. */
  readonly watch: number
  /** The node of a pod; null for other objects. */
  readonly node: string | null
}

/** The prefixes in the order of an agent's watches. */
const PREFIXES = ['/registry/pods/', '/registry/services/specs/', '/registry/endpointslices/', '/registry/minions/']
const PODS = 0
const READ_MS = 60_000

interface WatchLine {
  readonly result?: { readonly canceled?: boolean; readonly cancel_reason?: string; readonly events?: readonly Event[] }
}

interface Event {
  /** Not there for a put. */
  readonly type?: 'DELETE'
  readonly kv: KeyValue
  readonly prev_kv?: KeyValue
}

interface KeyValue {
  readonly key: string
  readonly value?: string
  readonly mod_revision: string
}

/** Returns the changes after one revision, up to another one that etcd has reached. */
export function owedChanges(etcdPort: number, after: number, until: number): Promise<OwedChange[]> {
  if (after >= until) return Promise.resolve([])
  const schema = kubernetesSchema()
  const changes: OwedChange[] = []
  const nodeOf = ({ kv, prev_kv: before }: Event): string | null => {
    const value = Buffer.from(kv.value ?? before?.value ?? '', 'base64')
    const pod = JSON.parse(decodeObject(value, schema).bytes.toString()) as { spec: { nodeName?: string } }
    return pod.spec.nodeName ?? null
  }
  return new Promise((resolve, reject) => {
    const everyKey = { key: 'AA==', range_end: 'AA==' }
    const body = { create_request: { ...everyKey, start_revision: String(after + 1), prev_kv: true } }
    const options = { host: '127.0.0.1', port: etcdPort, path: '/v3/watch', method: 'POST', agent: false as const }
    const watch = request(options, (answer) => {
      const lines = new LineSplitter((line) => {
        const { result } = JSON.parse(line) as WatchLine
        if (result?.canceled) watch.destroy(new Error(`etcd: ${result.cancel_reason ?? line}`))
        for (const event of result?.events ?? []) {
          const revision = Number(event.kv.mod_revision)
          if (revision > until) break
          const key = Buffer.from(event.kv.key, 'base64').toString()
          const kind = PREFIXES.findIndex((prefix) => key.startsWith(prefix))
          if (kind === -1) continue
          const node = kind === PODS ? nodeOf(event) : null
          changes.push({ revision, key, isDelete: event.type === 'DELETE', watch: kind, node })
        }
        if (Number(result?.events?.at(-1)?.kv.mod_revision ?? 0) >= until) {
          resolve(changes)
          watch.destroy()
        }
      })
      answer.on('data', (chunk: Buffer) => lines.push(chunk))
      answer.on('error', reject)
    })
    watch.setTimeout(READ_MS, () => watch.destroy(new Error(`etcd's history to ${until} did not come`)))
    watch.on('error', reject)
    watch.end(JSON.stringify(body))
  })
}

export interface Owing {
  /** The revisions from which the first watches started. Watches without a list should receive everything after them. */
  readonly after: AfterEach
  readonly until: number
  /** Whether the server may send a difference in place of changes that its upstream no longer has. Default: false. */
  readonly coalesces?: boolean
}

/**
 * Returns the first watch that did not receive every event that it should, once and in order; null if there is none.
 */
export function firstFault(
  watches: readonly WatchedVersions[],
  changes: readonly OwedChange[],
  { after, until, coalesces = false }: Owing,
): string | null {
  const narrow = grouped(changes, ({ watch, node }) => `${watch} ${node}`)
  const wide = grouped(changes, ({ watch }) => watch)
  for (const [i, { listed, versions }] of watches.entries()) {
    const [agent, watch] = [Math.floor(i / WATCHES_OF_AGENT), i % WATCHES_OF_AGENT]
    const isWide = watch !== PODS || agent % WIDE_AGENTS === WIDE_AGENTS - 1
    const all = (isWide ? wide.get(watch) : narrow.get(`${watch} n${agent}`)) ?? []
    const owed = all.filter(({ revision }) => revision > (listed ?? after[watch]!))
    const received = versions.filter((version) => version <= until)
    const fault = coalesces ? faultOfDifference(received, owed) : faultOfChanges(received, owed)
    if (fault !== null)
      return `agent ${agent}, watch ${watch}${listed === null ? '' : `, listed at ${listed}`}: ${fault}`
  }
  return null
}

function faultOfChanges(received: readonly number[], owed: readonly OwedChange[]): string | null {
  const at = owed.findIndex(({ revision }, index) => received[index] !== revision)
  if (at !== -1) return `${received[at]} in place of ${owed[at]!.revision}, the ${at + 1}th of ${owed.length}`
  return received.length > owed.length ? `${received[owed.length]} after all that it is owed` : null
}

/**
 * The last version of each object is owed, and no change twice or out of order. An object that is gone may have any
 * later version, that of the list that lacked it.
 */
function faultOfDifference(received: readonly number[], owed: readonly OwedChange[]): string | null {
  const known = new Set(owed.map(({ revision }) => revision))
  const disordered = received.findIndex((version, i) => version < (received[i - 1] ?? 0))
  if (disordered !== -1) return `${received[disordered]} after ${received[disordered - 1]}`
  const twice = received.find((version, i) => known.has(version) && received[i - 1] === version)
  if (twice !== undefined) return `${twice} twice`
  const unknown = received.filter((version) => !known.has(version))
  if (unknown.length > owed.filter(({ isDelete }) => isDelete).length) return `${unknown.join(' and ')} are not owed`
  const last = new Map(owed.map((change) => [change.key, change]))
  const lost = [...last.values()].find(({ isDelete, revision }) => !isDelete && !received.includes(revision))
  return lost === undefined ? null : `${lost.revision}, the last version of ${lost.key}, is missing`
}

function grouped<K>(changes: readonly OwedChange[], keyOf: (change: OwedChange) => K): Map<K, OwedChange[]> {
  const groups = new Map<K, OwedChange[]>()
  for (const change of changes) {
    const group = groups.get(keyOf(change))
    if (group === undefined) groups.set(keyOf(change), [change])
    else group.push(change)
  }
  return groups
}
