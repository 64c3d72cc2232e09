/**
 * Writes a LabelSelector as text, for tables and scales.
 */
import { entriesAt, listAt, member } from '../../support/fields.js'
import { EXPRESSION_OPERATORS, formatRequirement } from '../model/label-requirements.js'

/**
 * Returns a LabelSelector (matchLabels and matchExpressions) as the text of a query, sorted by key; '' when it selects
 * everything.
 */
export function selectorText(selector: unknown): string {
  const terms = entriesAt(selector, 'matchLabels').map(([key, value]) => ({ key, text: `${key}=${String(value)}` }))
  for (const expression of listAt(selector, 'matchExpressions')) {
    const operator = EXPRESSION_OPERATORS.get(member(expression, 'operator') as string)
    if (operator === undefined) return '<invalid>'
    const name = member(expression, 'key')
    const key = typeof name === 'string' ? name : ''
    const values = listAt(expression, 'values').map(String).sort()
    terms.push({ key, text: formatRequirement({ key, operator, values }) })
  }
  return terms
    .sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0))
    .map(({ text }) => text)
    .join(',')
}
