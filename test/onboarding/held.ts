/** Compares what an agent holds with what the API server has. */
import type { Test } from 'tap'
import { pause, until } from '../support/until.js'
import { type Agent, podsOf, type RunningAgent, WITHIN_MS, type World } from './agent.js'

/** All agents are polled continuously, on a machine that they share. */
const POLL_MS = 250

export type Started = Agent & RunningAgent

/** Waits until the agent holds what the API server has. Fails if it ends, or does not in time. */
export async function compareOne(t: Test, world: World, moment: string, agent: Started): Promise<void> {
  const { name, held, printed, hasEnded, expected = podsOf } = agent
  let lines: readonly [readonly string[], readonly string[]] = [[], []]
  const isSettled = async (): Promise<boolean> => {
    const found: readonly string[] = await held().catch((error: unknown) => [String(error)])
    const wanted: readonly string[] = await expected(world)
    lines = [found.toSorted(), wanted.toSorted()]
    if (lines[0].join('\n') === lines[1].join('\n') || hasEnded?.() === true) return true
    await pause(POLL_MS)
    return false
  }
  await until(isSettled, 'it holds what the API server has', WITHIN_MS).catch(() => t.comment(printed()))
  if (hasEnded?.() === true) t.fail(`${moment}: ${name} has ended`, { printed: printed() })
  t.same(lines[0], lines[1], `${moment}: ${name} holds what the API server has`)
}
