/** Replicas with `--rebalance` over a real etcd, with the EndpointSlices of their Service, behind a balancer. */
import type { Test } from 'tap'
import { seededRandom } from '../../src/support/random.js'
import { endpointSlice, type SlicePod } from '../support/endpoint-slice.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { only } from '../support/only.js'
import { secureFlags } from '../support/secure-flags.js'
import { type ServerProcess, startServer, total } from '../support/server-process.js'
import { pause, until } from '../support/until.js'
import { startBalancer } from './balancer.js'

export interface RebalancingOptions {
  /** Default: distributary as it is. */
  readonly program?: string
  readonly connections: number
  /** The server's own, or that of the program. */
  readonly quietMs: number
}

const pods = {
  a: { uid: 'a', name: 'web-7c9f-aaaaa' },
  b: { uid: 'b', name: 'web-7c9f-bbbbb' },
  c: { uid: 'c', name: 'web-7c9f-ccccc' },
  /** Of another ReplicaSet. */
  d: { uid: 'd', name: 'web-5d4e-ddddd' },
} satisfies Readonly<Record<string, SlicePod>>

/** Starts two replicas, of which the second has two workers. */
export async function startRebalancingFleet(t: Test, { program, connections, quietMs }: RebalancingOptions) {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const balancer = await startBalancer(t, 100)
  const replicas: ServerProcess[] = []
  const publish = async (...published: readonly SlicePod[]): Promise<void> => {
    await writer.put('/registry/endpointslices/default/web-1', endpointSlice('web-1', 'web', published))
  }
  const start = async ({ uid }: SlicePod, workers = 1): Promise<void> => {
    const replica = await startServer(t, {
      ...(program === undefined ? {} : { program }),
      flags: [
        `--etcd-servers=${etcd.url}`,
        ...only('pods', 'endpointslices.discovery.k8s.io'),
        ...secureFlags(),
        '--rebalance=default/web',
        `--pod-uid=${uid}`,
        `--workers=${workers}`,
      ],
    })
    replicas.push(replica)
    balancer.add(replica.securePort, replica.port)
    await until(() => balancer.ready.has(replica.securePort), 'the balancer knows the replica')
  }
  const { a, b, c, d } = pods
  await publish(a, b)
  await start(a)
  await start(b, 2)
  const shares = (): readonly number[] => replicas.map(({ securePort }) => balancer.connections(securePort))
  const moved = async (): Promise<readonly number[]> =>
    await Promise.all(
      replicas.map(async (one) => total(await one.metrics(), 'distributary_rebalanced_connections_total')),
    )

  return {
    writer,
    url: `https://127.0.0.1:${balancer.port}`,
    shares,
    moved,
    /** Once all clients are connected, half of them to each replica, and both replicas know that they share them. */
    async connected(): Promise<void> {
      await until(() => shares().every((share) => share === connections / 2), 'all are connected', 60_000)
      await pause(quietMs + 3_000)
    },
    /** Adds a replica, and returns when the others have sent it its share. @throws Error if they do not. */
    async grow(withinMs: number): Promise<void> {
      balancer.pickBy(seededRandom(1))
      await publish(a, b, { ...c, ready: false })
      await start(c)
      await publish(a, b, c)
      const fair = connections / 3
      const isFair = (): boolean => shares().every((share) => Math.abs(share - fair) <= 0.15 * fair)
      const shown = (): string => `within 15% of ${fair}: ${shares().join(', ')}`
      await until(isFair, shown, withinMs)
      let last = await moved()
      const isOver = async (): Promise<boolean> => {
        const before = last
        await pause(6_000)
        last = await moved()
        return String(last) === String(before)
      }
      await until(isOver, 'nobody moves any more', withinMs)
      const isWhole = (): boolean => shares().reduce((sum, share) => sum + share, 0) === connections
      await until(isWhole, 'all are connected again')
      t.ok(isFair(), shown())
      t.equal(last[2], 0, 'the new one moves nobody')
    },
    /** The middle of a rolling update, for longer than a new pod has to wait. */
    async rollOut(): Promise<void> {
      const before = await moved()
      await publish(a, b, c, d)
      await pause(quietMs + 6_000)
      t.same(await moved(), before, 'a rollout moves nobody')
    },
  }
}
