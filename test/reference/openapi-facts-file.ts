/** Writes `src/kubernetes/codec/kubernetes-openapi.json`, in the form that `openapi-facts.ts` reads. */
import { canonicalText, treeFrom } from '../../src/kubernetes/codec/json-tree.js'
import { membersOf, messageNameOf } from '../../src/kubernetes/codec/openapi-facts.js'
import type { Schema } from '../../src/kubernetes/codec/protobuf/schema.js'
import { getOrMake } from '../../src/support/memo.js'

type Members = Readonly<Record<string, unknown>>

/** @param found the facts about the messages of the documents, including those without any. */
export function fileOfFacts(found: ReadonlyMap<string, Members>, table: Schema): string {
  const shared = new Map<string, { readonly facts: Members; readonly names: string[] }>()
  for (const name of [...found.keys()].toSorted()) {
    const facts = withoutImplied(name, found.get(name)!, table)
    if (facts !== null) getOrMake(shared, canonicalText(treeFrom(facts)), () => ({ facts, names: [] })).names.push(name)
  }
  const lines = [...shared.values()].map(({ facts, names }) => `"${names.join(' ')}": ${JSON.stringify(facts)}`)
  return `{\n${lines.join(',\n')}\n}\n`
}

/**
 * Leaves out what `allFactsOf` adds: required members that are always written, and atomic lists. @returns null if
 * nothing is left.
 */
function withoutImplied(name: string, { required, properties, ...facts }: Members, table: Schema): Members | null {
  const message = table.message(messageNameOf(name))
  if (message === undefined || message.form !== 'object') return facts
  const members = membersOf(message, table)
  const wanted = (required ?? []) as readonly string[]
  const written = new Set(members.filter((one) => !one.isOmittedWhenEmpty).map(({ jsonName }) => jsonName))
  const isSame = wanted.length === written.size && wanted.every((member) => written.has(member))
  const kept: Record<string, unknown> = { ...(properties as Members) }
  for (const { jsonName, label } of members) {
    if (label !== 'repeated' || kept[jsonName] === null) continue
    const { 'x-kubernetes-list-type': type, ...others } = (kept[jsonName] ?? {}) as Members
    if (type === undefined) throw new Error(`${name}.${jsonName} is a list of no type, which the file cannot say`)
    if (type === 'atomic') kept[jsonName] = others
    if (type === 'atomic' && Object.keys(others).length === 0) delete kept[jsonName]
  }
  const left = {
    ...(isSame ? {} : { required: wanted }),
    ...facts,
    ...(Object.keys(kept).length === 0 ? {} : { properties: kept }),
  }
  return Object.keys(left).length === 0 ? null : left
}
