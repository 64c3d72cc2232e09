/**
 * Compares OpenAPI documents of both versions: ours must match theirs except for prose. Theirs has more: operations
 * that are not served here, the parameters of reads, media types. Ours must have every path and kind that can be read
 * from theirs.
 */
import { type FieldType, openApiMessage } from '../../src/kubernetes/dialect/openapi-protobuf.js'
import { isArray, isObject, type LosslessJson, markNumber, parseLossless, show } from './lossless.js'
import { fieldsOf } from './wire.js'
import { readYaml } from './yaml.js'

type Members = Record<string, LosslessJson>

/** Returns both documents without the parts that may differ. */
export function comparableOpenApi(
  theirs: LosslessJson,
  ours: LosslessJson,
): { readonly theirs: LosslessJson; readonly ours: LosslessJson } {
  const [a, b] = [membersOf(theirs), membersOf(ours)]
  const rest = ({ openapi, swagger, info }: Members): Members => ({
    version: openapi ?? swagger ?? null,
    info: info ?? null,
  })
  return {
    theirs: { ...rest(a), paths: theirPaths(withParameters(a), b), schemas: tidySchemas(theirSchemas(a, b)) },
    ours: { ...rest(b), paths: ourPaths(b), schemas: tidySchemas(schemasOf(b)) },
  }
}

function membersOf(value: LosslessJson | undefined): Members {
  return isObject(value) ? { ...value } : {}
}

const METHODS = ['get', 'put', 'post', 'delete', 'patch']

function ourPaths(document: Members): LosslessJson {
  const paths = Object.entries(membersOf(document['paths']))
  return Object.fromEntries(paths.map(([path, item]) => [path, tidyItem(membersOf(item), membersOf(item))]))
}

/** Returns their paths, with only the operations that ours has. */
function theirPaths(theirs: Members, ours: Members): LosslessJson {
  const wanted = membersOf(ours['paths'])
  const kept: Members = {}
  for (const [path, item] of Object.entries(membersOf(theirs['paths']))) {
    // Discovery has its own documents; a watch by path equals a watch by parameter; streams are not reads; component
    // statuses are not stored.
    if (
      !/\/$|\/watch\/|\/componentstatuses|^\/(version|openid)|\/(attach|exec|log|portforward|proxy)(\/\{path\})?$/.test(
        path,
      ) &&
      isObject(item) &&
      'get' in item
    )
      kept[path] = tidyItem(item, membersOf(wanted[path]))
  }
  return kept
}

/** Replaces references to parameters by the parameters: a v2 document states each of them once, under a name. */
function withParameters(document: Members): Members {
  const named = membersOf(document['parameters'])
  const whole = (parameter: LosslessJson): LosslessJson => {
    const { $ref } = membersOf(parameter)
    return typeof $ref === 'string' ? (named[$ref.replace('#/parameters/', '')] ?? null) : parameter
  }
  const paths = Object.entries(membersOf(document['paths'])).map(([path, item]) => {
    const { parameters, ...rest } = membersOf(item)
    return [path, isArray(parameters) ? { ...rest, parameters: parameters.map(whole) } : rest] as const
  })
  return { ...document, paths: Object.fromEntries(paths) }
}

function tidyItem(item: Readonly<Members>, wanted: Members): Members {
  const tidied: Members = { parameters: inPath(item['parameters']) }
  for (const method of METHODS) {
    const operation = membersOf(item[method])
    if (!(method in wanted) || !(method in item)) continue
    const answer = membersOf(membersOf(operation['responses'])['200'])
    tidied[method] = {
      action: operation['x-kubernetes-action'] ?? null,
      kind: operation['x-kubernetes-group-version-kind'] ?? null,
      answer: tidy(
        answer['schema'] ?? membersOf(membersOf(answer['content'])['application/json'])['schema'] ?? null,
        true,
      ),
    }
  }
  return tidied
}

/** Returns the parameters that are part of the path, sorted by name. */
function inPath(parameters: LosslessJson | undefined): LosslessJson {
  const given = isArray(parameters) ? parameters.map(membersOf) : []
  return given
    .filter(({ in: place }) => place === 'path')
    .map((one) => Object.fromEntries(Object.entries(one).filter(([name]) => name !== 'description')))
    .sort((one, other) => (show(one['name']) < show(other['name']) ? -1 : 1))
}

function schemasOf(document: Members): Members {
  return membersOf(document['definitions'] ?? membersOf(document['components'])['schemas'])
}

/** Returns the API server's schemas that our server also has, and every kind of the group itself. */
function theirSchemas(theirs: Members, ours: Members): Members {
  const wanted = schemasOf(ours)
  const isOwn = (name: string): boolean => !name.startsWith('io.k8s.')
  return Object.fromEntries(Object.entries(schemasOf(theirs)).filter(([name]) => isOwn(name) || name in wanted))
}

function tidySchemas(schemas: Members): Members {
  return Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => [name, tidy(schema, name.startsWith('io.k8s.'))]),
  )
}

const TIME = /^#\/(?:components\/schemas|definitions)\/io\.k8s\.apimachinery\.pkg\.apis\.meta\.v1\.(Micro)?Time$/

/**
 * Returns a schema without descriptions. An `allOf` with a single reference, which is only there so that other keywords
 * can stand beside the reference, becomes the plain reference.
 * @param isOfGo whether the schema is of a Go type. The API server lists the zero values of such a type as defaults.
 */
function tidy(schema: LosslessJson, isOfGo: boolean): LosslessJson {
  if (isArray(schema)) return schema.map((one) => tidy(one, isOfGo))
  if (!isObject(schema)) return schema
  const { allOf, ...rest } = schema
  if (isArray(allOf) && allOf.length === 1) return tidy({ ...rest, ...membersOf(allOf[0]) }, isOfGo)
  const { $ref } = schema
  if (typeof $ref === 'string' && TIME.test($ref)) return { type: 'string', format: 'date-time' }
  const kept: Members = {}
  for (const [name, value] of Object.entries(schema)) {
    if (name === 'description' && typeof value === 'string') continue
    if (name === 'default' && isOfGo) continue
    if (name === 'properties' && isObject(value))
      kept[name] = Object.fromEntries(Object.entries(value).map(([member, one]) => [member, tidy(one, isOfGo)]))
    else kept[name] = name === 'enum' || name === 'default' || name.startsWith('x-') ? value : tidy(value, isOfGo)
  }
  return kept
}

/** A protobuf document as JSON. @throws Error when it is malformed. */
export function decodeOpenApi(bytes: Buffer, version: 'v2' | 'v3' = 'v3'): LosslessJson {
  return message(version === 'v2' ? 'v2.Document' : 'Document', bytes)
}

const inItem = openApiMessage('v2.PathItem').fields['parameters']![1] as { readonly each: Chosen }
/** The parameters that the paths of theirs refer to, which are those of a path without the choice of a reference. */
const named: Chosen = {
  by: 'in',
  choices: Object.fromEntries(
    Object.entries(inItem.each.choices).map(([place, [path, name]]) => [place, [path.slice(1), name]]),
  ),
}
type Chosen = Extract<FieldType, { readonly by: string }>

function message(name: string, bytes: Buffer): Members {
  const { extensions, fields: ours } = openApiMessage(name)
  const parameters: FieldType = { byName: named, at: 1 }
  const fields = name === 'v2.Document' ? { ...ours, parameters: [10, parameters] as const } : ours
  const byNumber = new Map(Object.entries(fields).map(([member, [number, type]]) => [number, { member, type }]))
  const members: Members = {}
  for (const { number, value } of fieldsOf(bytes)) {
    const field = byNumber.get(number)
    if (number === extensions) {
      const { name: extension, inner } = entry(value as Buffer)
      members[extension] = valueOf('any', inner)
    } else if (field === undefined) {
      // Ours has no such operations and no security; a schema must be read completely.
      if (name === 'Schema') throw new Error(`${name} has a field ${number}`)
    } else if (typeof field.type === 'object' && 'each' in field.type) {
      const list = members[field.member]
      members[field.member] = [...(isArray(list) ? list : []), valueOf(field.type.each, value)]
    } else members[field.member] = valueOf(field.type, value)
  }
  return members
}

function entry(bytes: Buffer): { readonly name: string; readonly inner: Buffer } {
  const fields = new Map([...fieldsOf(bytes)].map(({ number, value }) => [number, value]))
  return { name: String(fields.get(1) ?? ''), inner: (fields.get(2) as Buffer | undefined) ?? Buffer.alloc(0) }
}

function valueOf(type: FieldType, value: number | Buffer): LosslessJson {
  if (typeof value === 'number') return type === 'boolean' ? value === 1 : markNumber(String(value))
  if (type === 'text') return value.toString()
  if (type === 'double') return markNumber(String(value.readDoubleLE()))
  if (type === 'any') return yamlOf(String(entry(value).inner))
  if (typeof type === 'object' && 'message' in type) return message(type.message, value)
  const fields = [...fieldsOf(value)]
  const [first] = fields
  if (typeof type === 'object' && 'byName' in type) {
    const entries = fields.filter(({ number }) => number === type.at).map((field) => entry(field.value as Buffer))
    return Object.fromEntries(entries.map(({ name, inner }) => [name, valueOf(type.byName, inner)]))
  }
  if (first === undefined) return {}
  if (type === 'scalar') return valueOf(first.number === 1 ? 'double' : first.number === 2 ? 'boolean' : 'text', first.value)
  if (typeof type !== 'object') throw new Error(`${type} is not a message`)
  if ('messageOrReference' in type)
    return first.number === 2 ? { $ref: String([...fieldsOf(first.value as Buffer)][0]!.value) } : message(type.messageOrReference, first.value as Buffer)
  if ('onlyOf' in type) return valueOf(type.onlyOf, first.value)
  if ('by' in type) {
    const reference = type === named || first.number !== 2 ? undefined : [...fieldsOf(first.value as Buffer)][0]
    if (reference !== undefined) return { $ref: String(reference.value) }
    for (const [path, name] of Object.values(type.choices)) {
      const found = path.reduce<Buffer | undefined>((inner, at) => inner && ([...fieldsOf(inner)].find(({ number }) => number === at)?.value as Buffer | undefined), value)
      if (found !== undefined) return message(name, found)
    }
  }
  if ('booleanOr' in type) return first.number === 2 ? first.value === 1 : valueOf(type.booleanOr, first.value)
  throw new Error('a list is not a message')
} // prettier-ignore

/** Parses a small value: JSON, or YAML with lists and maps of strings. */
function yamlOf(text: string): LosslessJson {
  try {
    return parseLossless(text)
  } catch {
    return readYaml(text)
  }
}
