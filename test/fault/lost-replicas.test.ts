/**
 * Two replicas behind one address, and what agents see when a replica is killed, when the replicas are updated, and
 * when etcd restarts: the holder of a lease keeps it, informers list once and miss nothing, and no request is answered
 * as if something did not exist.
 */
import t, { type Test } from 'tap'
import { LeaderElection } from '../../src/client/leader-election.js'
import { nodeTransport } from '../../src/client/node/node-transport.js'
import type { Transport } from '../../src/client/reflector/transport.js'
import { SharedInformer } from '../../src/client/shared-informer.js'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { only } from '../support/only.js'
import { pod } from '../support/pod.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { pause, until } from '../support/until.js'
import { type Balancer, startBalancer } from './balancer.js'

const PODS = '/api/v1/namespaces/default/pods'
const POLL_MS = 100
const COUNT = 20

/** The responses that a server may give while it cannot serve a request: clients retry after them. */
const MAY_BE_ASKED_AGAIN = [429, 503, 504]

async function startReplica(t: Test, etcd: EtcdProcess, balancer: Balancer): Promise<ServerProcess> {
  const replica = await startServer(t, {
    flags: [
      [
        '--etcd-servers',
        etcd.url,
        '--enable-writes',
        ...only('pods', 'namespaces', 'leases.coordination.k8s.io', 'poddisruptionbudgets.policy'),
      ],
      ['--shutdown-delay-duration', '1s', '--shutdown-watch-termination-grace-period', '1s'],
    ].flat(),
  })
  balancer.add(replica.port)
  await until(() => balancer.ready.has(replica.port), 'the balancer knows the replica')
  return replica
}

interface Agents {
  /** Holds the lease, at the defaults of client-go. */
  readonly holder: { readonly hasLost: boolean }
  readonly informers: readonly SharedInformer[]
  /** How often each informer asked for the whole state. */
  readonly lists: readonly number[]
  /** What no agent should see. */
  readonly faults: readonly string[]
  /** Ends the requests that are being sent throughout. */
  stop(): Promise<void>
}

/** @param url of the balancer. */
async function startAgents(t: Test, url: string): Promise<Agents> {
  const ended = new AbortController()
  const holder = { hasLost: false, isLeading: false }
  const election = new LeaderElection({
    transport: nodeTransport({ server: url }),
    name: 'the-lock',
    namespace: 'default',
    identity: 'agent-0',
  })
  const leading = election
    .run(
      async (signal) => {
        holder.isLeading = true
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      },
      { signal: ended.signal },
    )
    .then((outcome) => (holder.hasLost ||= outcome === 'lost'))

  const lists: number[] = []
  const informers = [0, 1, 2, 3].map((i) => {
    lists[i] = 0
    const inner = nodeTransport({ server: url })
    const transport: Transport = {
      send: (request) => {
        const { watch, sendInitialEvents } = request.query
        if (watch === undefined || sendInitialEvents !== undefined) lists[i]!++
        return inner.send(request)
      },
    }
    const informer = new SharedInformer({ transport, path: '/api/v1/pods' })
    informer.start()
    t.teardown(async () => {
      await informer.stop()
      inner.close()
    })
    return informer
  })

  const faults: string[] = []
  const asking = async (path: string): Promise<void> => {
    while (!ended.signal.aborted) {
      try {
        const answer = await fetch(`${url}${path}`)
        const body = (await answer.json()) as { readonly items?: readonly object[] }
        if (answer.status === 200 && body.items !== undefined && body.items.length !== COUNT) {
          faults.push(`${path}: ${body.items.length} objects`)
        }
        if (answer.status !== 200 && !MAY_BE_ASKED_AGAIN.includes(answer.status)) {
          faults.push(`${path}: ${answer.status} ${JSON.stringify(body)}`)
        }
        if (MAY_BE_ASKED_AGAIN.slice(0, 2).includes(answer.status) && answer.headers.get('retry-after') === null) {
          faults.push(`${path}: ${answer.status} without Retry-After`)
        }
      } catch {
        // The connection broke, as it does with a replica that is killed.
      }
      await pause(50)
    }
  }
  const asked = [PODS, `${PODS}?resourceVersion=0`, `${PODS}/p1`, `${PODS}/p1?resourceVersion=0`].map(asking)
  await until(() => holder.isLeading, 'the lease is held')
  for (const informer of informers) await until(() => informer.store.size === COUNT, 'the informer has the pods')
  return {
    holder,
    informers,
    lists,
    faults,
    async stop() {
      ended.abort()
      await Promise.all([leading, ...asked])
    },
  }
}

/** @param happens called while pods are written; resolves when the agents should be served again. */
async function scene(
  t: Test,
  happens: (etcd: EtcdProcess, replicas: ServerProcess[], balancer: Balancer) => Promise<void>,
): Promise<void> {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  for (let i = 0; i < COUNT; i++) await writer.put(`/registry/pods/default/p${i}`, pod(`p${i}`))
  const balancer = await startBalancer(t, POLL_MS)
  const replicas = [await startReplica(t, etcd, balancer), await startReplica(t, etcd, balancer)]
  const url = `http://127.0.0.1:${balancer.port}`
  const agents = await startAgents(t, url)

  let written = 0
  let isWriting = true
  const writing = (async () => {
    while (isWriting) {
      const name = `p${written % COUNT}`
      // Retry until the write is known to have happened.
      await until(
        () =>
          writer.put(`/registry/pods/default/${name}`, pod(name, { labels: { n: String(written) } })).then(
            () => true,
            () => false,
          ),
        'etcd takes a write',
      )
      written++
      await pause(30)
    }
  })()
  await until(() => written > 5, 'pods are written')
  await happens(etcd, replicas, balancer)
  const before = written
  await until(() => written > before + 2 * COUNT, 'every pod is written again')
  isWriting = false
  await writing

  for (const [i, informer] of agents.informers.entries()) {
    await until(
      () => {
        const newest = Math.max(...informer.store.list().map(({ metadata }) => Number(metadata?.labels?.['n'] ?? -1)))
        return informer.store.size === COUNT && newest === written - 1
      },
      () => `informer ${i} has the last write`,
    )
    t.equal(agents.lists[i], 1, 'it asked for the state once, at the start')
  }
  t.equal(agents.holder.hasLost, false, 'the lease was held throughout')
  await agents.stop()
  t.same([...new Set(agents.faults)], [])
  const lease = await fetch(`${url}/apis/coordination.k8s.io/v1/namespaces/default/leases/the-lock`)
  t.match(await lease.json(), { spec: { leaseTransitions: 0 } })
}

void t.test('a replica is killed', async (t) => {
  await scene(t, async (etcd, replicas, balancer) => {
    const [first] = replicas
    await first!.kill('SIGKILL')
    await until(() => !balancer.ready.has(first!.port), 'the balancer has noticed')
    balancer.remove(first!.port)
    await startReplica(t, etcd, balancer)
  })
})

void t.test('the replicas are updated', async (t) => {
  await scene(t, async (etcd, replicas, balancer) => {
    for (const old of replicas) {
      await startReplica(t, etcd, balancer)
      t.equal(await old.kill('SIGTERM'), 0)
      balancer.remove(old.port)
    }
  })
})

void t.test('etcd restarts', async (t) => {
  await scene(t, async (etcd, replicas) => {
    await etcd.kill()
    for (const { url } of replicas) {
      t.equal((await fetch(`${url}/livez`)).status, 200, 'the replica is alive')
      t.equal((await fetch(`${url}/healthz`)).status, 200, 'and healthy')
    }
    await pause(2_000)
    await etcd.restart()
    for (const { url } of replicas) {
      await until(async () => (await fetch(`${url}${PODS}`)).status === 200, 'a consistent list is answered again')
    }
  })
})
