/** clientv3 with its concurrency recipes, through a restart of the server. Each of its checks is an assertion. */
import t, { type Test } from 'tap'
import { startClient } from '../../clients/support/program.js'
import { startEtcd } from '../../support/etcd-process.js'
import { freePort } from '../../support/free-port.js'
import { buildGoProgram } from '../../support/go-program.js'
import { startServer } from '../../support/server-process.js'
import { servedFlags } from '../support/served-flags.js'
import { clientv3 } from './programs.js'

const program = buildGoProgram(clientv3)

interface Check {
  readonly What: string
  readonly Ok: boolean
  readonly Seen: string
}

for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
  void t.test(`sessions, mutexes, elections, STM and watches survive a ${signal}`, async (t) => {
    const etcd = await startEtcd(t)
    const port = await freePort()
    const flags = [`--port=${port}`, ...servedFlags(etcd.url, 'locks')]
    const server = await startServer(t, { flags })
    const client = await startClient(t, [program, `http://127.0.0.1:${port}`])
    const phase = async (name: string): Promise<void> => judge(t, name, (await client.ask(name)) as readonly Check[])
    await phase('calls')
    await phase('stm')
    await phase('recipes')
    await phase('hold')
    await server.kill(signal)
    await startServer(t, { flags })
    await phase('release')
  })
}

function judge(t: Test, phase: string, checks: readonly Check[]): void {
  t.ok(checks.length > 0, `${phase} has checks`)
  for (const { What, Ok, Seen } of checks) t.ok(Ok, Ok ? What : `${What}: ${Seen}`)
}
