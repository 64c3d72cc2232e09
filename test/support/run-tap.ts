/** Runs tap on some tests; reports each file in a line, and the failures of files that failed. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type Lane, schedule } from './schedule.js'
import { testPath } from './test-path.js'

export interface Outcome {
  readonly passed: number
  readonly failed: number
}

export interface RunOptions {
  /** How many files run at once. Default: one per processor, plus those that mostly wait (`schedule.ts`). */
  readonly jobs?: number
  /** The time limit of one file. Default: 300. */
  readonly seconds?: number
}

const root = fileURLToPath(new URL('../../../', import.meta.url))
/** From Node 22 on, tests and their servers reuse here what others have compiled. */
const compileCache = join(root, '.build', 'compile-cache')
const program = fileURLToPath(new URL('test-files.js', import.meta.url))

/** A file is a subtest of the run, or of its group's process. */
const FILE_BEGINS = /^(?: {4})?# Subtest: \S+\.test\.ts$/
const FILE_ENDED = /^(?: {4})?(ok|not ok) \d+ - (\S+\.test\.ts)(?: # time=([\d.]+)ms)?(?: \{)?$/
const GROUP_ENDED = /^(?:ok|not ok) \d+ - /

/** @param files sources of compiled tests, relative to the root. */
export async function runTap(files: readonly string[], options: RunOptions = {}): Promise<Outcome> {
  const { jobs, seconds = 300 } = options
  const lanes = jobs === undefined ? schedule(files) : [{ groups: files.map((file) => [file]), jobs }]
  const outcomes = await Promise.all(lanes.map((lane) => runLane(lane, seconds)))
  const passed = outcomes.reduce((sum, outcome) => sum + outcome.passed, 0)
  const failed = outcomes.reduce((sum, outcome) => sum + outcome.failed, 0)
  // A run without assertions is not green either.
  return { passed, failed: passed > 0 ? failed : Math.max(1, failed) }
}

async function runLane({ groups, jobs }: Lane, seconds: number): Promise<Outcome> {
  const child = spawn(
    process.execPath,
    [program, String(jobs), String(seconds), ...groups.map((files) => files.join(','))],
    {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { NODE_COMPILE_CACHE: compileCache, ...process.env, PATH: testPath },
    },
  )
  const stop = (): void => void child.kill('SIGTERM')
  process.once('SIGINT', stop).once('SIGTERM', stop)
  const closed = once(child, 'close') as Promise<[number | null]>
  const report = new TapReport((line) => process.stdout.write(`${line}\n`))
  for await (const line of createInterface({ input: child.stdout })) report.add(line)
  const [code] = await closed
  const { passed, failed } = report.outcome()
  return { passed, failed: code === 0 ? failed : Math.max(1, failed) }
}

/**
 * Turns raw TAP into a line per file, followed by its failures verbatim. tap's own reporters draw for a terminal and
 * are hard to read in a pipe.
 */
export class TapReport {
  readonly #print: (line: string) => void
  #pending: string[] = []
  #diagnosticIndent: string | null = null
  #hasFailed = false
  #counts: Outcome | null = null

  constructor(print: (line: string) => void) {
    this.#print = print
  }

  add(line: string): void {
    const result = FILE_ENDED.exec(line)
    if (result) this.#fileEnded(result[1] === 'ok', result[2]!, Number(result[3] ?? 0))
    else if (GROUP_ENDED.test(line)) this.#groupEnded(line)
    else if (line.startsWith('# {')) this.#counts = parseCounts(line)
    else if (line.startsWith('Bail out!')) this.#print(line)
    else if (FILE_BEGINS.test(line)) this.#hasFailed = false
    else if (this.#isWorthShowing(line)) {
      if (this.#hasFailed) this.#print(line)
      else this.#pending.push(line)
    }
  }

  /** A missing summary is a failure. */
  outcome(): Outcome {
    return this.#counts ?? { passed: 0, failed: 1 }
  }

  /**
   * For a group that failed as a whole, for example because its process died, the last output is shown; otherwise its
   * files have been reported.
   */
  #groupEnded(line: string): void {
    if (!line.startsWith('not ok')) return
    for (const waiting of this.#pending) this.#print(waiting)
    this.#print(line)
    this.#pending = []
    this.#diagnosticIndent = null
    this.#hasFailed = true
  }

  #fileEnded(isFine: boolean, name: string, milliseconds: number): void {
    // The output of a file that passed is shown only when it skipped something.
    const shown = isFine ? this.#pending.filter((line) => /^\s*(not )?ok .*# (skip|todo)/i.test(line)) : this.#pending
    for (const line of shown) this.#print(line)
    this.#print(`${isFine ? 'ok' : 'not ok'} ${name} (${(milliseconds / 1_000).toFixed(1)} s)`)
    this.#pending = []
    this.#diagnosticIndent = null
    // The diagnostics of the file itself follow its line.
    this.#hasFailed = !isFine
  }

  /** Failures with their diagnostics, skipped tests, and output that is not TAP. */
  #isWorthShowing(line: string): boolean {
    const text = line.trimStart()
    const indent = line.slice(0, line.length - text.length)
    if (this.#diagnosticIndent !== null) {
      if (text === '...' && indent === this.#diagnosticIndent) this.#diagnosticIndent = null
      return true
    }
    if (text === '---') {
      this.#diagnosticIndent = indent
      return true
    }
    if (text === '' || /^(1\.\.\d+|TAP version|# (Subtest|time=|No coverage)|[{}]$)/.test(text)) return false
    if (/^ok \d+/.test(text)) return /# (skip|todo)/i.test(text)
    return true
  }
}

/** `# { total: 5, pass: 2, fail: 1, todo: 1, skip: 1 }` */
function parseCounts(line: string): Outcome {
  const count = (name: string): number => Number(new RegExp(`\\b${name}: (\\d+)`).exec(line)?.[1] ?? 0)
  return { passed: count('pass'), failed: count('fail') }
}
