/**
 * Which test files share a process, and which processes run in parallel.
 *
 * Starting Node and loading tap and the server takes a second of processor time, more than most files need themselves,
 * so several files share a process. Processes run in two lanes, each with one more process than there are processors:
 * most files keep a processor busy; those that start real servers have the second lane, since they mostly wait for
 * these (for a lease, a timeout or an election), and would otherwise occupy a processor that they do not use.
 *
 * What a file starts is read from its sources, so no list of names has to be kept.
 */
import { availableParallelism } from 'node:os'
import { readSource, sourcesOf } from './imports.js'

export interface Lane {
  /** The files of one process, in order. */
  readonly groups: readonly (readonly string[])[]
  /** How many groups run at once. */
  readonly jobs: number
}

/** What a test file's text and its sources say about how it runs. */
export interface Traits {
  /** The number of its sources. A file that loads the whole server takes longer than one that loads a parser. */
  readonly sources: number
  /** It starts real servers, which do most of its work in their own processes or wait for leases and elections. */
  readonly waits: boolean
  /** It needs a process of its own, because it measures memory, changes the environment or runs its tests side by side. */
  readonly isAlone: boolean
}

const SERVERS = ['test/support/etcd-process.ts', 'test/support/nats-process.ts']
const NEEDS_OWN_PROCESS = /memoryUsage\b|memoryAfterCollection\(|Object\.assign\(process\.env|^t\.jobs = /m

export function traitsOf(file: string): Traits {
  const sources = sourcesOf([file])
  return {
    sources: sources.size,
    waits: SERVERS.some((source) => sources.has(source)),
    isAlone: NEEDS_OWN_PROCESS.test(readSource(file)),
  }
}

/**
 * If the process dies, the files after the one at fault are lost; and the last process of a run should not run alone
 * for long.
 */
const FILES_IN_PROCESS = 8
/** Fewer, since they take long. */
const WAITING_FILES_IN_PROCESS = 4

/** The lanes of a run. Within each, the files with most sources begin first, so that none runs alone at the end. */
export function schedule(
  files: readonly string[],
  processors = availableParallelism(),
  traits: (file: string) => Traits = traitsOf,
): Lane[] {
  const known = files.map((file) => ({ file, ...traits(file) })).sort((a, b) => b.sources - a.sources)
  const lanes = [
    groupFiles(
      known.filter(({ waits }) => !waits),
      FILES_IN_PROCESS,
    ),
    groupFiles(
      known.filter(({ waits }) => waits),
      WAITING_FILES_IN_PROCESS,
    ),
  ]
  return lanes.filter((groups) => groups.length > 0).map((groups) => ({ groups, jobs: processors + 1 }))
}

/** Groups keep the files' order, and are ordered by their first file. */
function groupFiles(files: readonly (Traits & { readonly file: string })[], atMost: number): string[][] {
  const groups: string[][] = []
  let open: string[] | null = null
  for (const { file, isAlone } of files) {
    if (isAlone) {
      groups.push([file])
      continue
    }
    if (open === null || open.length >= atMost) groups.push((open = []))
    open.push(file)
  }
  return groups
}
