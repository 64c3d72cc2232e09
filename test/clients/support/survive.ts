/** What every client that follows changes has to show: through all disruptions it holds what a fresh list holds, and lists once. */
import type { Test } from 'tap'
import { until } from '../../support/until.js'
import { disruptions, momentAfter, type Stage } from './stage.js'

export interface Following {
  /** Of the User-Agent that the client sends. */
  readonly userAgent: RegExp
  /** What it has written, for a person who looks for the reason of a failure. */
  printed(): string
  /** What it holds, a line for each object, in any order. */
  held(): Promise<readonly string[]>
  /** The same of what the server lists. */
  listed(): Promise<readonly string[]>
}

/** How long a client may take; some wait for half a minute before they connect again. */
const WITHIN_MS = 90_000

export async function surviveDisruptions(t: Test, stage: Stage, client: Following): Promise<void> {
  const compare = async (moment: string): Promise<void> => {
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
  const lists = (): readonly string[] =>
    stage
      .answered()
      .filter(({ userAgent, verb, code }) => verb === 'list' && code === 200 && client.userAgent.test(userAgent))
      .map(({ path }) => path)
      .toSorted()
  await stage.write('first')
  await compare('first')
  const atTheStart = lists()
  t.ok(atTheStart.length > 0, `it has listed ${atTheStart.join(' ')}`)
  for (const disruption of disruptions) {
    await disruption.disrupt(stage)
    const moment = momentAfter(disruption)
    await stage.write(moment)
    await compare(moment)
    t.same(lists(), atTheStart, `${moment}: it has not listed again`)
  }
}

interface Listed {
  readonly items: readonly { readonly metadata: { readonly name: string; readonly labels?: Record<string, string> } }[]
}

/** A line for each object of several kinds: the name of its kind, its own and its turn. @param kinds the path of each, by name. */
export async function listKinds(stage: Stage, kinds: Readonly<Record<string, string>>): Promise<readonly string[]> {
  const all = await Promise.all(
    Object.entries(kinds).map(async ([kind, path]) =>
      (await list(stage, path)).items.map(({ metadata: { name, labels } }) => `${kind} ${name} ${labels?.['turn']}`),
    ),
  )
  return all.flat()
}

/** Lists a path of the API as a client of its own would. */
export async function list<T = Listed>(stage: Stage, path: string, token?: string): Promise<T> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const response = await fetch(stage.url + path, { headers })
  if (!response.ok) throw new Error(`${path}: ${response.status}`)
  return (await response.json()) as T
}
