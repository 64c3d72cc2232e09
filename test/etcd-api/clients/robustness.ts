/** etcd's own robustness test: its clients run their traffic through restarts, and its validators judge what they saw. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { startClient } from '../../clients/support/program.js'
import { startEtcd } from '../../support/etcd-process.js'
import { freePort } from '../../support/free-port.js'
import { buildGoProgram } from '../../support/go-program.js'
import { startServer } from '../../support/server-process.js'
import { robustness } from './programs.js'

const program = buildGoProgram(robustness)

/** How long each server runs before it is stopped: enough for some hundreds of requests, and for watches to reach past them. */
const TRAFFIC_MS = 2_000

interface Seen {
  readonly Succeeded: number
  readonly Failed: number
  readonly Watches: number
  readonly Events: number
  readonly Progress: number
}

type Verdict = Record<'assumptions' | 'linearization' | 'watch' | 'serializable', { Status: string; Message: string }>

for (const traffic of ['etcd', 'kubernetes']) {
  void t.test(`what clients with the traffic of ${traffic} see is what etcd guarantees`, async (t) => {
    const etcd = await startEtcd(t)
    const port = await freePort()
    const flags = [
      `--port=${port}`,
      `--etcd-servers=${etcd.url}`,
      '--etcd-prefix=/none',
      '--resource=keys=/keys/',
      '--resource=pods=/registry/pods/',
      '--etcd-api=keys,pods',
      '--enable-writes',
      '--authorization-mode=AlwaysAllow',
    ]
    let server = await startServer(t, { flags })
    const client = await startClient(t, [program, `http://127.0.0.1:${port}`, etcd.url, traffic])
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await delay(TRAFFIC_MS)
      await server.kill(signal)
      server = await startServer(t, { flags })
    }
    await delay(TRAFFIC_MS)
    const { Succeeded, Failed, Watches, Events, Progress } = (await client.ask('finish')) as Seen
    const seen = `${Succeeded} calls succeeded, ${Failed} failed; ${Watches} watches had ${Events} events, ${Progress} progress notifications`
    t.comment(seen)
    t.ok(Succeeded > Failed && Events > 0, seen)
    const folder = await mkdtemp(join(tmpdir(), 'distributary-robustness-'))
    t.teardown(() => rm(folder, { recursive: true, force: true }))
    // The validators read etcd's log of requests, which is complete once it has stopped.
    await etcd.saveData(join(folder, 'etcd'))
    const verdict = (await client.ask(join(folder, 'etcd'), 120_000)) as Verdict
    for (const [of, { Status, Message }] of Object.entries(verdict)) {
      t.equal(Status, 'Success', Status === 'Success' ? of : `${of}: ${Message}\n${client.errors()}`)
    }
  })
}
