/** `--for`: the condition that a watch waits for, and whether an object meets it. */
import { UsageError } from '../exit-code.js'

export interface Goal {
  /** Whether the goal is the absence of objects, as with `delete`, instead of their content. */
  readonly isAbsence: boolean
  /** @param object the parsed JSON. */
  isMetBy(object: unknown): boolean
}

/** @throws UsageError */
export function parseGoal(text: string): Goal {
  if (text === 'delete') return { isAbsence: true, isMetBy: () => false }
  if (text === 'create') return { isAbsence: false, isMetBy: () => true }
  const condition = /^condition=([^]+)$/.exec(text)?.[1]
  if (condition !== undefined) return conditionGoal(condition)
  throw new UsageError(`--for must be condition=TYPE[=STATUS], create or delete, not "${text}"`)
}

function conditionGoal(text: string): Goal {
  const [type = '', status = 'True'] = text.split('=')
  const wanted = status.toLowerCase()
  return {
    isAbsence: false,
    isMetBy(object) {
      const conditions = (object as { status?: { conditions?: unknown } } | null)?.status?.conditions
      if (!Array.isArray(conditions)) return false
      return (conditions as { type?: unknown; status?: unknown }[]).some(
        (condition) =>
          String(condition.type).toLowerCase() === type.toLowerCase() &&
          String(condition.status).toLowerCase() === wanted,
      )
    },
  }
}
