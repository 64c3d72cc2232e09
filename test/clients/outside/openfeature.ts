/** OpenFeature's Python SDK with its OFREP provider reads flags from a real etcd. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { startEtcd } from '../../support/etcd-process.js'
import { EtcdWriter } from '../../support/etcd-writer.js'
import { startServer } from '../../support/server-process.js'
import { providePython, pythonFolder } from '../support/python.js'

const python = providePython()

void t.test('flags of each type, an unknown flag, and a change', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  await writer.commit({ '/config/flags/color': '"red"', '/config/flags/open': 'true', '/config/flags/limit': '3' })
  const { url } = await startServer(t, {
    flags: ['--etcd-servers', etcd.url, '--resource=flags=/config/flags/', '--ofrep=flags'],
  })
  const evaluated = async (): Promise<unknown> => {
    const { stdout } = await promisify(execFile)(python, [join(pythonFolder, 'flags.py'), url])
    return JSON.parse(stdout)
  }
  const first = {
    color: 'red',
    reason: 'STATIC',
    variant: 'static',
    isOpen: true,
    limit: 3,
    absent: 'default',
    error: 'FLAG_NOT_FOUND',
  }
  t.same(await evaluated(), first)
  await writer.commit({ '/config/flags/color': '"green"', '/config/flags/open': 'false' })
  t.same(await evaluated(), { ...first, color: 'green', isOpen: false })
})
