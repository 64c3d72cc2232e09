/** `--sort-by`: sorts by the first value that a path finds in each object, as kubectl does. */
import { compareNumbers } from '../codec/json-path/evaluate.js'
import { printedValue } from '../codec/json-path/print.js'
import { isNumber, type Json } from '../codec/json-tree.js'
import { parsePath } from './custom-columns.js'
import { found } from './jsonpath/evaluate.js'

const QUANTITY = /^([+-]?\d+(?:\.\d+)?)([numkMGTPE]|[KMGTPE]i)?$/
/** Powers of a thousand. */
const THOUSANDS: Readonly<Record<string, number>> = { n: -3, u: -2, m: -1, k: 1, M: 2, G: 3, T: 4, P: 5, E: 6 }

/** The sort is stable; objects without such a value come first. @throws UsageError */
export function sorterBy(expression: string): <T>(items: readonly T[], objectOf: (item: T) => Json) => T[] {
  const path = parsePath(expression, '--sort-by')
  return (items, objectOf) => {
    const keyed = items.map((item) => {
      const object = objectOf(item)
      return { item, key: found(path, object)[0] }
    })
    return keyed.sort((a, b) => compareKeys(a.key, b.key)).map(({ item }) => item)
  }
}

function compareKeys(a: Json | undefined, b: Json | undefined): number {
  if (a === undefined || b === undefined) return Number(a !== undefined) - Number(b !== undefined)
  if (isNumber(a) && isNumber(b)) return compareNumbers(a, b)
  const [textA, textB] = [printedValue(a), printedValue(b)]
  const [quantityA, quantityB] = [quantityOf(textA), quantityOf(textB)]
  if (quantityA !== null && quantityB !== null) return quantityA - quantityB
  return textA < textB ? -1 : textA > textB ? 1 : 0
}

/** Returns the size of `250m`, `1Gi` or `3`, so that they sort by size and not by letters; null for any other text. */
function quantityOf(text: string): number | null {
  const [, number, unit = ''] = QUANTITY.exec(text) ?? []
  if (number === undefined) return null
  if (unit.endsWith('i')) return Number(number) * 1_024 ** ('KMGTPE'.indexOf(unit[0]!) + 1)
  return Number(number) * 1_000 ** (THOUSANDS[unit] ?? 0)
}
