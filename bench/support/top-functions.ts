/** Self time by function from a `--cpu-prof` file, the longest first: where the server's CPU goes. */
import { readFileSync } from 'node:fs'

interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number }
  }[]
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
}

export interface FunctionTime {
  readonly name: string
  readonly selfMs: number
  /** The share of the time that was not idle. */
  readonly share: number
}

export function topFunctions(path: string, count: number): FunctionTime[] {
  const profile = JSON.parse(readFileSync(path, 'utf8')) as CpuProfile
  const names = new Map(
    profile.nodes.map(({ id, callFrame: { functionName, url, lineNumber } }) => [
      id,
      `${functionName === '' ? '(anonymous)' : functionName} ${url.split('/').slice(-2).join('/')}${url === '' ? '' : `:${lineNumber + 1}`}`,
    ]),
  )
  const micros = new Map<string, number>()
  let busy = 0
  for (const [index, id] of profile.samples.entries()) {
    const name = names.get(id) ?? 'unknown'
    const delta = profile.timeDeltas[index] ?? 0
    if (name.startsWith('(idle)')) continue
    busy += delta
    micros.set(name, (micros.get(name) ?? 0) + delta)
  }
  return [...micros]
    .sort((a, b) => b[1] - a[1])
    .slice(0, count)
    .map(([name, time]) => ({ name, selfMs: time / 1000, share: time / busy }))
}
