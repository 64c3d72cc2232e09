/**
 * Python clients (the official one, kubernetes_asyncio, lightkube), unchanged, follow the pods through restarts of the
 * server and of etcd, and relist only when the events they missed are forgotten.
 */
import { join } from 'node:path'
import t from 'tap'
import { until } from '../../support/until.js'
import { cluster } from '../support/cluster.js'
import { startClient } from '../support/program.js'
import { providePython, pythonFolder } from '../support/python.js'
import { startStage } from '../support/stage.js'
import { list, surviveDisruptions } from '../support/survive.js'

const python = providePython()

interface Followed {
  readonly held: readonly string[]
  readonly lists: number
  readonly resumed: number
  readonly expired: number
}

const followers = [
  { name: 'kubernetes', userAgent: /OpenAPI-Generator/ },
  { name: 'kubernetes_asyncio', userAgent: /OpenAPI-Generator/ },
  { name: 'lightkube', userAgent: /^(lightkube|python-httpx)/ },
]

for (const { name, userAgent } of followers) {
  void t.test(`${name} holds what a fresh list holds, and relists only after a 410`, async (t) => {
    const stage = await startStage(t, { world: cluster() })
    const client = await startClient(t, [python, join(pythonFolder, 'follow.py'), name, stage.url])
    const ask = async (): Promise<Followed> => (await client.ask('what')) as Followed
    const following = {
      userAgent,
      printed: () => client.errors(),
      held: async () => (await ask()).held,
      listed: async () =>
        (await list(stage, '/api/v1/pods')).items.map(
          ({ metadata }) => `${metadata.name} ${metadata.labels?.['turn'] ?? 'None'}`,
        ),
    }
    await surviveDisruptions(t, stage, following)
    const { resumed, ...others } = await ask()
    t.match(others, { lists: 1, expired: 0 })
    t.ok(resumed >= 2, `it has resumed ${resumed} times`)
    await stage.kill('SIGKILL')
    await stage.write('forgotten')
    const { header } = await stage.etcd.call('kv/range', { key: 'YQ==' })
    await stage.etcd.compact(Number((header as { revision: string }).revision))
    await stage.start()
    await until(async () => (await ask()).lists === 2, 'it lists again')
    t.match(await ask(), { lists: 2, expired: 1 })
    t.same((await following.held()).toSorted(), (await following.listed()).toSorted())
    t.equal(await client.end(), 0)
  })
}
