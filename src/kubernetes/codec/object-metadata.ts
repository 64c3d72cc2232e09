/**
 * Reduces metadata to what its type allows: unknown and empty members, and those of a wrong type, are dropped. API
 * servers write none of these, but objects in etcd may predate their checks, or come from other programs.
 *
 * Source: ObjectMeta of k8s.io/apimachinery, and how k8s.io/apiextensions-apiserver reads it.
 */
import { goTime, timeProblem } from './go-formats.js'
import { isNumber, isRecord, type Json, type JsonRecord, record } from './json-tree.js'

/** @returns undefined to drop the value; the value itself when nothing changes. */
type Reading = (value: Json) => Json | undefined

const text: Reading = (value) => (typeof value === 'string' && value !== '' ? value : undefined)
/** A text member that is kept even when empty. */
const anyText: Reading = (value) => (typeof value === 'string' ? value : value === null ? '' : undefined)
const flag: Reading = (value) => (typeof value === 'boolean' ? value : undefined)
const integer: Reading = (value) => {
  if (!isNumber(value) || !/^-?\d{1,19}$/.test(String(value))) return undefined
  const exact = BigInt(String(value))
  return BigInt.asIntN(64, exact) === exact ? value : undefined
}
const count: Reading = (value) => (value === 0 ? undefined : integer(value))
const anything: Reading = (value) => value ?? undefined

const time: Reading = (value) => {
  if (typeof value !== 'string' || timeProblem(value) !== null) return undefined
  return goTime(value) ?? undefined
}

/** One item of a wrong type invalidates the whole list. */
function listOf(item: Reading): Reading {
  return (value) => {
    if (!Array.isArray(value) || value.length === 0) return undefined
    const items: Json[] = []
    for (const one of value) {
      const read = item(one)
      if (read === undefined) return undefined
      items.push(read)
    }
    return items.every((one, i) => one === value[i]) ? value : items
  }
}

const texts: Reading = (value) => {
  if (!isRecord(value)) return undefined
  let isSame = true
  let isEmpty = true
  for (const name in value) {
    isEmpty = false
    if (value[name] === null) isSame = false
    else if (typeof value[name] !== 'string') return undefined
  }
  if (isEmpty) return undefined
  return isSame ? value : record(Object.fromEntries(Object.keys(value).map((name) => [name, value[name] ?? ''])))
}

function members(fields: Readonly<Record<string, Reading>>, required: readonly string[] = []): Reading {
  const readings = new Map(Object.entries(fields))
  return (value) => {
    if (!isRecord(value)) return undefined
    let changed: JsonRecord | null = null
    for (const name in value) {
      const read = readings.get(name)?.(value[name]!)
      if (read === value[name]) continue
      changed ??= record({ ...value })
      if (read === undefined) delete changed[name]
      else changed[name] = read
    }
    for (const name of required) {
      if (Object.hasOwn(changed ?? value, name)) continue
      changed ??= record({ ...value })
      changed[name] = ''
    }
    return changed ?? value
  }
}

const METADATA = members({
  name: text,
  generateName: text,
  namespace: text,
  selfLink: text,
  uid: text,
  resourceVersion: text,
  generation: count,
  creationTimestamp: time,
  deletionTimestamp: time,
  deletionGracePeriodSeconds: integer,
  labels: texts,
  annotations: texts,
  ownerReferences: listOf(
    members(
      { apiVersion: anyText, kind: anyText, name: anyText, uid: anyText, controller: flag, blockOwnerDeletion: flag },
      ['apiVersion', 'kind', 'name', 'uid'],
    ),
  ),
  finalizers: listOf(anyText),
  managedFields: listOf(
    members({
      manager: text,
      operation: text,
      apiVersion: text,
      time,
      fieldsType: text,
      fieldsV1: anything,
      subresource: text,
    }),
  ),
})

/** @returns the metadata itself when nothing changes. */
export function orderlyMetadata(metadata: JsonRecord): JsonRecord {
  return METADATA(metadata) as JsonRecord
}
