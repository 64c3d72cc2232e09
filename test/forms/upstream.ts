/** A server behind another one (`--upstream`), which reads etcd. */
import { load } from '../../src/server/config/load.js'
import { noUpstream } from '../../src/server/wiring/nats-fleet.js'
import { Process } from '../../src/server/wiring/server-process.js'
import { startServer } from '../support/server-process.js'
import { processParts } from '../support/process-parts.js'
import { type ServerForm, has, isOfData, isOfEtcd, split } from './form.js'

/** Whether the flags choose another form, or need an etcd: for writes, for Roles, or for declared prefixes. */
const isOther = (flags: readonly string[]): boolean =>
  has(flags, '--workers', '--nats-servers', '--upstream', '--enable-writes') ||
  flags.some((flag) => /\bRBAC\b|^(--resource=)?[a-z]+=\//.test(flag))

export const processFlags: ServerForm['processFlags'] = async (t, flags) => {
  if (isOther(flags)) return null
  const [data] = split(flags, isOfData)
  const { url } = await startServer(t, { flags: data, isSurrounded: false })
  const [, rest] = split(flags, isOfEtcd)
  return [...rest, `--upstream=${url}`]
}

export const appParts: ServerForm['appParts'] = async (t, { flags, store }) => {
  if (isOther(flags)) return null
  const [data] = split(flags, isOfData)
  const loaded = load(['--port=0', ...data], {}, () => '')
  if (loaded.kind !== 'run') throw new Error('the flags of a test must run')
  const behind = new Process({ ...processParts(loaded.config), upstream: store })
  t.teardown(() => behind.stop())
  const { port } = await behind.start()
  return {
    flags: [...flags, `--upstream=http://127.0.0.1:${port}`],
    parts: { upstream: noUpstream('there is no etcd') },
  }
}
