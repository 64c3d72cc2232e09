/** Prometheus' discovery of Kubernetes, unchanged, in its six roles, through restarts of the server and of etcd. */
import t from 'tap'
import { buildGoProgram } from '../../support/go-program.js'
import { prometheusDiscovery } from '../programs.js'
import { cluster } from '../support/cluster.js'
import { startClient } from '../support/program.js'
import { startStage } from '../support/stage.js'
import { list, surviveDisruptions } from '../support/survive.js'

const program = buildGoProgram(prometheusDiscovery)

const roles = {
  node: '/api/v1/nodes',
  pod: '/api/v1/pods',
  service: '/api/v1/services',
  endpoints: '/api/v1/endpoints',
  endpointslice: '/apis/discovery.k8s.io/v1/endpointslices',
  ingress: '/apis/networking.k8s.io/v1/ingresses',
} as const

void t.test('its targets of six roles are what a fresh list holds', async (t) => {
  const stage = await startStage(t, { world: cluster() })
  const client = await startClient(t, [program, stage.url], { KUBE_FEATURE_WatchListClient: 'false' })
  await surviveDisruptions(t, stage, {
    userAgent: /^Prometheus/i,
    printed: () => client.errors(),
    held: async () => (await client.ask('found')) as readonly string[],
    listed: async () => {
      const all = await Promise.all(
        Object.entries(roles).map(async ([role, path]) =>
          (await list(stage, path)).items.map(
            ({ metadata: { name, labels } }) => `${role} ${name} ${labels?.['turn']}`,
          ),
        ),
      )
      return all.flat()
    },
  })
  t.notMatch(client.errors(), /panic/)
  t.equal(await client.end(), 0)
})
