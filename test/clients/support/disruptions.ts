/** The disruptions that every outside client must survive. */
import type { ReplicatedStage, Stage } from './stage.js'

export interface Disruption<S extends Stage = Stage> {
  readonly name: string
  readonly disrupt: (stage: S) => Promise<void>
}

const restartAfter = (signal: NodeJS.Signals) => async (stage: Stage) => {
  await stage.kill(signal)
  // Objects written while no server runs must reach the client as events.
  await stage.write(`without-a-server-${signal.toLowerCase()}`)
  await stage.start()
}

/** None of them may make a client's state stale or cause a relist. */
export const disruptions: readonly Disruption[] = [
  { name: 'SIGTERM to the server', disrupt: restartAfter('SIGTERM') },
  { name: 'kill -9 of the server', disrupt: restartAfter('SIGKILL') },
  { name: 'a restart of etcd', disrupt: async (stage) => await stage.etcd.restart() },
]

/** The same disruptions for two replicas behind one address. */
export const replicaDisruptions: readonly Disruption<ReplicatedStage>[] = [
  { name: 'a rolling update', disrupt: async (stage) => await stage.update() },
  { name: 'kill -9 of a replica', disrupt: async (stage) => await stage.killOne() },
  { name: 'a restart of etcd', disrupt: async (stage) => await stage.etcd.restart() },
]

/** A name for an object written after a disruption, valid for every kind. */
export const momentAfter = (disruption: { readonly name: string }): string =>
  `after-${disruption.name.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}`
