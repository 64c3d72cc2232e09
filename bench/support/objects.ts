/**
 * The objects that the bench writes: pods of about 1 KiB of JSON, each with the marker of `native/common.h` in an
 * annotation, at an offset divisible by 3 so that its base64 form is fixed as well.
 */
import { writeFileSync } from 'node:fs'

export const MAGIC = '@#BENCH#@'
const MARK_BYTES = MAGIC.length + 12 + 18

export interface BenchObject {
  readonly key: string
  readonly value: Buffer
  /** Where in `value` the marker begins. */
  readonly mark: number
}

export interface ObjectOptions {
  readonly count: number
  /** Distinct `spec.nodeName`s, given in turn: object i is on node `n{i % nodes}`. */
  readonly nodes: number
  /** Of the value. */
  readonly bytes: number
}

export const POD_PREFIX = '/registry/pods/'

export function podObjects({ count, nodes, bytes }: ObjectOptions): BenchObject[] {
  return Array.from({ length: count }, (_, index) => pod(index, index % nodes, bytes))
}

function pod(index: number, node: number, bytes: number): BenchObject {
  const name = `bench-${String(index).padStart(6, '0')}`
  const uid = `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`
  const json = (align: string, filler: string): string =>
    JSON.stringify({
      kind: 'Pod',
      apiVersion: 'v1',
      metadata: {
        name,
        namespace: 'bench',
        uid,
        creationTimestamp: '2024-01-01T00:00:00Z',
        labels: { app: 'bench', tier: `t${index % 10}` },
        annotations: { align, mark: MAGIC.padEnd(MARK_BYTES, '0'), filler },
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
  return { key: `${POD_PREFIX}bench/${name}`, value: Buffer.from(value), mark: value.indexOf(MAGIC) }
}

/** The file that `native/writer.c` reads. */
export function writeObjectsFile(path: string, objects: readonly BenchObject[]): void {
  const parts: Buffer[] = []
  for (const { key, value, mark } of objects) {
    const at = Buffer.alloc(4)
    at.writeUInt32LE(mark)
    parts.push(lengthOf(key), Buffer.from(key), lengthOf(value), value, at)
  }
  writeFileSync(path, Buffer.concat(parts))
}

function lengthOf(text: string | Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32LE(Buffer.byteLength(text))
  return length
}
