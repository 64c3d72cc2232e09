/** python-etcd3 in etcd's own API: keys, transactions, leases, locks and a watch. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { providePython, pythonFolder } from '../../clients/support/python.js'
import { startEtcd } from '../../support/etcd-process.js'
import { startServer } from '../../support/server-process.js'
import { servedFlags } from '../support/served-flags.js'

const python = providePython('etcd.txt')

void t.test('each call gives what etcd gives', async (t) => {
  const etcd = await startEtcd(t)
  const { url, port } = await startServer(t, {
    // This client keeps its locks under `/locks/`.
    flags: servedFlags(etcd.url, 'flags', 'locks'),
  })
  const seen = async (of: number): Promise<Record<string, unknown>> => {
    const { stdout } = await promisify(execFile)(python, [join(pythonFolder, 'etcd_calls.py'), String(of)], {
      timeout: 120_000,
    })
    await etcd.call('kv/deleterange', { key: 'AA==', range_end: 'AA==' })
    return JSON.parse(stdout) as Record<string, unknown>
  }
  const [own, etcds] = [await seen(port), await seen(Number(new URL(etcd.url).port))]
  t.same(own['members'], [[url]], 'the only member is this server')
  t.same({ ...own, members: null }, { ...etcds, members: null })
  t.same((own['events'] as readonly unknown[]).length, 3)
})
