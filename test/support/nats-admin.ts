/** What an operator or an accident does to what NATS has stored: past every line of ours, straight over the package. */
import { connect, type NatsConnection } from 'nats'
import type { Test } from 'tap'
import type { NatsProcess } from './nats-process.js'

export interface NatsAdmin {
  readonly connection: NatsConnection
  /** Names, of objects' and values' streams too. */
  streams(): Promise<readonly string[]>
  purge(stream: string): Promise<void>
  remove(stream: string): Promise<void>
  removeConsumers(stream: string): Promise<number>
  lastSequence(stream: string): Promise<number>
  firstSequence(stream: string): Promise<number>
  /** One byte of every chunk of every object. */
  flipBytes(bucket: string): Promise<number>
  dropChunks(bucket: string): Promise<void>
  /** Into a stream, by its subject. */
  write(subject: string, data: Uint8Array): Promise<void>
}

export async function natsAdmin(t: Pick<Test, 'teardown'>, { url }: Pick<NatsProcess, 'url'>): Promise<NatsAdmin> {
  const connection = await connect({ servers: url })
  t.teardown(() => connection.close())
  const manager = await connection.jetstreamManager()
  const js = connection.jetstream()
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
