/**
 * The schemas of other projects' kinds that the chart can render: their CustomResourceDefinitions, from their Go
 * modules. `npm run test:helm` fetches those; elsewhere there are none.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'

const MODULES = [
  { module: 'sigs.k8s.io/gateway-api', version: 'v1.6.1', folder: 'config/crd/standard' },
  {
    module: 'github.com/prometheus-operator/prometheus-operator',
    version: 'v0.85.0',
    folder: 'example/prometheus-operator-crd',
  },
  { module: 'github.com/cert-manager/cert-manager', version: 'v1.21.2', folder: 'deploy/crds' },
] as const

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>
  pattern?: string
  additionalProperties?: unknown
}

interface Definition {
  readonly kind: string
  readonly spec: {
    readonly group: string
    readonly names: { readonly kind: string }
    readonly versions: readonly { readonly name: string; readonly schema: { readonly openAPIV3Schema: Schema } }[]
  }
}

/** @throws Error without Go, or without access to a module. */
export function provideCustomKinds(): void {
  for (const { module, version } of MODULES) {
    const { status, stderr, error } = spawnSync('go', ['mod', 'download', `${module}@${version}`], { encoding: 'utf8' })
    if (error) throw error
    if (status !== 0) throw new Error(stderr)
  }
}

/** By "apiVersion kind"; null without the modules. A field that a schema does not name is an error. */
export function customKinds(): ReadonlyMap<string, object> | null {
  const cache = spawnSync('go', ['env', 'GOMODCACHE'], { encoding: 'utf8' }).stdout?.trim()
  if (!cache) return null
  const folders = MODULES.map(({ module, version, folder }) => join(cache, `${module}@${version}`, folder))
  if (!folders.every((folder) => existsSync(folder))) return null
  const schemas = new Map<string, object>()
  for (const folder of folders) {
    for (const file of readdirSync(folder).filter((name) => name.endsWith('.yaml'))) {
      for (const document of parseAllDocuments(readFileSync(join(folder, file), 'utf8'))) {
        const definition = document.toJS() as Definition | null
        if (definition?.kind !== 'CustomResourceDefinition') continue
        const { group, names, versions } = definition.spec
        for (const { name, schema } of versions) {
          const { spec } = schema.openAPIV3Schema.properties ?? {}
          if (spec !== undefined) close(spec)
          schemas.set(`${group}/${name} ${names.kind}`, schema.openAPIV3Schema)
        }
      }
    }
  }
  return schemas
}

/** Kubernetes silently drops unknown fields; here they are errors. */
function close(schema: unknown): void {
  if (typeof schema !== 'object' || schema === null) return
  const one = schema as Schema & Record<string, unknown>
  // Go's case-insensitive flag, which JavaScript does not support.
  if (typeof one.pattern === 'string' && one.pattern.includes('(?i)')) delete one.pattern
  const isOpen = one['x-kubernetes-preserve-unknown-fields'] === true || one.additionalProperties !== undefined
  if (one['type'] === 'object' && one.properties !== undefined && !isOpen) one.additionalProperties = false
  for (const inner of Object.values(one)) close(inner)
}
