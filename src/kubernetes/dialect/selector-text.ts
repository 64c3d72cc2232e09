/**
 * Writes a LabelSelector as text, for tables and scales.
 */
import { entriesAt, listAt, member } from '../../support/fields.js'

/**
 * Returns a LabelSelector (matchLabels and matchExpressions) as the text of a query, sorted by key; '' when it selects
 * everything.
 */
export function selectorText(selector: unknown): string {
  const terms = entriesAt(selector, 'matchLabels').map(([key, value]) => ({ key, text: `${key}=${String(value)}` }))
  for (const expression of listAt(selector, 'matchExpressions')) {
    const name = member(expression, 'key')
    const key = typeof name === 'string' ? name : ''
    switch (member(expression, 'operator')) {
      case 'In':
        terms.push({ key, text: `${key} in (${valuesOf(expression)})` })
        break
      case 'NotIn':
        terms.push({ key, text: `${key} notin (${valuesOf(expression)})` })
        break
      case 'Exists':
        terms.push({ key, text: key })
        break
      case 'DoesNotExist':
        terms.push({ key, text: `!${key}` })
        break
      default:
        return '<invalid>'
    }
  }
  return terms
    .sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0))
    .map(({ text }) => text)
    .join(',')
}

function valuesOf(expression: unknown): string {
  return listAt(expression, 'values').map(String).sort().join(',')
}
