/**
 * kubectl drains a node: pods go by evictions, and an exhausted budget holds the rest back until there is room again.
 */
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { kubectlBinary } from '../support/kubectl.js'
import { until } from '../support/until.js'

const hasKubectl = spawnSync(kubectlBinary, ['version', '--client']).status === 0

const budget = (allowed: number, currentHealthy: number): object => ({
  apiVersion: 'policy/v1',
  kind: 'PodDisruptionBudget',
  metadata: { name: 'web', namespace: 'default', uid: 'uid-web', generation: 1 },
  spec: { minAvailable: 1, selector: { matchLabels: { app: 'web' } } },
  status: {
    observedGeneration: 1,
    disruptionsAllowed: allowed,
    currentHealthy,
    desiredHealthy: 1,
    expectedPods: 2,
  },
})

const onNode = (name: string, labels: Record<string, string>): object =>
  pod(name, {
    labels,
    spec: { nodeName: 'n', containers: [{ name: 'c', image: 'c:1' }] },
    status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
  })

void t.test('kubectl drain', { skip: hasKubectl ? false : 'no kubectl on this machine' }, async (t) => {
  const h = await startApp(t, {
    flags: ['--enable-writes'],
    objects: {
      'minions/n': { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n', uid: 'uid-n' }, spec: {}, status: {} },
      'pods/default/other': onNode('other', {}),
      'pods/default/web-0': onNode('web-0', { app: 'web' }),
      'pods/default/web-1': onNode('web-1', { app: 'web' }),
      'poddisruptionbudgets/default/web': budget(1, 2),
    },
  })
  const home = mkdtempSync(join(tmpdir(), 'kubectl-drain-'))
  t.teardown(() => rmSync(home, { recursive: true, force: true }))
  const env = { ...process.env, HOME: home, KUBECONFIG: join(home, 'none'), KUBECACHEDIR: join(home, 'cache') }
  const args = ['-s', h.url, 'drain', 'n', '--force', '--timeout=60s']
  const child = spawn(kubectlBinary, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => child.kill('SIGKILL'))
  let text = ''
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (text += chunk.toString()))
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  await until(() => /will retry after 5s/.test(text), 'one of the pods is held back')
  t.match(text, /node\/n cordoned/)
  t.match(
    text,
    /error when evicting pods\/"web-[01]" .*Cannot evict pod as it would violate the pod's disruption budget/,
  )
  const podNames = async (): Promise<string[]> => {
    const { items } = (await (await fetch(`${h.url}/api/v1/pods`)).json()) as {
      readonly items: readonly { readonly metadata: { readonly name: string } }[]
    }
    return items.map(({ metadata }) => metadata.name)
  }
  // kubectl evicts the pods side by side.
  await until(async () => (await podNames()).length === 1, 'of the two pods of the budget one is gone, and the other')
  t.match(await podNames(), [/^web-[01]$/])
  // The evicted pod's replacement is healthy on another node.
  h.put('poddisruptionbudgets/default/web', budget(1, 2))
  t.equal(await ended, 0, text)
  t.match(text, /pod\/other evicted/)
  t.match(text, /pod\/web-0 evicted/)
  t.match(text, /pod\/web-1 evicted/)
  t.match(text, /node\/n drained/)
})
