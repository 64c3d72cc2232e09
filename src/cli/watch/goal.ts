/** `--for`: the condition that a watch waits for, and whether the objects seen so far meet it. */
import { UsageError } from '../exit-code.js'
import { renderTemplate } from '../jsonpath/evaluate.js'
import { parseTemplate } from '../jsonpath/parse.js'

export interface Goal {
  /** Whether the absence of an object meets the goal, as with `delete`, instead of its content. */
  readonly isAbsence: boolean
  /** @param object the parsed JSON. */
  isMetBy(object: unknown): boolean
}

/** @throws UsageError */
export function parseGoal(text: string): Goal {
  if (text === 'delete') return { isAbsence: true, isMetBy: () => false }
  if (text === 'create') return { isAbsence: false, isMetBy: () => true }
  const [, kind, rest = ''] = /^(condition|jsonpath)=([^]+)$/.exec(text) ?? []
  if (kind === 'condition') return conditionGoal(rest)
  if (kind === 'jsonpath') return jsonpathGoal(rest)
  throw new UsageError(`--for is condition=TYPE[=STATUS], jsonpath=EXPRESSION[=VALUE], create or delete, not "${text}"`)
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

/** Parses `{.status.phase}=Running`, or an expression without a value, which only has to find something. */
function jsonpathGoal(text: string): Goal {
  // The last brace ends the expression; an equals sign inside it belongs to a filter.
  const [, expression = text, value] = /^(\{[^]*\})(?:=([^]*))?$/.exec(text) ?? /^([^=]*)(?:=([^]*))?$/.exec(text) ?? []
  const template = parseTemplate(expression)
  return {
    isAbsence: false,
    isMetBy(object) {
      const found = renderTemplate(template, object)
      return value === undefined ? found !== '' : found === value
    },
  }
}
