/** A row of a table: a request, the promised answer, and the promise as the name of the row. */
import type { Test } from 'tap'
import type { Answer, World } from './world.js'

export type Check = (t: Test, answer: Answer) => unknown

export interface Row {
  readonly promise: string
  readonly path: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly code: number
  /** The minimum that the parsed body must contain, for tap's `match`. */
  readonly has?: unknown
  /** The required headers; null means that a header must be absent. */
  readonly sends?: Readonly<Record<string, string | RegExp | null>>
  /** The names of the list's items. */
  readonly names?: readonly string[]
  readonly check?: Check
}

/** Tests all rows at the same time, as clients would; each is a subtest. */
export async function checkRows(t: Test, world: World, rows: readonly Row[]): Promise<void> {
  const answers = rows.map(({ path, method = 'GET', headers = {}, body }) =>
    world.ask(path, { method, headers, ...(body === undefined ? {} : { body }) }),
  )
  await Promise.allSettled(answers)
  for (const [i, row] of rows.entries()) {
    await t.test(row.promise, async (t) => {
      const answer = await answers[i]!
      t.equal(answer.code, row.code, `${row.method ?? 'GET'} ${row.path}: ${answer.text.slice(0, 300)}`)
      if (row.has !== undefined) t.match(answer.json, row.has)
      if (row.names !== undefined) t.same(namesOf(answer), row.names)
      for (const [name, value] of Object.entries(row.sends ?? {})) {
        if (value === null) t.notOk(name in answer.headers, `no ${name}`)
        else t.match(String(answer.headers[name]), value, name)
      }
      await row.check?.(t, answer)
    })
  }
}

export function namesOf(answer: Answer): readonly string[] {
  const { items } = answer.json
  return items.map(({ metadata }) => metadata.name)
}

/** Checks that the body is exactly a Status. */
export function status(code: number, reason: string, message: string | RegExp): object {
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', code, reason, message }
}
