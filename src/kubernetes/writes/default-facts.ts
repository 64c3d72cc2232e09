/**
 * The API server's defaults for the built-in kinds by message, in `default-facts.txt`. `built-in-defaults.ts` fills
 * them in. Messages are named as in `kubernetes/codec/protobuf/kubernetes-schema.txt`, without `k8s.io.api.`. The rows
 * of a message are applied in order, and the rows of an object before those of the objects in it. This keeps the old
 * name of a pod's service account equal to the new name, which wins.
 *
 * Some defaults are omitted, because they need arithmetic or a clock and no client depends on them. Quantities are not
 * rounded, the requests of a whole pod are not summed over its containers, a negative grace period does not become 1,
 * `podIP` and `podIPs` are not derived from each other, and a device taint gets no time.
 *
 * Source: the API reference of Kubernetes 1.37, and its `pkg/apis/<group>/<version>/defaults.go`. The tests compare
 * every row with the results of these functions (`test/data/kubernetes-defaults`).
 */
import { readPackageFile } from '../../support/package-file.js'

/** A condition on a path that starts at the message's object. '', [] and false count as absent. */
export type Condition =
  | { readonly path: string; readonly values: readonly string[] }
  | { readonly path: string; readonly isThere: boolean }
  | { readonly hasOnly: string }

export type DefaultValue =
  | string
  | number
  | boolean
  | { readonly literal: unknown }
  /** Both paths start at the innermost list item along the row's path, or at the object if the path has no list. */
  | { readonly copyOf: string }
  | { readonly missingKeysOf: string }
  | { readonly pullPolicyOf: string }
  /** The member is removed because it has no meaning under the row's conditions. */
  | { readonly isRemoved: true }

/**
 * `path` names the member, with `[]` for each item of a list, and `value` is its default. The row applies only when
 * all conditions after the value hold.
 */
export type DefaultRow = readonly [path: string, value: DefaultValue, ...when: readonly Condition[]]

export type DefaultFacts = Readonly<Record<string, readonly DefaultRow[]>>

const FACTS_FILE = 'src/kubernetes/writes/default-facts.txt'

let facts: DefaultFacts | null = null

/**
 * In the file, a line `@ NAME...` names the messages that have the rows below it, and every other line is a row. The
 * rows of a message may stand in several places.
 */
export function defaultFacts(): DefaultFacts {
  if (facts !== null) return facts
  const found: Record<string, DefaultRow[]> = {}
  let messages: DefaultRow[][] = []
  for (const line of readPackageFile(FACTS_FILE).toString('utf8').trimEnd().split('\n')) {
    const [first, ...names] = line.split(' ')
    if (first === '@') messages = names.map((name) => (found[name] ??= []))
    else for (const rows of messages) rows.push(JSON.parse(line) as DefaultRow)
  }
  return (facts = found)
}
