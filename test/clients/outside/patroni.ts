/** Patroni keeps its lock through restarts of the server, of one of two replicas, and of etcd. */
import t from 'tap'
import { disruptions, replicaDisruptions } from '../support/disruptions.js'
import { keepLock } from '../support/patroni.js'
import { startReplicatedStage, startStage } from '../support/stage.js'

/** One of the pods in the stage's etcd. */
const pod = 'p200'

void t.test('Patroni keeps its lock', async (t) => {
  await keepLock(t, await startStage(t), disruptions, { pod })
})

void t.test('Patroni keeps its lock behind two replicas', async (t) => {
  await keepLock(t, await startReplicatedStage(t), replicaDisruptions, { pod })
})
