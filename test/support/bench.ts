/** Runs the benchmark in its own process. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const program = fileURLToPath(new URL('../../bench/run.js', import.meta.url))

export type BenchRow = Record<string, unknown>

/** Returns its rows. @throws Error with its output when it fails. */
export function bench(...flags: string[]): Promise<BenchRow[]> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [program, ...flags], { cwd: root }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${stdout}\n${stderr}`, { cause: error }))
      else resolve(stdout.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as BenchRow] : [])))
    })
  })
}
