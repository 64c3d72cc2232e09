/**
 * The objects that the bench writes, of about 1 KiB of JSON, each with the marker of `native/common.h` in an
 * annotation, at an offset divisible by 3 so that its base64 form is fixed as well.
 *
 * They are pods, or custom resources with the same members and the same size.
 */
import { writeFileSync } from 'node:fs'

export const MAGIC = '@#BENCH#@'
/** The marker before the writer has filled it in. */
export const EMPTY_MARK = MAGIC.padEnd(MAGIC.length + 12 + 18, '0')

export const CREATED = '2024-01-01T00:00:00Z'

export interface BenchResource {
  /** The name in recorded rows. */
  readonly name: string
  readonly apiVersion: string
  readonly kind: string
  /** The prefix of its keys in etcd, with the trailing slash. */
  readonly prefix: string
  /** The path of the list of all objects, in the Kubernetes dialect. */
  readonly path: string
  /** The definition as an API server stores it; null for a built-in resource. */
  readonly definition: { readonly key: string; readonly object: object } | null
}

export const pods: BenchResource = {
  name: 'pods',
  apiVersion: 'v1',
  kind: 'Pod',
  prefix: '/registry/pods/',
  path: '/api/v1/pods',
  definition: null,
}

/** Returns a custom resource with namespaced objects that can be selected by `spec.nodeName`. */
export function customResource(singular: string): BenchResource {
  const [group, plural] = ['bench.distributary.io', `${singular}s`]
  const kind = singular.replace(/^./, (first) => first.toUpperCase())
  const names = { plural, singular, kind, listKind: `${kind}List` }
  const anything = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
  const version = {
    name: 'v1',
    served: true,
    storage: true,
    schema: {
      openAPIV3Schema: {
        type: 'object',
        properties: { spec: { ...anything, properties: { nodeName: { type: 'string' } } }, status: anything },
      },
    },
    selectableFields: [{ jsonPath: '.spec.nodeName' }],
  }
  const is = (type: string) => ({ type, status: 'True', lastTransitionTime: CREATED, reason: type, message: '' })
  const name = `${plural}.${group}`
  // Each definition has its own uid, because an API server distinguishes definitions by it.
  const uid = `00000000-0000-4000-9000-${Buffer.from(singular.padStart(6)).subarray(-6).toString('hex')}`
  return {
    name: plural,
    apiVersion: `${group}/v1`,
    kind,
    prefix: `/registry/${group}/${plural}/`,
    path: `/apis/${group}/v1/${plural}`,
    definition: {
      key: `/registry/apiextensions.k8s.io/customresourcedefinitions/${name}`,
      object: {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinition',
        metadata: { name, uid, generation: 1, creationTimestamp: CREATED },
        spec: { group, names, scope: 'Namespaced', versions: [version], conversion: { strategy: 'None' } },
        status: { acceptedNames: names, conditions: [is('NamesAccepted'), is('Established')], storedVersions: ['v1'] },
      },
    },
  }
}

export interface BenchObject {
  readonly key: string
  /** null deletes the key. */
  readonly value: Buffer | null
  /** The offset of the marker in `value`. */
  readonly mark: number
}

export interface ObjectOptions {
  readonly count: number
  /** The number of distinct values of `spec.nodeName`: object i is on node `n{i % nodes}`. */
  readonly nodes: number
  /** The size of each value in bytes. */
  readonly bytes: number
}

export function benchObjects(resource: BenchResource, { count, nodes, bytes }: ObjectOptions): BenchObject[] {
  return Array.from({ length: count }, (_, index) => benchObject(resource, index, index % nodes, bytes))
}

export function uidOf(index: number): string {
  return `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`
}

function benchObject({ apiVersion, kind, prefix }: BenchResource, index: number, node: number, bytes: number) {
  const name = `bench-${String(index).padStart(6, '0')}`
  const json = (align: string, filler: string): string =>
    JSON.stringify({
      kind,
      apiVersion,
      metadata: {
        name,
        namespace: 'bench',
        uid: uidOf(index),
        creationTimestamp: CREATED,
        labels: { app: 'bench', tier: `t${index % 10}` },
        annotations: { align, mark: EMPTY_MARK, filler },
      },
      spec: {
        nodeName: `n${node}`,
        restartPolicy: 'Always',
        serviceAccountName: 'default',
        containers: [{ name: 'main', image: 'registry.example/bench:1.0.0', resources: {} }],
      },
      status: { phase: 'Running', podIP: '10.0.0.1', hostIP: '192.0.2.1' },
    })
  const align = '-'.repeat((3 - (json('', '').indexOf(MAGIC) % 3)) % 3)
  const bare = json(align, '')
  const value = json(align, 'x'.repeat(Math.max(0, bytes - bare.length)))
  return { key: `${prefix}bench/${name}`, value: Buffer.from(value), mark: value.indexOf(MAGIC) }
}

/** Takes the place of a value's length if the key is deleted, as in `native/writer.c`. */
const DELETED = 0xffffffff

/** Writes the file that `native/writer.c` reads. */
export function writeObjectsFile(path: string, objects: readonly BenchObject[]): void {
  const parts: Buffer[] = []
  for (const { key, value, mark } of objects) {
    parts.push(uint32(Buffer.byteLength(key)), Buffer.from(key))
    if (value === null) parts.push(uint32(DELETED))
    else parts.push(uint32(value.length), value, uint32(mark))
  }
  writeFileSync(path, Buffer.concat(parts))
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
