/**
 * The required fields of an object, according to Kubernetes' OpenAPI, taken from the type declarations of its
 * JavaScript client. The protobuf descriptors that `kubernetes-objects.ts` reads have names and types but not this.
 */
import { existsSync, readFileSync } from 'node:fs'
import type { KubernetesObject } from './kubernetes-objects.js'
import { root } from './server-process.js'

interface Field {
  readonly isRequired: boolean
  /** A model's name, without the list or map around it; other types have no declaration. */
  readonly type: string
}

const models = new Map<string, ReadonlyMap<string, Field> | null>()

/** Returns one line for each missing field. */
export function missingFields(object: KubernetesObject): string[] {
  const version = object.apiVersion.split('/').at(-1)!
  const model = `${version.replace(/^v/, 'V')}${object.kind}`
  const name = `${object.kind}/${object.metadata.name}`
  return fieldsOf(model) === null ? [] : inModel(model, object, name)
}

function inModel(model: string, value: unknown, path: string): string[] {
  const fields = fieldsOf(model)
  if (fields === null || typeof value !== 'object' || value === null) return []
  const given = value as Record<string, unknown>
  return [...fields].flatMap(([key, { isRequired, type }]) => {
    const inner = given[key]
    if (inner === undefined || inner === null) return isRequired ? [`${path}.${key} is missing`] : []
    if (Array.isArray(inner)) return inner.flatMap((item, i) => inModel(type, item, `${path}.${key}[${i}]`))
    return inModel(type, inner, `${path}.${key}`)
  })
}

/** Returns the fields of a model; null when no model has that name. */
function fieldsOf(model: string): ReadonlyMap<string, Field> | null {
  let fields = models.get(model)
  if (fields !== undefined) return fields
  const file = `${root}node_modules/@kubernetes/client-node/dist/gen/models/${model}.d.ts`
  fields = null
  if (/^\w+$/.test(model) && existsSync(file)) {
    const found = new Map<string, Field>()
    for (const [, name = '', optional, type = ''] of readFileSync(file, 'utf8').matchAll(
      /^ {4}'(\w+)'(\?)?: (.*);$/gm,
    )) {
      found.set(name, { isRequired: optional === undefined, type: /^Array<(\w+)>$/.exec(type)?.[1] ?? type })
    }
    fields = found
  }
  models.set(model, fields)
  return fields
}
