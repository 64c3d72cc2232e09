/** What the harness repeats, and the process in which it measures. */
import type { Test } from 'tap'
import type { Counts } from './probe.js'

/** Something that a server or a client does again and again, and that may leave nothing behind. */
export interface Activity<S> {
  readonly name: string
  /** @param i counts all repetitions, for names and values that must differ. */
  once(subject: S, i: number): Promise<unknown>
  /** Repetitions in a round. Default: 20. */
  readonly times?: number
  /** How many of them run at once. Default: 5. */
  readonly atOnce?: number
  /** Whether only the nightly run has time for it, since it waits or restarts others. */
  readonly isNightly?: true
}

/** What is measured; each group adds what its activities need. */
export interface Subject {
  /** Collects the garbage, and counts what is left. */
  count(): Promise<Counts>
  /** Writes a heap snapshot to a file; null where there are none. */
  readonly snapshot: ((path: string) => Promise<void>) | null
}

export interface ActivityGroup<S extends Subject = Subject> {
  readonly name: string
  /** Whether it needs what only Node has. */
  readonly needsNode?: true
  start(t: Test): Promise<S>
  readonly activities: readonly Activity<S>[]
}

/** Returns the group as one of any subject: the harness passes a subject only to the group that started it. */
export function group<S extends Subject>(one: ActivityGroup<S>): ActivityGroup {
  return one as unknown as ActivityGroup
}
