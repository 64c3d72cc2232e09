/** kube-state-metrics, unchanged: its series match a fresh list, through restarts of the server and of etcd. */
import t from 'tap'
import { freePorts } from '../../support/free-port.js'
import { buildGoProgram } from '../../support/go-program.js'
import { kubeStateMetrics } from '../programs.js'
import { cluster, kindPaths } from '../support/cluster.js'
import { startProcess } from '../support/start-process.js'
import { startStage } from '../support/stage.js'
import { listKinds, surviveDisruptions } from '../support/survive.js'

const program = buildGoProgram(kubeStateMetrics)

/** The kinds, by their names in series. There are no series for endpoints. */
const { endpoints: _, ...kinds } = kindPaths

const plurals = ['nodes', 'pods', 'services', 'endpointslices', 'ingresses']

void t.test('its series of five kinds match a fresh list', async (t) => {
  const stage = await startStage(t, { world: cluster() })
  const [port = 0, telemetryPort = 0] = await freePorts(2)
  const client = startProcess(
    t,
    [
      program,
      `--apiserver=${stage.url}`,
      '--host=127.0.0.1',
      '--telemetry-host=127.0.0.1',
      `--port=${port}`,
      `--telemetry-port=${telemetryPort}`,
      `--resources=${plurals.join(',')}`,
      `--metric-labels-allowlist=${plurals.map((name) => `${name}=[turn]`).join(',')}`,
    ],
    { KUBE_FEATURE_WatchListClient: 'false' },
  )
  await surviveDisruptions(t, stage, {
    userAgent: /kube-state-metrics/,
    printed: () => client.printed(),
    held: async () => {
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
      return Object.keys(kinds).flatMap((kind) =>
        [...text.matchAll(new RegExp(`^kube_${kind}_labels\\{(.*)\\} 1$`, 'gm'))].map(([, labels = '']) => {
          const of = (label: string): string => new RegExp(`(?:^|,)${label}="([^"]*)"`).exec(labels)?.[1] ?? '?'
          return `${kind} ${of(kind)} ${of('label_turn')}`
        }),
      )
    },
    listed: () => listKinds(stage, kinds),
  })
  t.notOk(client.hasEnded(), client.printed())
  t.notMatch(client.printed(), /panic/)
})
