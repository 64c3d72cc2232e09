/** Behind the grpc-proxy of etcd 3.7, which drops progress requests, only the first consistent read has to wait. */
import { spawn } from 'node:child_process'
import t from 'tap'
import { endsWithUs } from '../support/ends-with-us.js'
import { etcdBinary, startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { freePort } from '../support/free-port.js'
import { startServer } from '../support/server-process.js'
import { until } from '../support/until.js'

void t.test('a consistent list of a quiet resource does not wait for progress that never comes', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  await writer.commit({ '/quiet/a': '1' })
  const port = await freePort()
  const args = ['grpc-proxy', 'start', `--endpoints=${etcd.url}`, `--listen-addr=127.0.0.1:${port}`]
  const proxy = spawn(etcdBinary, args, { stdio: 'ignore' })
  endsWithUs(proxy)
  t.teardown(() => proxy.kill('SIGKILL'))
  const flags = [`--etcd-servers=http://127.0.0.1:${port}`, '--resource=quiet=/quiet/', '--kubernetes-resources=never']
  const server = await startServer(t, { flags })
  const list = async (): Promise<{ readonly status: number; readonly text: string }> => {
    const response = await fetch(`${server.url}/apis/distributary.io/v1/quiet`)
    return { status: response.status, text: await response.text() }
  }
  for (let i = 0; i < 3; i++) {
    await writer.commit({ '/elsewhere': String(i) })
    t.equal((await list()).status, 200)
  }
  const isOld = (await (await fetch(`${etcd.url}/version`)).text()).includes('"etcdserver":"3.4')
  if (!isOld) await until(() => server.log().includes('etcd does not answer progress requests'), 'the log says so')
  for (let i = 0; i < 5; i++) {
    await writer.commit({ '/quiet/a': `new ${i}` })
    t.match(await list(), { status: 200, text: new RegExp(`new ${i}`) }, 'reads stay consistent')
  }
})
