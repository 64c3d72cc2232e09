/**
 * Repeats an activity in rounds, and measures after each. What grows in every round, by a share of the repetitions,
 * never stops growing: what fills up to a limit, or warms up, has stopped before the last round.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pause } from '../support/until.js'
import type { Activity, Subject } from './activity.js'
import type { Counts } from './probe.js'
import { retainingPaths } from './retained-by.js'

/** Measured rounds: N, 2N and 3N repetitions. */
const ROUNDS = 3
/** Something that has grown in all of them is measured this often again before it counts as growth. */
const MORE_ROUNDS = 3
/** Grows with at least every fifth repetition. */
const SHARE = 0.2
/** Sums over all collections vary more, and grow with each repetition. */
const NOISE_OF_SUMS = 20
/** Sockets that close, timers that are due, answers under way: whatever differs by less is not counted. */
const NOISE = 4
/** Connections that have just ended are still open at the server for a while. */
const SETTLE_MS = 200
const SETTLE_AGAIN_MS = 4_000

/** The longest that one repetition may take. */
const ONCE_MS = 120_000

/**
 * A repetition counts as failed after so many attempts. On a busy machine requests meet the shortened deadlines and a
 * client's limits (408, 429, connections that end), and clients try again.
 */
const ATTEMPTS = 3
const AGAIN_MS = 1_000

const TIMES = 20
const AT_ONCE = 5

export interface Growth {
  readonly kind: string
  /** After each round. */
  readonly counts: readonly number[]
}

export interface Judged {
  readonly growths: readonly Growth[]
  readonly paths: readonly string[]
}

export class Rounds<S extends Subject> {
  readonly #subject: S
  #done = 0
  /** Failed attempts of the last activity that were repeated. */
  repeated = 0

  constructor(subject: S) {
    this.#subject = subject
  }

  async judge(activity: Activity<S>): Promise<Judged> {
    this.repeated = 0
    // The first repetitions compile code and fill caches.
    await this.#repeat(activity)
    const rounds: Counts[] = []
    let growing: readonly Growth[] = []
    for (let round = 0; round < ROUNDS + MORE_ROUNDS; round++) {
      if (round >= ROUNDS && growing.length === 0) return { growths: [], paths: [] }
      if (round > 0) await this.#repeat(activity)
      await pause(round >= ROUNDS ? SETTLE_AGAIN_MS : SETTLE_MS)
      rounds.push(await this.#subject.count())
      if (round >= ROUNDS - 1) growing = grown(rounds, activity.times ?? TIMES)
    }
    if (growing.length === 0) return { growths: [], paths: [] }
    return { growths: growing, paths: await this.#paths(activity, growing) }
  }

  async #repeat(activity: Activity<S>): Promise<void> {
    const end = this.#done + (activity.times ?? TIMES)
    const lane = async (): Promise<void> => {
      while (this.#done < end) await this.#once(activity)
    }
    await Promise.all(Array.from({ length: activity.atOnce ?? AT_ONCE }, lane))
  }

  async #once(activity: Activity<S>): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await within(activity.once(this.#subject, this.#done++))
      } catch (error) {
        if (attempt === ATTEMPTS) throw error
        this.repeated++
        await pause(AGAIN_MS)
      }
    }
  }

  /** Compares two heap snapshots around one more round. */
  async #paths(activity: Activity<S>, growths: readonly Growth[]): Promise<readonly string[]> {
    const { snapshot } = this.#subject
    if (snapshot === null) return []
    const folder = mkdtempSync(join(tmpdir(), 'distributary-heaps-'))
    try {
      const files = [join(folder, '1.heapsnapshot'), join(folder, '2.heapsnapshot')] as const
      await snapshot(files[0])
      await this.#repeat(activity)
      await pause(SETTLE_AGAIN_MS)
      await snapshot(files[1])
      return retainingPaths(
        ...files,
        growths.map(({ kind }) => kind),
      )
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

/** @throws Error when it takes too long: the others still run. */
async function within(once: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${ONCE_MS} ms`)), ONCE_MS)
  })
  await Promise.race([once, late]).finally(() => clearTimeout(timer))
}

/** What has grown in every round. */
function grown(rounds: readonly Counts[], times: number): Growth[] {
  const least = (kind: string): number =>
    /^(keys|elements|entries|lines) of/.test(kind) ? Math.max(NOISE_OF_SUMS, times) : Math.max(NOISE, times * SHARE)
  return Object.keys(rounds.at(-1)!)
    .map((kind) => ({ kind, counts: rounds.map((counts) => counts[kind] ?? 0) }))
    .filter(({ kind, counts }) =>
      counts.every((count, round) => round === 0 || count - counts[round - 1]! >= least(kind)),
    )
    .sort((a, b) => b.counts.at(-1)! - b.counts[0]! - (a.counts.at(-1)! - a.counts[0]!))
}
