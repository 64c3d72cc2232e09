/**
 * Kubernetes' own API server is killed and started again under load, while informers follow a server that reads it
 * (`--upstream`). The API server then has no history, so each informer lists again, once, and no watch is rejected;
 * with `--on-gap=coalesce` they do not even notice. Either way they end with what the API server has. After a restart of
 * ours nobody lists again, since the API server has the history.
 */
import t, { type Test } from 'tap'
import type { SharedInformer } from '../../src/client/shared-informer.js'
import { ask, type Server } from '../reference/ask.js'
import { startApiServer, writeKubeconfig } from '../reference/control-plane.js'
import { buildKubernetes } from '../reference/programs.js'
import { startEtcd } from '../support/etcd-process.js'
import { freePort } from '../support/free-port.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { pause, until } from '../support/until.js'
import { startInformer } from './informer.js'

const INFORMERS = 40
/** Each informer follows one of them. */
const PLURALS = ['configmaps', 'secrets', 'serviceaccounts', 'services'] as const
const OBJECTS = 100

for (const onGap of ['expire', 'coalesce'] as const) {
  void t.test(`an API server that is killed under load, with --on-gap=${onGap}`, async (t) => {
    const etcd = await startEtcd(t)
    const apiServer = await startApiServer(t, etcd.url, buildKubernetes('kube-apiserver'))
    const load = startLoad(t, apiServer.server)
    await until(() => load.writes > 2 * OBJECTS, 'objects are written', 60_000)
    const server = await startServer(t, {
      flags: [
        '--port=0',
        `--upstream=https://127.0.0.1:${apiServer.server.port}`,
        `--kubeconfig=${writeKubeconfig(apiServer)}`,
        '--resource=secrets',
        `--on-gap=${onGap}`,
      ],
    })
    const lists = Array.from({ length: INFORMERS }, () => 0)
    const refused: string[] = []
    const informers = lists.map((_, i) =>
      startInformer(t, `${server.url}/api/v1/${PLURALS[i % PLURALS.length]}`, {
        onList: () => lists[i]!++,
        onRefused: (status) => refused.push(`${i}: ${status}`),
      }),
    )
    await Promise.all(informers.map(async (informer) => await informer.whenSynced()))
    t.ok(lists.every((count) => count === 1))

    const before = load.writes
    await apiServer.restart()
    const restartedMs = performance.now()
    await until(() => load.writes > before + OBJECTS, 'writes go on', 60_000)
    await load.stop()

    const wanted = new Map<string, string>()
    for (const plural of PLURALS) wanted.set(plural, await stateOf(apiServer.server, plural))
    const isEqual = ({ store }: SharedInformer, i: number): boolean =>
      textOf(store.list()) === wanted.get(PLURALS[i % PLURALS.length]!)
    await until(
      () => informers.every(isEqual),
      () => {
        const i = informers.findIndex((informer, at) => !isEqual(informer, at))
        const [ours, theirs] = [textOf(informers[i]!.store.list()), wanted.get(PLURALS[i % PLURALS.length]!)!].map(
          (text) => new Set(text.split('\n')),
        ) as [Set<string>, Set<string>]
        const only = (one: Set<string>, other: Set<string>): string[] => [...one].filter((line) => !other.has(line))
        return `informer ${i} has ${only(ours, theirs).join()} instead of ${only(theirs, ours).join()}`
      },
      60_000,
    )
    t.comment(`after ${Math.round(performance.now() - restartedMs)} ms of the new API server`)
    if (onGap === 'coalesce')
      t.ok(
        lists.every((count) => count === 1),
        `nobody listed again: ${lists.join()}`,
      )
    else
      t.ok(
        lists.every((count) => count <= 2),
        `each listed again once at most: ${lists.join()}`,
      )
    t.same(refused, [], 'nobody was sent away')
  })
}

void t.test('a restart of ours under load: every watch resumes, from the API server’s watch cache', async (t) => {
  const etcd = await startEtcd(t)
  const apiServer = await startApiServer(t, etcd.url, buildKubernetes('kube-apiserver'))
  const load = startLoad(t, apiServer.server)
  await until(() => load.writes > 2 * OBJECTS, 'objects are written', 60_000)
  const port = await freePort()
  const start = (): Promise<ServerProcess> =>
    startServer(t, {
      flags: [
        `--port=${port}`,
        `--upstream=https://127.0.0.1:${apiServer.server.port}`,
        `--kubeconfig=${writeKubeconfig(apiServer)}`,
        '--resource=secrets',
      ],
    })
  const first = await start()
  const lists = Array.from({ length: INFORMERS }, () => 0)
  const informers = lists.map((_, i) =>
    startInformer(t, `${first.url}/api/v1/${PLURALS[i % PLURALS.length]}`, {
      onList: () => lists[i]!++,
      onRefused: () => {},
    }),
  )
  await Promise.all(informers.map(async (informer) => await informer.whenSynced()))
  const before = load.writes
  t.equal(await first.kill('SIGTERM'), 0)
  await until(() => load.writes > before + OBJECTS, 'writes go on', 60_000)
  const second = await start()
  await until(() => second.log().includes('history from before the start'), 'history is read back', 60_000)
  await until(() => load.writes > before + 3 * OBJECTS, 'writes go on', 60_000)
  await load.stop()
  const wanted = await Promise.all(PLURALS.map((plural) => stateOf(apiServer.server, plural)))
  await until(
    () => informers.every(({ store }, i) => textOf(store.list()) === wanted[i % PLURALS.length]),
    'the informers have what the API server has',
    60_000,
  )
  t.comment(
    second
      .log()
      .split('\n')
      .find((line) => line.includes('history from before the start')),
  )
  t.ok(
    lists.every((count) => count === 1),
    `nobody listed again: ${lists.join()}`,
  )
})

/** Creates, changes and deletes objects at the API server until it is stopped; while that is away it waits. */
function startLoad(t: Test, server: Server) {
  const load = { writes: 0, isRunning: true, stop: async () => {} }
  const send = async (method: string, path: string, body: object = {}): Promise<void> => {
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
    const headers = { 'content-type': type, accept: 'application/json' }
    try {
      const { code } = await ask(server, { method, path, headers }, Buffer.from(JSON.stringify(body)))
      if (code < 300) load.writes++
    } catch {
      await pause(50)
    }
  }
  const lane = async (plural: string, kind: string): Promise<void> => {
    const path = `/api/v1/namespaces/default/${plural}`
    for (let i = 0; load.isRunning; i++) {
      const name = `n${i % OBJECTS}`
      const turn = Math.floor(i / OBJECTS)
      const spec = plural === 'services' ? { spec: { ports: [{ port: 80 }] } } : {}
      const object = { apiVersion: 'v1', kind, metadata: { name, labels: { turn: `t${turn}` } }, ...spec }
      // Every third turn an object is deleted, and comes back as another one.
      if (turn % 3 === 2) await send('DELETE', `${path}/${name}`)
      await send('POST', path, object)
      await send('PATCH', `${path}/${name}`, { metadata: { labels: { turn: `t${turn}`, changed: 'yes' } } })
    }
  }
  const kinds = ['ConfigMap', 'Secret', 'ServiceAccount', 'Service']
  const lanes = PLURALS.map((plural, i) => lane(plural, kinds[i]!))
  load.stop = async () => {
    load.isRunning = false
    await Promise.all(lanes)
  }
  t.teardown(load.stop)
  return load
}

interface Named {
  readonly metadata?: { readonly namespace?: string; readonly name?: string; readonly resourceVersion?: string }
}

const textOf = (objects: readonly Named[]): string =>
  objects
    .map(({ metadata }) => `${metadata?.namespace}/${metadata?.name} ${metadata?.resourceVersion}`)
    .toSorted()
    .join('\n')

async function stateOf(server: Server, plural: string): Promise<string> {
  const headers = { accept: 'application/json' }
  const { body } = await ask(server, { method: 'GET', path: `/api/v1/${plural}`, headers })
  return textOf((JSON.parse(body.toString()) as { readonly items: readonly Named[] }).items)
}
