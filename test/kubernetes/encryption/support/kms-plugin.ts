/**
 * A KMS v2 plugin over gRPC on a Unix socket, with the keys of `recorded-keys.ts`; it can be silent and it can refuse.
 */
import { Server, ServerCredentials, status } from '@grpc/grpc-js'
import type { Test } from 'tap'
import { readEntry, writeEntries } from '../../../../src/kubernetes/encryption/key-service.js'
import { readFields, writeFields } from '../../../../src/support/protobuf-fields.js'
import { recordedKeys } from './recorded-keys.js'

export interface KmsPlugin {
  /** `unix:///PATH` */
  readonly endpoint: string
  /** `refuse`: every call fails; `silence`: no call is answered. */
  mode: 'answer' | 'refuse' | 'silence'
  readonly calls: { readonly method: string }[]
}

type Handler = (call: { request: Buffer }, answer: (error: object | null, value?: Buffer) => void) => void

export async function startKmsPlugin(t: Test, socket: string): Promise<KmsPlugin> {
  const keys = recordedKeys()
  const plugin: KmsPlugin = { endpoint: `unix://${socket}`, mode: 'answer', calls: [] }
  const answers: Readonly<Record<string, (request: Buffer) => Promise<Uint8Array>>> = {
    Status: async () => writeFields({ 1: 'v2', 2: 'ok', 3: await keys.currentKeyId() }),
    Encrypt: async (request) => {
      const { ciphertext, keyId, annotations } = await keys.encrypt(read(request).bytes)
      return writeFields({ 1: ciphertext, 2: keyId, 3: writeEntries(annotations) })
    },
    Decrypt: async (request) => {
      const { bytes: ciphertext, keyId, annotations } = read(request)
      const plaintext = await keys.decrypt({ ciphertext, keyId, annotations })
      return writeFields({ 1: plaintext })
    },
  }
  const server = new Server()
  const same = (bytes: Buffer): Buffer => bytes
  const service = Object.fromEntries(
    Object.keys(answers).map((method) => [
      method,
      {
        path: `/v2.KeyManagementService/${method}`,
        requestStream: false,
        responseStream: false,
        requestSerialize: same,
        requestDeserialize: same,
        responseSerialize: same,
        responseDeserialize: same,
      },
    ]),
  )
  const handlers = Object.fromEntries(
    Object.entries(answers).map(([method, answer]): [string, Handler] => [
      method,
      (call, reply) => {
        plugin.calls.push({ method })
        if (plugin.mode === 'silence') return
        if (plugin.mode === 'refuse') return reply({ code: status.UNKNOWN, details: 'the plugin refuses' })
        answer(call.request).then(
          (response) => reply(null, Buffer.from(response)),
          (error: unknown) => reply({ code: status.UNKNOWN, details: String(error) }),
        )
      },
    ]),
  )
  server.addService(service, handlers as never)
  await new Promise<void>((resolve, reject) =>
    server.bindAsync(plugin.endpoint, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    ),
  )
  t.teardown(() => server.forceShutdown())
  return plugin
}

function read(request: Buffer): { bytes: Buffer; keyId: string; annotations: Map<string, Buffer> } {
  let bytes: Buffer = Buffer.alloc(0)
  let keyId = ''
  const annotations = new Map<string, Buffer>()
  readFields(request, {
    1: (reader) => (bytes = Buffer.from(reader.bytes())),
    3: (reader) => (keyId = reader.string()),
    4: (reader) => annotations.set(...readEntry(reader)),
  })
  return { bytes, keyId, annotations }
}
