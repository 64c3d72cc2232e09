/**
 * Question: how long does it take to read a custom object of about 2 KB through the schema of its definition, in µs?
 * Three objects are measured: one that stays unchanged, one that gets defaults, and one that gets defaults and has
 * numbers that a double cannot represent.
 */
import { DefinedSchema } from '../src/kubernetes/codec/defined-schema.js'
import { ReadRules } from '../src/kubernetes/codec/read-rules.js'
import { anything } from '../test/support/definition.js'
import { definitions } from '../test/reference/second/definitions.js'
import type { Question } from './support/choice.js'
import { costOfCalls } from './support/call-cost.js'

export const schemaRead: Question = (choice) => {
  const { group, kind, versions } = definitions.find(({ plural }) => plural === 'httproutes')!
  const schemas = Object.fromEntries(versions.map(({ name, schema = anything }) => [name, DefinedSchema.of(schema)]))
  const rules = new ReadRules({ group, kind, schemas, preservesUnknownFields: false })
  const apiVersion = `${group}/v1`
  const subjects = {
    'nothing changes': route(apiVersion, kind, true, 8080),
    'defaults are filled in': route(apiVersion, kind, false, 8080),
    'defaults beside fractions': route(apiVersion, kind, false, 0.5),
    'defaults beside numbers beyond a double': route(apiVersion, kind, false, '9007199254740993'),
  }
  for (const [subject, json] of Object.entries(subjects)) {
    const cost = costOfCalls(() => rules.readJson(json, apiVersion, apiVersion), choice)
    choice.recorder.row({ question: 'schema-read', subject, wire: 'json', objectBytes: json.length, ...cost })
  }
  return Promise.resolve()
}

/** @param port text if the JSON number cannot be represented by a double. */
function route(apiVersion: string, kind: string, isWhole: boolean, port: number | string): Buffer {
  const backend = isWhole ? { group: '', kind: 'Service', weight: 1 } : {}
  const gateway = { group: 'gateway.example.org', kind: 'Gateway', name: 'public' }
  const object = {
    apiVersion,
    kind,
    metadata: {
      name: 'shop',
      namespace: 'shop',
      uid: '2f1d3c52-6a7b-4b0e-9c37-0e7e2c6b8a11',
      generation: 1,
      creationTimestamp: '2026-01-01T00:00:00Z',
      labels: { app: 'shop', tier: 'front' },
      annotations: { note: 'n'.repeat(300) },
    },
    spec: {
      hostnames: ['shop.example.org', 'www.shop.example.org'],
      parentRefs: [isWhole ? gateway : { name: gateway.name }],
      rules: Array.from({ length: 5 }, (_, i) => ({
        matches: [
          { path: { type: 'PathPrefix', value: `/${i}` }, headers: [{ name: 'h', value: 'v', type: 'Exact' }] },
        ],
        backendRefs: [
          { ...backend, name: `blue-${i}`, port: 0 },
          { ...backend, name: `green-${i}`, port: 8081 },
        ],
      })),
    },
    status: { parents: [{ controllerName: 'example.org/gateway', parentRef: gateway, conditions: [] }] },
  }
  return Buffer.from(JSON.stringify(object).replaceAll('"port":0', `"port":${port}`))
}
