/** A real etcd, a server in front of it with a declared prefix in etcd's own API, and a client for either. */
import type { Test } from 'tap'
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { connectEtcd, type EtcdCredentials } from '../../../src/engine/upstream/etcd/etcd-upstream.js'
import { GrpcEndpoint, type GrpcStream } from '../../../src/engine/upstream/etcd/grpc-endpoint.js'
import type { RpcError } from '../../../src/engine/upstream/etcd/rpc-status.js'
import type { Upstream } from '../../../src/engine/upstream/upstream.js'
import { type AppHarness, type AppHarnessOptions, startApp } from '../../support/app.js'
import { type EtcdOptions, type EtcdProcess, startEtcd } from '../../support/etcd-process.js'
import { until } from '../../support/until.js'

export const PREFIX = '/flags/'

export interface EtcdApiHarness {
  readonly etcd: EtcdProcess
  readonly upstream: Upstream
  readonly app: AppHarness
  /** Calls our server. */
  readonly ours: EtcdClient
  /** Calls etcd itself. */
  readonly theirs: EtcdClient
}

export interface HarnessOptions extends Pick<AppHarnessOptions, 'flags' | 'config' | 'logger'> {
  readonly etcd?: EtcdOptions
  /** As whom our server logs in at etcd. */
  readonly user?: NonNullable<EtcdCredentials['user']>
  /** The size of the largest message that our server takes from etcd. */
  readonly maxReceivedBytes?: number
  /** Called before our server starts. */
  readonly prepare?: (etcd: EtcdClient, process: EtcdProcess) => Promise<void>
}

export async function startEtcdApi(t: Test, options: HarnessOptions = {}): Promise<EtcdApiHarness> {
  const etcd = await startEtcd(t, options.etcd)
  const theirs = etcdClient(t, etcd.url)
  await options.prepare?.(theirs, etcd)
  const upstream = connectEtcd({
    endpoints: [etcd.url],
    ...(options.user === undefined ? {} : { user: options.user }),
    ...(options.maxReceivedBytes === undefined ? {} : { maxReceivedBytes: options.maxReceivedBytes }),
  })
  const flags = [`--etcd-servers=${etcd.url}`, `--resource=flags=${PREFIX}`, '--etcd-api=flags']
  const app = await startApp(t, {
    upstream,
    flags: [...flags, ...(options.flags ?? [])],
    ...(options.config === undefined ? {} : { config: options.config }),
    ...(options.logger === undefined ? {} : { logger: options.logger }),
  })
  return { etcd, upstream, app, theirs, ours: etcdClient(t, app.url) }
}

export interface EtcdClient {
  /** @throws RpcError */
  call(path: string, request: Uint8Array, metadata?: Readonly<Record<string, string>>): Promise<Message>
  stream(path: string, metadata?: Readonly<Record<string, string>>): RecordedStream
  put(key: string, value: string | Buffer, fields?: Fields): Promise<Message>
  range(fields: Fields): Promise<Message>
  delete(key: string, rangeEnd?: string): Promise<Message>
}

export interface RecordedStream {
  readonly messages: readonly Message[]
  /** undefined while the stream is open; null after success. */
  readonly ended: RpcError | null | undefined
  send(message: Uint8Array): void
  finish(): void
  cancel(): void
  pause(): void
  resume(): void
  /** Waits for the message with this number. */
  message(at: number): Promise<Message>
}

export function etcdClient(t: Test, url: string): EtcdClient {
  const endpoint = new GrpcEndpoint({
    url,
    explain: undefined,
    keepAliveTimeMs: 60_000,
    keepAliveTimeoutMs: 60_000,
    maxReceivedBytes: 256 * 1024 * 1024,
  })
  t.teardown(() => endpoint.close())
  const call: EtcdClient['call'] = async (path, request, metadata = {}) =>
    messageOf(await endpoint.unary(`/etcdserverpb.${path}`, request, { metadata, timeoutMs: 30_000 }))
  return {
    call,
    stream: (path, metadata = {}) => recorded(endpoint, `/etcdserverpb.${path}`, metadata),
    put: (key, value, fields = {}) => call('KV/Put', encode({ 1: key, 2: value, ...fields })),
    range: (fields) => call('KV/Range', encode(fields)),
    delete: (key, rangeEnd = '') => call('KV/DeleteRange', encode({ 1: key, 2: rangeEnd })),
  }
}

function recorded(endpoint: GrpcEndpoint, path: string, metadata: Readonly<Record<string, string>>): RecordedStream {
  const messages: Message[] = []
  let ended: RpcError | null | undefined
  let stream: GrpcStream | null = null
  const early: (() => void)[] = []
  void endpoint.connect(10_000).then(() => {
    stream = endpoint.stream(path, metadata, {
      onMessage: (message) => messages.push(messageOf(message)),
      onEnd: (error) => (ended = error),
    })
    for (const action of early) action()
  })
  const soon = (action: () => void): void => void (stream === null ? early.push(action) : action())
  return {
    messages,
    get ended() {
      return ended
    },
    send: (message) => soon(() => stream?.send(message)),
    finish: () => soon(() => stream?.finish()),
    cancel: () => soon(() => stream?.cancel()),
    pause: () => soon(() => stream?.pause()),
    resume: () => soon(() => stream?.resume()),
    message: async (at) => {
      await until(() => messages.length > at, `message ${at} of ${path}`)
      return messages[at]!
    },
  }
}

/** The fields of a request by their numbers: text and bytes, numbers as varints, objects as messages. */
export interface Fields {
  readonly [number: number]: string | Buffer | number | boolean | Fields | readonly Fields[]
}

export function encode(fields: Fields): Uint8Array {
  const writer = new BinaryWriter()
  for (const [key, value] of Object.entries(fields)) {
    const number = Number(key)
    if (typeof value === 'number' || typeof value === 'boolean') {
      if (Number(value) !== 0) writer.tag(number, WireType.Varint).int64(Number(value))
    } else if (typeof value === 'string' || Buffer.isBuffer(value)) {
      const bytes = Buffer.from(value as string)
      if (bytes.length > 0) writer.tag(number, WireType.LengthDelimited).bytes(bytes)
    } else
      for (const message of Array.isArray(value) ? (value as readonly Fields[]) : [value as Fields])
        writer.tag(number, WireType.LengthDelimited).bytes(encode(message))
  }
  return writer.finish()
}

/** A decoded message: for each field its values, varints as text and the rest as bytes. */
export class Message {
  constructor(
    readonly fields: ReadonlyMap<number, readonly (string | Buffer)[]>,
    readonly bytes: Buffer,
  ) {}

  number(field: number): number {
    return Number(this.fields.get(field)?.at(-1) ?? 0)
  }

  text(field: number): string {
    return String(this.fields.get(field)?.at(-1) ?? '')
  }

  messages(field: number): readonly Message[] {
    return (this.fields.get(field) ?? []).map((bytes) => messageOf(bytes as Buffer))
  }

  message(field: number): Message {
    return this.messages(field)[0] ?? new Message(new Map(), Buffer.alloc(0))
  }

  get revision(): number {
    return this.message(1).number(3)
  }

  /** All fields but those of the header that may differ: the member's id and the term. */
  get comparable(): unknown {
    const header = this.message(1)
    const rest = [...this.fields].filter(([field]) => field !== 1).sort(([a], [b]) => a - b)
    return { cluster: header.text(1), revision: header.number(3), rest }
  }
}

export function messageOf(bytes: Uint8Array): Message {
  const reader = new BinaryReader(bytes)
  const fields = new Map<number, (string | Buffer)[]>()
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag()
    const value = wireType === WireType.Varint ? String(reader.int64()) : Buffer.from(reader.bytes())
    fields.set(number, [...(fields.get(number) ?? []), value])
  }
  return new Message(fields, Buffer.from(bytes))
}
