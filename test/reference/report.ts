/**
 * The findings of a run, grouped by kind with one example each, as a work list for developers. A difference is excepted
 * (by a named row with a reason), known (it has a row until it is fixed), or it fails the run.
 */
import { writeFileSync } from 'node:fs'
import type { Question } from './ask.js'
import type { Difference } from './compare.js'
import { exceptions } from './exceptions.js'
import { knownDifferences } from './known-differences.js'
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
  /** Comparisons that agreed only on the second attempt. */
  #secondLooks = 0
  readonly #excepted = new Map<string, Kind>()
  readonly #known = new Map<string, Kind>()
  /** The differences that are not excepted, by resource and kind. */
  readonly #byResource = new Map<string, Map<string, Kind>>()
  readonly #failures = new Map<string, Kind>()
  readonly #exceptions: readonly Row[]

  /** @param more exceptions of this run. */
  constructor(more: readonly Row[] = []) {
    this.#exceptions = [...exceptions, ...more]
  }

  /** Whether a row of one of the tables covers the difference. */
  isExplained(difference: Difference, question: Question): boolean {
    return [this.#exceptions, knownDifferences].some((rows) => rowOf(rows, difference, question) !== undefined)
  }

  /** Adds one comparison, which passes when each of its differences has a row. */
  add(question: Question, differences: readonly Difference[]): void {
    let isFine = true
    for (const difference of differences) {
      const exception = rowOf(this.#exceptions, difference, question)
      const known = rowOf(knownDifferences, difference, question)
      if (exception !== undefined) {
        count(this.#excepted, exception.name, question, difference)
        continue
      }
      this.#list(question, difference, known)
      if (known !== undefined) count(this.#known, known.name, question, difference)
      else {
        isFine = false
        count(this.#failures, kindOf(difference), question, difference)
      }
    }
    if (isFine) this.passed++
    else this.failed++
  }

  /** Counts one more failure: the run could not continue. */
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

  #list(question: Question, difference: Difference, known: Row | undefined): void {
    const resource = resourceOf(question)
    const kinds = this.#byResource.get(resource) ?? new Map<string, Kind>()
    this.#byResource.set(resource, kinds)
    count(kinds, `${known === undefined ? '' : `(${known.name}) `}${kindOf(difference)}`, question, difference)
  }

  /** A known difference that a whole run has not met is fixed; its row fails the run until it is deleted. */
  requireKnown(): void {
    for (const { name } of knownDifferences) {
      if (this.#known.has(name)) continue
      this.failed++
      const question = { method: 'GET', path: '', headers: {} }
      count(this.#failures, `a known difference is gone: delete ${name}`, question, {
        where: 'run',
        theirs: '',
        ours: '',
      })
    }
  }

  /** Writes everything that is not excepted, by resource. */
  writeList(file: string): void {
    const lines: string[] = []
    for (const [resource, kinds] of [...this.#byResource].sort(([a], [b]) => (a < b ? -1 : 1))) {
      lines.push(`== ${resource}`)
      for (const [name, kind] of [...kinds].sort(([, a], [, b]) => b.count - a.count))
        lines.push(...linesOf(name, kind))
    }
    writeFileSync(file, `${lines.join('\n')}\n`)
  }

  print(write: (line: string) => void): void {
    const table = (title: string, kinds: ReadonlyMap<string, Kind>): void => {
      if (kinds.size === 0) return
      write(`\n${title}`)
      for (const [name, kind] of [...kinds].sort(([, a], [, b]) => b.count - a.count))
        linesOf(name, kind).forEach(write)
    }
    table('Excepted, by name:', this.#excepted)
    table('Known, until they are fixed:', this.#known)
    table('Differences:', this.#failures)
    const sum = (kinds: ReadonlyMap<string, Kind>): number =>
      [...kinds.values()].reduce((all, { count }) => all + count, 0)
    const unused = this.#exceptions.map(({ name }) => name).filter((name) => !this.#excepted.has(name))
    write('')
    if (unused.length > 0) write(`exceptions that nothing needed: ${unused.join(', ')}`)
    write(`${this.#events} events of whole streams; ${this.#secondLooks} comparisons agreed when asked again`)
    write(`${sum(this.#excepted)} differences excepted, ${sum(this.#known)} known`)
    write(`${this.passed} passed, ${this.failed} failed`)
  }
}

function linesOf(name: string, { count, question, difference }: Kind): string[] {
  const { accept } = question.headers
  return [
    `  ${count} × ${name}`,
    `      ${question.method} ${question.path}${question.body === undefined ? '' : ` ${question.body}`}${accept === undefined ? '' : `   Accept: ${accept}`}`,
    `      ${difference.where}: theirs ${difference.theirs}`,
    `      ${' '.repeat(difference.where.length)}    ours ${difference.ours}`,
  ]
}

/** The subject of a question: `pods.v1`, `deployments.apps/v1`, or the path when no resource is involved. */
function resourceOf({ path }: Question): string {
  const [, group = '', version = '', rest = ''] = /^\/+(?:api|apis\/+([^/?]+))\/([^/?]+)\/+([^?]+)/.exec(path) ?? []
  if (version === '') return path.split('?')[0]!.replace(/\/$/, '')
  const steps = rest.split('/').filter((step) => step !== '' && step !== 'watch')
  const plural = steps[0] === 'namespaces' && steps.length > 2 ? steps[2] : steps[0]
  return `${plural}.${group === '' ? version : `${group}/${version}`}`
}

function count(kinds: Map<string, Kind>, name: string, question: Question, difference: Difference): void {
  const kind = kinds.get(name)
  if (kind === undefined) kinds.set(name, { count: 1, question, difference })
  else kind.count++
}

/** Kinds differ by status code and reason, not by values. */
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

/** Returns a message with placeholders for its values, so that equal faults have equal messages. */
function shape(text: string): string {
  return text
    .replaceAll(/^"|"$/g, '')
    .replaceAll(/\\?"(?:[^"\\])*\\?"/g, '"…"')
    .replaceAll(/\d+/g, 'N')
    .replaceAll(/[a-z]+\.example\.com(\/\w+)?/g, 'GROUP')
    .slice(0, 90)
}

function rowOf(rows: readonly Row[], difference: Difference, question: Question): Row | undefined {
  return rows.find((row) => row.matches(difference, question))
}
