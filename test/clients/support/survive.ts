/**
 * The test for every client that follows changes: through all disruptions its state matches a fresh list, and it lists
 * only once.
 */
import type { Test } from 'tap'
import { until } from '../../support/until.js'
import { disruptions, momentAfter } from './disruptions.js'
import type { Stage } from './stage.js'

export interface Following {
  /** Matches the client's User-Agent. */
  readonly userAgent: RegExp
  /** Whether the client gets its initial list from a watch. */
  readonly streams?: boolean
  /** The disruptions after which the client lists again, whatever the server does. */
  readonly relistsAfter?: readonly string[]
  /** The client's output, for diagnosing a failure. */
  printed(): string
  /** The client's state, one line per object, in any order. */
  held(): Promise<readonly string[]>
  /** The same lines, from the server's list. */
  listed(): Promise<readonly string[]>
  /** The token of a caller who may read everything, where callers are authenticated. */
  readonly token?: string
}

/** The time limit for a client; some wait half a minute before they reconnect. */
const WITHIN_MS = 90_000
/** client-go relists after a watch that ends in its first second, no matter which side ends it. */
const SETTLED_MS = 1_500

/** Waits until the client holds what a fresh list holds, the object of that moment included. */
export async function compareWithList(t: Test, client: Following, moment: string): Promise<void> {
  let held: readonly string[] = []
  let listed: readonly string[] = []
  const isEqual = async (): Promise<boolean> => {
    listed = (await client.listed()).toSorted()
    held = (await client.held()).toSorted()
    return held.join('\n') === listed.join('\n')
  }
  try {
    await until(isEqual, `${moment}: it holds what a fresh list holds`, WITHIN_MS)
  } catch (error) {
    t.comment(client.printed())
    t.same(held, listed)
    throw error
  }
  t.ok(
    listed.some((line) => line.includes(moment)),
    `${moment} is listed`,
  )
}

/** The pods of a fresh list as lines `NAME TURN`. @param none how the client prints that a label is absent. */
export async function podLines(stage: Stage, none = 'null'): Promise<readonly string[]> {
  const { items } = await list(stage, '/api/v1/pods')
  return items.map(({ metadata }) => `${metadata.name} ${metadata.labels?.['turn'] ?? none}`)
}

export async function surviveDisruptions(t: Test, stage: Stage, client: Following): Promise<void> {
  const compare = (moment: string): Promise<void> => compareWithList(t, client, moment)
  const lists = (): readonly string[] =>
    stage
      .answered()
      .filter(({ userAgent, verb, code }) => verb === 'list' && code === 200 && client.userAgent.test(userAgent))
      .map(({ path }) => path)
      .toSorted()
  await stage.write('first')
  await compare('first')
  let listed = lists()
  t.equal(listed.length > 0, client.streams !== true, `it has listed ${listed.join(' ')}`)
  let watches = 0
  for (const disruption of disruptions) {
    watches = await settledWatches(stage, watches, client.token)
    await disruption.disrupt(stage)
    const moment = momentAfter(disruption)
    await stage.write(moment)
    await compare(moment)
    if (client.relistsAfter?.includes(disruption.name) === true) listed = lists()
    t.same(lists(), listed, `${moment}: it has not listed again`)
  }
}

/** Writes a turn while no server runs, and compacts etcd before one starts, so that resumed watches get 410. */
export async function forgetEvents(stage: Stage, turn: string): Promise<void> {
  await stage.kill('SIGKILL')
  await stage.write(turn)
  const { header } = await stage.etcd.call('kv/range', { key: 'YQ==' })
  await stage.etcd.compact(Number((header as { revision: string }).revision))
  await stage.start()
}

/** Waits until at least this many watches run and none has started or ended for a while. @returns how many run. */
export async function settledWatches(stage: Stage, atLeast: number, token?: string): Promise<number> {
  let running = 0
  let ended = 0
  let sinceMs = 0
  const areSettled = async (): Promise<boolean> => {
    const text = await (await ask(stage, '/metrics', token)).text()
    const now = [
      sumOf(text, 'distributary_broadcast_watchers'),
      sumOf(text, 'distributary_broadcast_watchers_ended_total'),
    ]
    if (now[0] !== running || now[1] !== ended) sinceMs = performance.now()
    ;[running = 0, ended = 0] = now
    return running > 0 && running >= atLeast && performance.now() - sinceMs >= SETTLED_MS
  }
  await until(areSettled, () => `of ${atLeast} watches ${running} run, and none begins or ends`, WITHIN_MS)
  return running
}

/** Sums the series of a metric. */
function sumOf(exposition: string, metric: string): number {
  const series = exposition.matchAll(new RegExp(`^${metric}\\{[^\n]*\\} (\\S+)$`, 'gm'))
  return [...series].reduce((sum, [, value]) => sum + Number(value), 0)
}

interface Listed {
  readonly items: readonly { readonly metadata: { readonly name: string; readonly labels?: Record<string, string> } }[]
}

/**
 * Returns one line for each object of several kinds: the name of the kind, the name of the object, and its turn.
 * @param kinds the path of each kind, by the kind's name.
 */
export async function listKinds(stage: Stage, kinds: Readonly<Record<string, string>>): Promise<readonly string[]> {
  const all = await Promise.all(
    Object.entries(kinds).map(async ([kind, path]) =>
      (await list(stage, path)).items.map(({ metadata: { name, labels } }) => `${kind} ${name} ${labels?.['turn']}`),
    ),
  )
  return all.flat()
}

/** Lists a path of the API as an independent client. */
export async function list<T = Listed>(stage: Stage, path: string, token?: string): Promise<T> {
  return (await (await ask(stage, path, token)).json()) as T
}

async function ask(stage: Stage, path: string, token?: string): Promise<Response> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const response = await fetch(stage.url + path, { headers })
  if (!response.ok) throw new Error(`${path}: ${response.status}`)
  return response
}
