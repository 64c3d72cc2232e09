/**
 * The findings of a run, grouped by kind with one example each: the list that a developer works through. A difference
 * is excepted (by name, with a reason), or it fails the run.
 */
import type { Question } from './ask.js'
import type { Difference } from './compare.js'
import { exceptions } from './exceptions.js'
import type { Row } from './row.js'

interface Kind {
  count: number
  readonly question: Question
  readonly difference: Difference
}

export class Report {
  passed = 0
  failed = 0
  #events = 0
  /** Comparisons that agreed only when they were asked again. */
  #secondLooks = 0
  readonly #excepted = new Map<string, Kind>()
  readonly #failures = new Map<string, Kind>()

  /** One comparison: it passes when each of its differences is in the table. */
  add(question: Question, differences: readonly Difference[]): void {
    let isFine = true
    for (const difference of differences) {
      const exception = exceptionOf(difference, question)
      if (exception !== undefined) count(this.#excepted, exception.name, question, difference)
      else {
        isFine = false
        count(this.#failures, kindOf(difference), question, difference)
      }
    }
    if (isFine) this.passed++
    else this.failed++
  }

  /** The run could not go on: that is one failure more. */
  abort(why: string): void {
    this.failed++
    const question = { method: 'GET', path: '', headers: {} }
    count(this.#failures, 'the run was cut short', question, { where: 'run', theirs: '', ours: why })
  }

  addEvents(events: number): void {
    this.#events += events
  }

  addSecondLook(): void {
    this.#secondLooks++
  }

  /** Rows of the table that nothing needed: rare ones, or a reason that no longer holds. */
  get unused(): readonly string[] {
    const used = new Set(this.#excepted.keys())
    return exceptions.map(({ name }) => name).filter((name) => !used.has(name))
  }

  print(write: (line: string) => void): void {
    const table = (title: string, kinds: ReadonlyMap<string, Kind>): void => {
      if (kinds.size === 0) return
      write(`\n${title}`)
      for (const [name, { count, question, difference }] of [...kinds].sort(([, a], [, b]) => b.count - a.count)) {
        const { accept } = question.headers
        write(`  ${count} × ${name}`)
        write(`      ${question.method} ${question.path}${accept === undefined ? '' : `   Accept: ${accept}`}`)
        write(`      ${difference.where}: theirs ${difference.theirs}`)
        write(`      ${' '.repeat(difference.where.length)}    ours ${difference.ours}`)
      }
    }
    table('Excepted, by name:', this.#excepted)
    table('Differences:', this.#failures)
    const sum = (kinds: ReadonlyMap<string, Kind>): number =>
      [...kinds.values()].reduce((all, { count }) => all + count, 0)
    write('')
    if (this.unused.length > 0) write(`exceptions that nothing needed: ${this.unused.join(', ')}`)
    write(`${this.#events} events of whole streams; ${this.#secondLooks} comparisons agreed when asked again`)
    write(`${sum(this.#excepted)} differences excepted`)
    write(`${this.passed} passed, ${this.failed} failed`)
  }
}

function count(kinds: Map<string, Kind>, name: string, question: Question, difference: Difference): void {
  const kind = kinds.get(name)
  if (kind === undefined) kinds.set(name, { count: 1, question, difference })
  else kind.count++
}

/** Status codes and reasons tell kinds apart; values do not. */
function kindOf({ where, theirs, ours }: Difference): string {
  if (where === 'code')
    return `code ${theirs.slice(0, 3)} and ours ${ours.slice(0, 3)}${reasonIn(theirs)}${reasonIn(ours)}`
  if (where === 'message') return `message ${shape(theirs)} | ${shape(ours)}`
  if (where.startsWith('header') || where === 'reason') return `${where}: ${theirs.slice(0, 60)} | ${ours.slice(0, 60)}`
  return `${where}${ours === '(absent)' ? ' (ours lacks it)' : theirs === '(absent)' ? ' (theirs has none)' : ''}`
}

function reasonIn(text: string): string {
  const message = /"message":"((?:[^"\\]|\\.)*)"/.exec(text)?.[1]
  return message === undefined ? '' : ` [${shape(message).slice(0, 70)}]`
}

/** A message without its values. */
function shape(text: string): string {
  return text
    .replaceAll(/^"|"$/g, '')
    .replaceAll(/\\?"(?:[^"\\])*\\?"/g, '"…"')
    .replaceAll(/\d+/g, 'N')
    .replaceAll(/[a-z]+\.example\.com(\/\w+)?/g, 'GROUP')
    .slice(0, 90)
}

/** Whether a row of the table allows the difference. */
export function isExcepted(difference: Difference, question: Question): boolean {
  return exceptionOf(difference, question) !== undefined
}

function exceptionOf(difference: Difference, question: Question): Row | undefined {
  return exceptions.find((row) => row.matches(difference, question))
}
