import { isScalar, parseDocument, visit } from 'yaml'
import { type LosslessJson, markNumber } from './lossless.js'

/** Reads YAML 1.1, as Go's readers do: an unquoted `yes` is a boolean. @throws Error */
export function readYaml(text: string): LosslessJson {
  const document = parseDocument(text, { version: '1.1', intAsBigInt: true })
  const first = document.errors[0]
  if (first) throw first
  visit(document, {
    Scalar(_key, node) {
      if (!isScalar(node)) return
      // A single dot, a key of managed fields, is a float by the letter of YAML 1.1, but text to Go.
      if (node.source === '.') node.value = '.'
      else if (typeof node.value === 'number' || typeof node.value === 'bigint')
        node.value = markNumber(node.source ?? '')
    },
  })
  return document.toJS({ maxAliasCount: 0 }) as LosslessJson
}
