/**
 * The rules of a schema in CEL (`x-kubernetes-validations`). They are not evaluated here. Because an API server would
 * reject a violation, a write to which such rules apply gets a warning.
 */
import { joinPath } from '../codec/json-tree.js'
import { entriesAt, field, type Fields, isObject, listAt } from '../../support/fields.js'
import { oncePer } from '../../support/memo.js'

/** The most rules named in a warning; the others are only counted. */
const MAX_NAMED = 3
const MAX_RULE_LENGTH = 100

interface Rule {
  /** The place in an object where the rule applies: `spec.ports[]`; '' for the whole object. */
  readonly path: string
  readonly text: string
}

/**
 * Returns a warning about the rules of a stored schema that are not evaluated; null if it has none. The result is
 * kept with the schema.
 */
export const unevaluatedRules = oncePer((schema: object) => wordsOf([...rulesOf(schema as Fields)]))

/** Returns such a warning for all versions of a definition together. */
export function unevaluatedRulesOf(definition: Fields): string | null {
  const rules = listAt(definition, 'spec', 'versions').flatMap((version) => {
    const schema = field(version, 'schema', 'openAPIV3Schema')
    return isObject(schema) ? [...rulesOf(schema)] : []
  })
  return wordsOf(rules)
}

function wordsOf(rules: readonly Rule[]): string | null {
  if (rules.length === 0) return null
  const named = new Set(rules.map(({ path, text }) => `${path === '' ? 'the object' : path}: ${JSON.stringify(text)}`))
  const first = [...named].slice(0, MAX_NAMED).join(', ')
  const more = named.size > MAX_NAMED ? `, and ${named.size - MAX_NAMED} more` : ''
  return `rules in x-kubernetes-validations are not evaluated here: ${first}${more}`
}

/** Walks a schema without recursion, because a definition may nest it deeply. */
function* rulesOf(schema: Fields): Generator<Rule> {
  const left: { readonly node: Fields; readonly path: readonly string[] }[] = [{ node: schema, path: [] }]
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const { node, path } = next
    for (const rule of listAt(node, 'x-kubernetes-validations')) {
      const text = field(rule, 'rule')
      if (typeof text === 'string') yield { path: joinPath([...path]), text: text.slice(0, MAX_RULE_LENGTH) }
    }
    const inner = (value: unknown, ...names: string[]): void => {
      if (isObject(value)) left.push({ node: value, path: [...path, ...names] })
    }
    inner(node['items'], '[]')
    inner(node['additionalProperties'], '*')
    for (const [name, property] of entriesAt(node, 'properties')) inner(property, name)
  }
}
