/**
 * Long polls through real caches, as `deploy/edge/` configures them: many pollers behind nginx and Varnish, one server,
 * one etcd. What each poller saw is compared with what was written, and the requests that reached the server with those
 * that had to.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { fetchTransport, type KubeObject, pollTransport, SharedInformer } from '../../src/client/index.js'
import { startHttpFaults, type HttpFaults } from '../client/reflector/http-faults.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { freePort } from '../support/free-port.js'
import { type HttpCache, startHttpCache } from '../support/http-cache.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { until } from '../support/until.js'
import { FLAGS, Poller } from './poller.js'

/** The number of pollers for each cache. */
const POLLERS = 1_000

interface Edge {
  readonly cache: HttpCache
  readonly pollers: readonly Poller[]
  /** The server, as the cache reaches it; it records the requests. */
  readonly origin: HttpFaults
}

async function openEdge(
  t: Test,
  name: HttpCache['name'],
  port: number,
  count: number,
  on: ConstructorParameters<typeof Poller>[2],
): Promise<Edge> {
  const origin = await startHttpFaults(t, port)
  const cache = await startHttpCache(t, name, origin.port)
  const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity })
  t.teardown(() => agent.destroy())
  const pollers = Array.from({ length: count }, () => new Poller(cache.url, agent, on))
  return { cache, pollers, origin }
}

async function allReach(
  pollers: readonly Poller[],
  revision: number,
  isRight: (poller: Poller) => boolean = () => true,
): Promise<void> {
  const left = (): number => pollers.filter((one) => one.position < revision || !isRight(one)).length
  await until(
    () => left() === 0,
    () => `${left()} of ${pollers.length} do not have ${revision}`,
    120_000,
  )
}

for (const name of ['nginx', 'varnish'] as const) {
  void t.test(`${name} answers ${POLLERS} pollers from one request a revision, through restarts`, async (t) => {
    const etcd = await startEtcd(t)
    const writer = new EtcdWriter([etcd])
    const port = await freePort()
    // prettier-ignore
    const flags = [
      '--etcd-servers', etcd.url, '--port', String(port), '--resource', 'flags=/config/flags/',
      '--public-caching', 'flags.distributary.io=5s/10s',
    ]
    let server = await startServer(t, { flags })
    const written: number[] = [await writer.put('/config/flags/a', '0')]
    let at = 0
    const write = async (): Promise<number> => {
      const revision = await writer.put(`/config/flags/${'abc'[at % 3]}`, String(++at))
      written.push(revision)
      return revision
    }
    const wrong: string[] = []
    // Exactly what was written after the list, up to where the poller is.
    const check = ({ seen, from, position }: Poller): void => {
      const expected = written.filter((revision) => revision > from && revision <= position)
      if (seen.join() !== expected.join()) wrong.push(`after ${from}: ${seen.join()}, not ${expected.join()}`)
    }
    const { cache, pollers, origin } = await openEdge(t, name, port, POLLERS, { onSegment: check })
    const informer = new SharedInformer<KubeObject & { value: number }>({
      transport: pollTransport(fetchTransport({ server: cache.url }), { waitSeconds: 50 }),
      path: FLAGS,
      backoff: { firstMs: 20, capMs: 200 },
    })
    t.teardown(() => informer.stop())
    informer.start()
    const reach = async (revision: number): Promise<void> => await allReach(pollers, revision)

    await reach(written.at(-1)!)
    const before = origin.requests.length
    for (let i = 0; i < 10; i++) await reach(await write())
    // The informer begins with a poll of a second.
    const polls = origin.requests.slice(before).filter(({ isWatch, query }) => isWatch && query.get('wait') === '50s')
    const byRevision = new Map<string, number>()
    for (const { query } of polls) {
      const revision = query.get('resourceVersion') ?? ''
      byRevision.set(revision, (byRevision.get(revision) ?? 0) + 1)
    }
    t.ok(byRevision.size >= 9, `${byRevision.size} revisions were asked for`)
    t.same(
      new Set(byRevision.values()),
      new Set([1]),
      `each once: ${polls.length} for ${POLLERS} pollers and 10 events`,
    )

    await cache.restart()
    for (let i = 0; i < 3; i++) await reach(await write())
    t.ok(
      pollers.every(({ lists }) => lists === 1),
      'no client lists again after a restart of the cache',
    )

    await server.kill('SIGKILL')
    for (let i = 0; i < 3; i++) await write()
    server = await startServer(t, { flags })
    await reach(await write())
    t.ok(
      pollers.every(({ lists }) => lists === 1),
      'nor of the server, which has read back what was written in the meantime',
    )
    const after = origin.requests.length
    await reach(await write())
    t.ok(origin.requests.length - after < 20, `${origin.requests.length - after} requests for the next event`)

    await until(() => informer.store.list().some(({ value }) => value === at), 'the informer has it, too')
    t.equal(informer.store.list().length, 3)
    await Promise.all(pollers.map(async (poller) => await poller.stop()))
    t.same(wrong.slice(0, 5), [], 'each event came once and in order')
  })

  void t.test(`behind ${name} two independent replicas continue each other's polls`, async (t) => {
    const etcd = await startEtcd(t)
    const writer = new EtcdWriter([etcd])
    // prettier-ignore
    const flags = [
      '--etcd-servers', etcd.url, '--resource', 'flags=/config/flags/', '--public-caching', 'flags.distributary.io=5s/10s',
    ]
    const written: number[] = []
    const write = async (): Promise<number> => {
      written.push(await writer.put(`/config/flags/${'abc'[written.length % 3]}`, String(written.length)))
      return written.at(-1)!
    }
    for (let i = 0; i < 3; i++) await write()
    const ports = [await freePort(), await freePort()] as const
    const start = async (port: number, ...more: string[]): Promise<ServerProcess> =>
      await startServer(t, { flags: [...flags, '--port', String(port), ...more] })
    const [first] = await Promise.all([start(ports[0]), start(ports[1], '--workers', '2')])
    const wrong: string[] = []
    const onSegment = ({ seen, from, position }: Poller): void => {
      const expected = written.filter((revision) => revision > from && revision <= position)
      if (seen.join() !== expected.join()) wrong.push(`after ${from}: ${seen.join()}, not ${expected.join()}`)
    }
    const { pollers, origin } = await openEdge(t, name, ports[0], 200, { onSegment })
    let asked = 0
    origin.fault = () => {
      origin.target = ports[asked++ % 2]!
      return null
    }
    const reach = async (revision: number): Promise<void> => await allReach(pollers, revision)

    await reach(written.at(-1)!)
    for (let i = 0; i < 6; i++) await reach(await write())
    t.ok(asked > 6, `${asked} requests went to one after the other`)
    await first!.kill('SIGKILL')
    for (let i = 0; i < 2; i++) await write()
    await start(ports[0])
    for (let i = 0; i < 4; i++) await reach(await write())
    t.same(new Set(pollers.map(({ lists }) => lists)), new Set([1]), 'nobody listed again')

    const both = async (path: string): Promise<readonly string[][]> =>
      await Promise.all(
        ports.map(async (port) => {
          const response = await fetch(`http://127.0.0.1:${port}${path}`)
          const named = ['etag', 'x-distributary-position', 'cache-control', 'vary'].map(
            (one) => response.headers.get(one) ?? '',
          )
          return [String(response.status), ...named, await response.text()]
        }),
      )
    const [one, other] = await both(`${FLAGS}?history=`)
    t.same(one, other, 'a list is the same at both')
    const position = one![2]!
    const poll = `${FLAGS}?watch=1&resourceVersion=${position.split('.')[0]}&wait=50s&history=${position}`
    const asking = both(poll)
    await write()
    const [poll1, poll2] = await asking
    t.equal(poll1![0], '200')
    t.same(poll1, poll2, 'and so is a poll')
    await Promise.all(pollers.map(async (poller) => await poller.stop()))
    t.same(wrong.slice(0, 5), [], 'each event came once and in order')
  })

  for (const survivors of [0, 1]) {
    void t.test(
      `behind ${name} nobody is led from one history into another when etcd is restored from a copy, ${survivors} of two replicas surviving`,
      async (t) => {
        const etcd = await startEtcd(t)
        const writer = new EtcdWriter([etcd])
        // prettier-ignore
        const flags = [
      '--etcd-servers', etcd.url, '--resource', 'flags=/config/flags/', '--public-caching', 'flags.distributary.io=5s/10s',
    ]
        const folder = mkdtempSync(join(tmpdir(), 'edge-restore-'))
        t.teardown(() => rmSync(folder, { recursive: true, force: true }))
        /** The state at each revision, in the history before the restore and in the one after it. */
        const histories: Map<number, string>[] = [new Map()]
        const state = new Map<string, string>()
        let at = 0
        const write = async (key = 'abc'[at % 3]!): Promise<number> => {
          const revision = await writer.put(`/config/flags/${key}`, String(++at))
          state.set(key, `${key}=${at}@${revision}`)
          histories.at(-1)!.set(revision, [...state.values()].toSorted().join(' '))
          return revision
        }
        const heldAt = (history: ReadonlyMap<number, string>, revision: number): string =>
          [...history].findLast(([one]) => one <= revision)?.[1] ?? ''
        // Judged at the end: a poller can have an event before its writer has the response.
        const held = new Map<string, { readonly state: string; readonly position: number }>()
        const onState = ({ state, position }: Poller): void => {
          held.set(`at ${position}: ${state}`, { state, position })
        }
        for (let i = 0; i < 5; i++) await write()
        const ports = [await freePort(), await freePort()] as const
        const start = async (port: number): Promise<ServerProcess> =>
          await startServer(t, { flags: [...flags, '--port', String(port)] })
        const replicas = await Promise.all(ports.map(start))
        const { pollers, origin } = await openEdge(t, name, ports[0], 200, { onSegment: () => {}, onState })
        let asked = 0
        origin.fault = () => {
          origin.target = ports[asked++ % 2]!
          return null
        }
        const reach = async (revision: number): Promise<void> =>
          await allReach(pollers, revision, (poller) => poller.state === heldAt(histories.at(-1)!, revision))

        await reach([...histories[0]!.keys()].at(-1)!)
        const copy = join(folder, 'copy')
        await etcd.saveSnapshot(copy)
        const saved = new Map(state)
        const before = new Map(histories[0])
        await write('lost')
        for (let i = 0; i < 6; i++) await reach(await write())
        const last = [...histories[0]!.keys()].at(-1)!
        const lists = pollers.map((poller) => poller.lists)

        // A replica that starts later knows only the restored etcd, at as high a revision.
        const killed = replicas.slice(survivors)
        await Promise.all(killed.map(async (replica) => await replica.kill('SIGKILL')))
        await etcd.restoreSnapshot(copy)
        state.clear()
        for (const [key, value] of saved) state.set(key, value)
        histories.push(before)
        let newest = 0
        while (newest < last + 3) newest = await write()
        await Promise.all(ports.slice(survivors).map(start))
        await reach(newest)
        for (let i = 0; i < 3; i++) await reach(await write())
        t.ok(
          pollers.every((poller, i) => poller.lists > lists[i]!),
          'everybody had to list again',
        )
        await Promise.all(pollers.map(async (poller) => await poller.stop()))
        const joined = [...held].filter(
          ([, { state: one, position }]) => !histories.some((history) => heldAt(history, position) === one),
        )
        t.same(joined.slice(0, 5), [], 'what a client held was always of one history')
      },
    )
  }
}
