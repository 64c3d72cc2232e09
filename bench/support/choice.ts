/** The choices of the command line, and the subjects that they name. */
import { execFileSync } from 'node:child_process'
import { apiServerSubject } from '../subjects/api-server.js'
import { bareNodeSubject } from '../subjects/bare-node.js'
import { distributarySubject } from '../subjects/distributary.js'
import { etcdSubject } from '../subjects/etcd.js'
import { grpcProxySubject } from '../subjects/grpc-proxy.js'
import { limitSubject } from '../subjects/limit.js'
import type { Runtime, SubjectKind } from '../subjects/subject.js'
import { runtimeProgram } from '../../test/support/runtime-program.js'
import { hasOpenssl } from './native.js'
import type { BenchResource } from './objects.js'
import type { Recorder } from './record.js'

export interface Choice {
  readonly recorder: Recorder
  /** Whether to run a small version of the question, which takes seconds instead of minutes. */
  readonly quick: boolean
  /** Each is `name`, `name/wire` or `distributary@RUNTIME`. Empty for the question's own subjects. */
  readonly subjects: readonly string[]
  readonly watchers: readonly number[]
  /** The number of nodes in the simulated cluster. */
  readonly nodes?: number | undefined
  /** Rates in events per second; 0 means saturated. */
  readonly rates: readonly number[]
  readonly seconds?: number | undefined
  /** How often the subjects take turns; by default what the question has. */
  readonly rounds?: number | undefined
  /** Shapes of the writes while agents watch, by their names in `support/agents.ts`. Empty for all. */
  readonly shapes: readonly string[]
  /** The part of a published load that is measured. */
  readonly scale?: number | undefined
  /** The resource that is written and watched. */
  readonly resource: BenchResource
  readonly apiServer?: string | undefined
  readonly nodeFlags: readonly string[]
  readonly serverFlags: readonly string[]
  /** Only known-bad requests whose names contain one of these texts are sent. Empty for all. */
  readonly requests: readonly string[]
}

export type Question = (choice: Choice) => Promise<void>

export interface Target {
  readonly kind: SubjectKind
  readonly wire: string
  /** The runtime of our own server. Default: the Node that runs the bench. */
  readonly runtime?: Runtime
}

const kinds: readonly SubjectKind[] = [
  distributarySubject,
  etcdSubject,
  grpcProxySubject,
  apiServerSubject,
  limitSubject,
  bareNodeSubject,
]

/** Returns the question's subjects, or the chosen ones, except those that this machine or build lacks. */
export function targets(choice: Choice, usual: readonly string[]): Target[] {
  const asked = choice.subjects.length > 0 ? choice.subjects : usual
  return asked.flatMap((text) => {
    const [named = '', wire] = text.split('/')
    const [name, runtimeName] = named.split('@')
    const runtime = runtimeName === undefined ? undefined : runtimeNamed(runtimeName)
    if (runtime === null) return []
    const kind = kinds.find((one) => one.name === name)
    if (!kind) throw new Error(`no subject ${name}; there are ${kinds.map((one) => one.name).join(', ')}`)
    const wires = wire === undefined ? kind.wires : [wire]
    return wires.flatMap((wire) => {
      const isPossible = kind.isAvailable(choice) && (hasOpenssl() || !wire.endsWith('-tls'))
      if (!isPossible && choice.subjects.length > 0)
        process.stderr.write(`bench: ${kind.name}/${wire} is left out: not available here\n`)
      return isPossible ? [{ kind, wire, ...(runtime === undefined ? {} : { runtime }) }] : []
    })
  })
}

/**
 * @param name a Node version such as `24`, or `bun`. @returns null, after printing the reason, if it is not available.
 */
function runtimeNamed(name: string): Runtime | null {
  const isBun = name === 'bun'
  const program = isBun ? runtimeProgram('bun', '1') : runtimeProgram('node', name)
  if (program === null) return null
  const version = execFileSync(program, ['--version']).toString().trim().replace(/^v/, '')
  return { name: `${isBun ? 'Bun' : 'Node'} ${version}`, program }
}

/** Runs one row. If it fails, it is reported and recorded as failed, and the run continues. */
export async function attempt(
  choice: Choice,
  row: { readonly question: string; readonly subject: string; readonly wire: string },
  measure: () => Promise<void>,
): Promise<void> {
  process.stderr.write(`bench: ${row.question} ${row.subject}/${row.wire} …\n`)
  try {
    await measure()
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    process.stderr.write(`bench: ${message}\n`)
    choice.recorder.row({ ...row, failed: message.slice(0, 500) })
    process.exitCode = 1
  }
}
