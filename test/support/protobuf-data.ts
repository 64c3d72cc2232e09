/**
 * The stored objects shared by the tests of the protobuf codec. `test/data/protobuf/README.md` says where they come
 * from.
 */
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'

const ROOT = new URL('../../../', import.meta.url)

export interface Pair {
  readonly name: string
  readonly protobuf: Buffer
  readonly json: Record<string, unknown>
}

export interface StoredKey {
  readonly key: string
  readonly value: Buffer
  readonly modRevision: number
}

export interface Answer {
  readonly path: string
  readonly object: { apiVersion: string; kind: string; metadata: Record<string, unknown>; status?: object }
}

/** Objects with every field set, as an envelope and as JSON. */
export function apiTestData(file: 'head' | 'removed'): readonly Pair[] {
  const text = readFileSync(new URL(`test/data/protobuf/api-testdata-${file}.jsonl`, ROOT), 'utf8')
  return lines(text).map((line) => {
    const pair = parseToday(line) as { name: string; protobuf: string; json: Record<string, unknown> }
    return { ...pair, protobuf: Buffer.from(pair.protobuf, 'base64') }
  })
}

/**
 * Further pairs, `GROUP.VERSION.KIND.{pb,json}`, from a directory next to the repository; empty when it does not exist.
 */
export function sharedTestData(): readonly Pair[] {
  const directory = new URL('../shared/fixtures/api-testdata/', ROOT)
  if (!existsSync(directory)) return []
  return readdirSync(directory)
    .filter((file) => file.endsWith('.pb'))
    .map((file) => ({
      name: file.slice(0, -3),
      protobuf: readFileSync(new URL(file, directory)),
      json: JSON.parse(readFileSync(new URL(`${file.slice(0, -3)}.json`, directory), 'utf8')) as Pair['json'],
    }))
}

/** Since 1.34 API servers omit a zero `creationTimestamp`, which used to be null and means the same. */
function parseToday(text: string): unknown {
  return JSON.parse(text, (name, value: unknown) =>
    name === 'creationTimestamp' && value === null ? undefined : value,
  )
}

export interface Conversion {
  readonly kind: string
  /** The stored apiVersion. */
  readonly stored: string
  readonly value: Buffer
  /** The JSON in other versions, by apiVersion. */
  readonly answers: Readonly<Record<string, object>>
}

/** Random objects in other versions than they are stored in, as Kubernetes 1.37 answers them. */
export function conversions137(): readonly Conversion[] {
  const file = readFileSync(new URL('test/data/protobuf/conversions-1.37.jsonl.gz', ROOT))
  return lines(gunzipSync(file).toString()).map((line) => {
    const { proto, ...rest } = JSON.parse(line) as { proto: string } & Omit<Conversion, 'value'>
    return { ...rest, value: Buffer.from(proto, 'base64') }
  })
}

/** The data that kube-apiserver 1.20 had in etcd, and its responses by key. */
export function apiServer120(): {
  readonly stored: readonly StoredKey[]
  readonly answers: ReadonlyMap<string, Answer>
} {
  const directory = new URL('test/data/kube-apiserver-1.20/', ROOT)
  const stored = lines(readFileSync(new URL('etcd.jsonl', directory), 'utf8')).map((line) => {
    const entry = JSON.parse(line) as { key: string; value: string; modRevision: number }
    return { ...entry, value: Buffer.from(entry.value, 'base64') }
  })
  const answers = parseToday(readFileSync(new URL('answers.json', directory), 'utf8')) as Record<string, Answer>
  // Since 1.21 API servers label a namespace with its name on read.
  for (const { object } of Object.values(answers)) {
    // And since 1.36 they write an empty one of these.
    if (object.kind === 'StatefulSet') object.status = { availableReplicas: 0, ...object.status }
    const { name, labels } = object.metadata
    if (object.kind === 'Namespace')
      object.metadata['labels'] = { ...(labels as object), 'kubernetes.io/metadata.name': name }
  }
  return { stored, answers: new Map(Object.entries(answers)) }
}

/** A FileDescriptorSet of Kubernetes 1.33. */
export function kubernetesDescriptors(): Buffer {
  return gunzipSync(readFileSync(new URL('test/data/protobuf/kubernetes-1.33.binpb.gz', ROOT)))
}

function lines(text: string): readonly string[] {
  return text.split('\n').filter((line) => line !== '')
}
