/**
 * `npm run generate:openapi` makes `src/kubernetes/codec/kubernetes-openapi.json` from the OpenAPI documents of the API
 * server that the comparison runs. It keeps what the Go types do not say, such as required members and how lists are
 * merged, and leaves out descriptions.
 */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { buildEtcd } from '../etcd/versions.js'
import { isObject } from '../../src/support/fields.js'
import { kubernetesSchema } from '../../src/kubernetes/codec/protobuf/schema.js'
import { membersOf as fieldsOf, messageNameOf } from '../../src/kubernetes/codec/openapi-facts.js'
import { fileOfFacts } from './openapi-facts-file.js'
import { startApiServer } from './control-plane.js'
import { buildKubernetes } from './programs.js'
import { get } from './world.js'

type Members = Readonly<Record<string, unknown>>

const FILE = fileURLToPath(new URL('../../../src/kubernetes/codec/kubernetes-openapi.json', import.meta.url))
/** Schemas of JSON of any form, which the table of messages does not tell apart. */
const ANY = /\.(FieldsV1|RawExtension|JSON|JSONSchemaPropsOr\w+)$/
/** Defaults that Go writes for every unset member. */
const ZERO: ReadonlySet<unknown> = new Set(['', 0, false])
/** Keywords whose values follow from the table of messages. */
const KNOWN: ReadonlySet<string> = new Set(['type', 'format', 'description', 'oneOf'])

const members = (value: unknown): Members => (isObject(value) ? value : {})

/** The keywords of a schema without types and descriptions; null if there are none. */
function factsOf({ allOf, ...schema }: Members): Members | null {
  if (Array.isArray(allOf)) return factsOf({ ...members(allOf[0]), ...schema })
  const facts: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(schema)) {
    if (name === 'default' ? isObject(value) || ZERO.has(value) : KNOWN.has(name)) continue
    if (name === 'items' || name === 'additionalProperties') {
      const inner = factsOf(members(value))
      if (inner !== null) facts[name] = inner
    } else if (name !== '$ref' || ANY.test(String(value))) facts[name] = value
  }
  return Object.keys(facts).length === 0 ? null : facts
}

/** @param schemas of all documents, by name. */
function makeFacts(schemas: Members): string {
  const table = kubernetesSchema()
  const found = new Map<string, Members>()
  for (const name of Object.keys(schemas).toSorted()) {
    const { properties: given, 'x-kubernetes-group-version-kind': kinds, type, ...schema } = members(schemas[name])
    const message = table.message(messageNameOf(name))
    if (ANY.test(name)) found.set(name, type === undefined ? {} : { type })
    else if (message !== undefined && message.form === 'object') {
      const properties = factsOfMembers(
        fieldsOf(message, table).map(({ jsonName }) => jsonName),
        members(given),
      )
      const isInAnother = Object.values(schemas).some((other) => JSON.stringify(membersOf(other)).includes(`/${name}"`))
      const facts = {
        ...factsOf(schema),
        ...(isInAnother && kinds !== undefined ? { 'x-kubernetes-group-version-kind': kinds } : {}),
        ...(Object.keys(properties).length === 0 ? {} : { properties }),
      }
      found.set(name, facts)
    }
  }
  return fileOfFacts(found, table)
}

/** The members of a schema that is not a list of objects. */
function membersOf(schema: unknown): Members {
  const properties = members(members(schema)['properties'])
  return 'items' in properties && 'metadata' in properties ? {} : properties
}

function factsOfMembers(names: readonly string[], given: Members): Members {
  const facts = names.map((name) => [name, name in given ? factsOf(members(given[name])) : null] as const)
  return Object.fromEntries(facts.filter(([name, said]) => said !== null || !(name in given)))
}

const teardowns: (() => unknown)[] = []
try {
  process.env['ETCD_BIN'] = buildEtcd('3.7')
  // Reads the variable when it is loaded.
  const { startEtcd } = await import('../support/etcd-process.js')
  const t = { teardown: (done: () => unknown) => void teardowns.push(done) } as unknown as Test
  const { server } = await startApiServer(t, (await startEtcd(t)).url, buildKubernetes('kube-apiserver'))
  const json = async (path: string): Promise<Members> =>
    JSON.parse((await get(server, path)).body.toString()) as Members
  const schemas: Record<string, unknown> = {}
  for (const path of Object.keys(members((await json('/openapi/v3'))['paths'])).toSorted())
    Object.assign(schemas, members((await json(`/openapi/v3/${path}`))['components'])['schemas'])
  writeFileSync(FILE, makeFacts(schemas))
} finally {
  for (const done of teardowns.toReversed()) await done()
}
