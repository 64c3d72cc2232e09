/**
 * Changes the data in NATS as an operator or an accident would: directly through the NATS package, without our code.
 */
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection, nkeys } from 'nats'
import type { Test } from 'tap'
import type { NatsProcess } from './nats-process.js'

export interface NatsAdmin {
  readonly connection: NatsConnection
  /** Returns the names of all streams, including those of buckets. */
  streams(): Promise<readonly string[]>
  purge(stream: string): Promise<void>
  remove(stream: string): Promise<void>
  removeConsumers(stream: string): Promise<number>
  lastSequence(stream: string): Promise<number>
  firstSequence(stream: string): Promise<number>
  /** Flips one byte in every chunk of every object. */
  flipBytes(bucket: string): Promise<number>
  dropChunks(bucket: string): Promise<void>
  /** Writes a message into a stream, by its subject. */
  write(subject: string, data: Uint8Array): Promise<void>
}

export async function natsAdmin(t: Pick<Test, 'teardown'>, { url }: Pick<NatsProcess, 'url'>): Promise<NatsAdmin> {
  const connection = await connect({ servers: url })
  t.teardown(() => connection.close())
  const manager = await jetstreamManager(connection)
  const js = jetstream(connection)
  const { streams, consumers } = manager
  return {
    connection,
    streams: async () => {
      const names: string[] = []
      for await (const name of streams.names()) names.push(name)
      return names
    },
    purge: async (stream) => void (await streams.purge(stream)),
    remove: async (stream) => void (await streams.delete(stream)),
    removeConsumers: async (stream) => {
      const names: string[] = []
      for await (const { name } of consumers.list(stream)) names.push(name)
      await Promise.all(names.map((name) => consumers.delete(stream, name)))
      return names.length
    },
    lastSequence: async (stream) => (await streams.info(stream)).state.last_seq,
    firstSequence: async (stream) => (await streams.info(stream)).state.first_seq,
    flipBytes: async (bucket) => {
      const stream = `OBJ_${bucket}`
      const { first_seq: first, last_seq: last } = (await streams.info(stream)).state
      let flipped = 0
      for (let seq = first; seq <= last; seq++) {
        const message = await streams.getMessage(stream, { seq }).catch(() => null)
        if (message === null || !message.subject.startsWith(`$O.${bucket}.C.`)) continue
        const data = Uint8Array.from(message.data)
        data[data.length >> 1]! ^= 1
        await streams.deleteMessage(stream, seq)
        await js.publish(message.subject, data)
        flipped++
      }
      return flipped
    },
    dropChunks: async (bucket) => void (await streams.purge(`OBJ_${bucket}`, { filter: `$O.${bucket}.C.>` })),
    write: async (subject, data) => void (await js.publish(subject, data)),
  }
}

type KeyPair = ReturnType<typeof nkeys.createUser>

export interface NatsUser {
  readonly publicKey: string
  readonly seed: string
}

export function createNkeyUser(): NatsUser {
  const pair = nkeys.createUser()
  return { publicKey: pair.getPublicKey(), seed: Buffer.from(pair.getSeed()).toString() }
}

/** An operator, an account with JetStream, and a user: the server's configuration and the user's credentials file. */
export function createJwtUser(): { readonly config: string; readonly credentials: string } {
  const operator = nkeys.createOperator()
  const account = nkeys.createAccount()
  const system = nkeys.createAccount()
  const user = nkeys.createUser()
  const base64 = (bytes: Uint8Array | string): string => Buffer.from(bytes).toString('base64url')
  const sign = (issuer: KeyPair, subject: KeyPair, name: string, claims: object): string => {
    const header = base64(JSON.stringify({ typ: 'JWT', alg: 'ed25519-nkey' }))
    const body = { jti: name, iat: 1_700_000_000, iss: issuer.getPublicKey(), sub: subject.getPublicKey(), name }
    const signed = `${header}.${base64(JSON.stringify({ ...body, nats: { ...claims, version: 2 } }))}`
    return `${signed}.${base64(issuer.sign(Buffer.from(signed)))}`
  }
  const anything = { subs: -1, data: -1, payload: -1 }
  const limits = { ...anything, conn: -1, leaf: -1, imports: -1, exports: -1, wildcards: true }
  const storage = { mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 }
  const operatorJwt = sign(operator, operator, 'operator', { type: 'operator' })
  const accountJwt = sign(operator, account, 'account', { type: 'account', limits: { ...limits, ...storage } })
  const systemJwt = sign(operator, system, 'system', { type: 'account', limits })
  const userJwt = sign(account, user, 'user', { type: 'user', ...anything, pub: {}, sub: {} })
  const config = `
    operator: ${operatorJwt}
    system_account: ${system.getPublicKey()}
    resolver: MEMORY
    resolver_preload: { ${account.getPublicKey()}: ${accountJwt}, ${system.getPublicKey()}: ${systemJwt} }
  `
  const seed = Buffer.from(user.getSeed()).toString()
  const credentials =
    `-----BEGIN NATS USER JWT-----\n${userJwt}\n------END NATS USER JWT------\n\n` +
    `-----BEGIN USER NKEY SEED-----\n${seed}\n------END USER NKEY SEED------\n`
  return { config, credentials }
}
