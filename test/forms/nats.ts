/** An edge that NATS feeds, behind a publisher; one that writes is a candidate behind it. */
import { load } from '../../src/server/config/load.js'
import { noUpstream } from '../../src/server/wiring/nats-fleet.js'
import { Process } from '../../src/server/wiring/server-process.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { startNats } from '../support/nats-process.js'
import { startServer } from '../support/server-process.js'
import { processParts } from '../support/process-parts.js'
import { type ServerForm, has, hasUncached, isOfData, isOfEtcd, split } from './form.js'

const isOther = (flags: readonly string[]): boolean =>
  has(flags, '--workers', '--nats-servers', '--upstream') || hasUncached(flags)
const natsFlags = (url: string): string[] => [`--nats-servers=${url}`, '--nats-lease=1s', '--nats-stream-bytes=4Mi']

export const processFlags: ServerForm['processFlags'] = async (t, flags) => {
  if (isOther(flags)) return null
  const nats = natsFlags((await startNats(t)).url)
  const [data] = split(flags, isOfData)
  if (!has(flags, '--etcd-servers')) {
    const etcd = await startEtcd(t)
    // An empty etcd would not be one of Kubernetes.
    const namespace = { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'default', uid: 'uid-default' } }
    await new EtcdWriter([etcd]).put('/registry/namespaces/default', namespace)
    data.push('--etcd-servers', etcd.url)
  }
  await startServer(t, { flags: [...data, ...nats], isSurrounded: false })
  if (has(flags, '--enable-writes')) return [...flags, ...nats]
  const [, rest] = split(flags, isOfEtcd)
  return [...rest, ...nats, '--nats-role=edge']
}

export const appParts: ServerForm['appParts'] = async (t, { flags, store }) => {
  if (isOther(flags)) return null
  const nats = natsFlags((await startNats(t)).url)
  const etcd = '--etcd-servers=http://127.0.0.1:1'
  const [data] = split(flags, isOfData)
  const loaded = load(['--port=0', etcd, ...data, ...nats], {}, () => '')
  if (loaded.kind !== 'run') throw new Error('the flags of a test must run')
  const origin = new Process({ ...processParts(loaded.config), upstream: store })
  t.teardown(() => origin.stop())
  await origin.start()
  if (has(flags, '--enable-writes')) return { flags: [...flags, etcd, ...nats], parts: { upstream: store } }
  return { flags: [...flags, ...nats, '--nats-role=edge'], parts: { upstream: noUpstream('an edge has none') } }
}
