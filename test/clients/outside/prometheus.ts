/**
 * Prometheus' Kubernetes service discovery, unchanged, in its six roles, through restarts of the server and of etcd.
 */
import t from 'tap'
import { buildGoProgram } from '../../support/go-program.js'
import { prometheusDiscovery } from '../programs.js'
import { cluster, kindPaths } from '../support/cluster.js'
import { startClient } from '../support/program.js'
import { startStage } from '../support/stage.js'
import { listKinds, surviveDisruptions } from '../support/survive.js'

const program = buildGoProgram(prometheusDiscovery)

void t.test('its targets of six roles match a fresh list', async (t) => {
  const stage = await startStage(t, { world: cluster() })
  const client = await startClient(t, [program, stage.url], { KUBE_FEATURE_WatchListClient: 'false' })
  await surviveDisruptions(t, stage, {
    userAgent: /^Prometheus/i,
    printed: () => client.errors(),
    held: async () => (await client.ask('found')) as readonly string[],
    listed: () => listKinds(stage, kindPaths),
  })
  t.notMatch(client.errors(), /panic/)
  t.equal(await client.end(), 0)
})
