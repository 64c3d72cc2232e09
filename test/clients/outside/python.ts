/**
 * Python clients (the official one, kubernetes_asyncio, lightkube, kr8s), unchanged, follow the pods through restarts
 * of the server and of etcd, and relist only when etcd no longer has the events that they missed. The lists,
 * selections, discovery and waits of kr8s match what the server has.
 */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { until } from '../../support/until.js'
import { cluster } from '../support/cluster.js'
import { startClient } from '../support/program.js'
import { providePython, pythonFolder } from '../support/python.js'
import { startStage } from '../support/stage.js'
import { forgetEvents, list, podLines, surviveDisruptions } from '../support/survive.js'

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
  { name: 'kr8s', userAgent: /^kr8s/, relists: false },
  { name: 'lightkube', userAgent: /^(lightkube|python-httpx)/ },
]

for (const { name, userAgent, relists = true } of followers) {
  void t.test(`${name} holds what a fresh list holds, and relists only after a 410`, async (t) => {
    const stage = await startStage(t, { world: cluster() })
    const client = await startClient(t, [python, join(pythonFolder, 'follow.py'), name, stage.url])
    const ask = async (): Promise<Followed> => (await client.ask('what')) as Followed
    const following = {
      userAgent,
      printed: () => client.errors(),
      held: async () => (await ask()).held,
      listed: () => podLines(stage, 'None'),
    }
    await surviveDisruptions(t, stage, following)
    const { resumed, ...others } = await ask()
    t.match(others, { lists: 1, expired: 0 })
    t.ok(resumed >= 2, `it has resumed ${resumed} times`)
    if (!relists) return
    await forgetEvents(stage, 'forgotten')
    await until(async () => (await ask()).lists === 2, 'it lists again')
    t.match(await ask(), { lists: 2, expired: 1 })
    t.same((await following.held()).toSorted(), (await following.listed()).toSorted())
    t.equal(await client.end(), 0)
  })
}

interface Answers {
  readonly paged: readonly string[]
  readonly resources: readonly (readonly [string, string])[]
}

interface Group {
  readonly versions: readonly { readonly groupVersion: string }[]
}

void t.test('what kr8s lists, selects, discovers and waits for is what the server has', async (t) => {
  const stage = await startStage(t)
  const command = [join(pythonFolder, 'kr8s_calls.py'), stage.url]
  const { stdout } = await promisify(execFile)(python, command, { timeout: 120_000 })
  const { paged, resources, ...others } = JSON.parse(stdout) as Answers
  const pods = (await list(stage, '/api/v1/pods')).items.map(({ metadata: { name } }) => name)
  t.equal(pods.length, 299)
  t.same(paged, pods)
  const pages = stage
    .answered()
    .filter(({ userAgent, path }) => userAgent.startsWith('kr8s') && path === '/api/v1/pods')
  t.equal(pages.length, 3, 'in pages of a hundred')
  t.same(others, {
    named: ['p1', 'p2'],
    selected: ['p5'],
    fields: ['p6'],
    rows: [299],
    kinds: [
      ['pod/v1', 'pods', true],
      ['deployment.apps/v1', 'deployments', true],
      ['endpointslice.discovery.k8s.io/v1', 'endpointslices', true],
    ],
    waited: [false, 'True', false],
  })
  const { groups } = await list<{ groups: readonly Group[] }>(stage, '/apis')
  const served = groups.flatMap(({ versions }) => versions.map(({ groupVersion }) => groupVersion))
  t.same(new Set(resources.map(([version]) => version)), new Set(['v1', ...served]))
})
