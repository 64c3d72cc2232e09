/** The validators of a whole fleet expect every object as the server shows it, which is not always as it is stored. */
import t from 'tap'
import { assertGuarantees } from '../guarantees/validate.js'
import { recordEtcdHistory } from '../support/etcd-history.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { startServer } from '../support/server-process.js'
import { WatchRecorder } from '../support/watch-recorder.js'
import { describeServed, storedValue, widgetDefinition, writable } from '../fleet/fleet-resources.js'

void t.test(
  'every object is served as the validators of a whole fleet expect, whatever its storage format',
  async (t) => {
    const etcd = await startEtcd(t)
    const control = await recordEtcdHistory(t, etcd)
    const writer = new EtcdWriter([etcd])
    const write = async (name: string, asWritten: typeof storedValue | null) => {
      const change = writable.map((resource) => {
        const object = asWritten?.(resource, resource.object(name, { app: 'web' })) ?? null
        return [resource.keyOf(name), object] as const
      })
      return await writer.commit(Object.fromEntries(change))
    }
    const asJson = (_: unknown, object: object): object => object
    await writer.commit(widgetDefinition)
    await write('json', asJson)
    await write('protobuf', storedValue)
    const server = await startServer(t, { flags: ['--etcd-servers', etcd.url] })
    const recorder = new WatchRecorder({ url: server.url })
    t.teardown(() => recorder.close())
    const watches = writable.map(({ target }) => recorder.watch({ target, sendInitialEvents: true }))
    await Promise.all(watches.map((watch) => watch.until(({ lastBookmark }) => lastBookmark !== null)))
    await write('json', storedValue)
    await write('protobuf', asJson)
    await write('json', null)
    const last = await write('last', storedValue)
    await Promise.all(watches.map((watch) => watch.untilRevision(last)))
    await Promise.all(writable.map(({ target }) => recorder.list({ target })))
    const reference = await control.finish([], describeServed)
    assertGuarantees(t, recorder.history(writer.writes), reference, { settledRevision: last })
  },
)
