/**
 * Tests the defaults of built-in kinds as clients see them: every verb fills them in, they have the right owner, and
 * they alone change nothing.
 */
import t from 'tap'
import { startApp } from '../../../support/app.js'
import { APPLY, clientOf, JSON_PATCH, MERGE, STRATEGIC } from '../client.js'

const DEPLOYMENTS = '/apis/apps/v1/namespaces/default/deployments'

function deployment(name: string, spec: object = {}): object {
  const labels = { app: name }
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { containers: [{ name: 'web', image: 'web', ports: [{ containerPort: 80 }] }] },
      },
      ...spec,
    },
  }
}

const FILLED = {
  spec: {
    replicas: 1,
    strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: '25%', maxUnavailable: '25%' } },
    template: {
      spec: {
        dnsPolicy: 'ClusterFirst',
        securityContext: {},
        containers: [{ name: 'web', imagePullPolicy: 'Always', ports: [{ containerPort: 80, protocol: 'TCP' }] }],
      },
    },
  },
}

void t.test('every verb fills in the defaults', async (t) => {
  const { url } = await startApp(t, { flags: ['--enable-writes'] })
  const send = clientOf(url)
  const made = await send('POST', DEPLOYMENTS, deployment('made'))
  t.match(made.body, FILLED, 'POST')
  t.match((await send('PUT', `${DEPLOYMENTS}/made`, deployment('made'))).body, FILLED, 'PUT')
  const patches: readonly (readonly [string, object, Record<string, string>])[] = [
    ['merge patch', { spec: { replicas: null } }, MERGE],
    ['JSON patch', [{ op: 'remove', path: '/spec/replicas' }], JSON_PATCH],
    ['strategic patch', { spec: { strategy: null, replicas: null } }, STRATEGIC],
  ]
  for (const [what, patch, headers] of patches) {
    const answer = await send('PATCH', `${DEPLOYMENTS}/made`, patch, headers)
    t.equal(answer.code, 200, what)
    t.match(answer.body, FILLED, what)
  }
  const path = `${DEPLOYMENTS}/applied?fieldManager=me`
  const applied = await send('PATCH', path, deployment('applied'), APPLY)
  t.match(applied.body, FILLED, 'apply')
  const again = await send('PATCH', path, deployment('applied'), APPLY)
  t.equal(
    again.body.metadata?.resourceVersion,
    applied.body.metadata?.resourceVersion,
    'applying the same again writes nothing',
  )
  t.match(again.body, { spec: { template: { spec: { containers: { length: 1, 0: { ports: { length: 1 } } } } } } })
  const status = await send('PATCH', `${DEPLOYMENTS}/made/status`, { status: { replicas: 1 } }, MERGE)
  t.match(status.body, FILLED, 'status')
})

void t.test('an apply does not own the defaults, a create does', async (t) => {
  const { url } = await startApp(t, { flags: ['--enable-writes'] })
  const send = clientOf(url)
  const applied = await send('PATCH', `${DEPLOYMENTS}/web?fieldManager=one`, deployment('web'), APPLY)
  const owned = JSON.stringify(applied.body.metadata?.['managedFields'])
  t.match(owned, 'f:containers')
  t.notMatch(owned, /f:replicas|f:strategy|f:dnsPolicy|f:imagePullPolicy/)
  const other = await send('PATCH', `${DEPLOYMENTS}/web?fieldManager=two`, deployment('web', { replicas: 3 }), APPLY)
  t.equal(other.code, 200, 'so another may set it')
  t.match(other.body, { spec: { replicas: 3 } })
  const without = await send('PATCH', `${DEPLOYMENTS}/web?fieldManager=two`, deployment('web'), APPLY)
  t.match(without.body, FILLED, 'and what it gives up is the default again')
  const made = await send('POST', DEPLOYMENTS, deployment('made'))
  t.match(JSON.stringify(made.body.metadata?.['managedFields']), /f:replicas/, 'as the API server has it')
})

void t.test('a stored object is written back without a change', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes'] })
  const send = clientOf(h.url)
  const made = await send('POST', DEPLOYMENTS, deployment('web'))
  const put = await send('PUT', `${DEPLOYMENTS}/web`, made.body)
  t.equal(put.body.metadata?.resourceVersion, made.body.metadata?.resourceVersion)
  const bare = { ...deployment('old'), metadata: { name: 'old', namespace: 'default', uid: 'u', generation: 4 } }
  h.put('deployments/default/old', bare)
  const old = await send('PATCH', `${DEPLOYMENTS}/old`, {}, MERGE)
  t.equal(old.code, 200)
  const same = await send('PUT', `${DEPLOYMENTS}/old`, old.body)
  t.equal(same.body.metadata?.resourceVersion, old.body.metadata?.resourceVersion, 'stored without defaults')
  const labelled = await send('PATCH', `${DEPLOYMENTS}/old`, { metadata: { labels: { a: 'b' } } }, MERGE)
  t.match(
    labelled.body,
    { ...FILLED, metadata: { generation: 4 } },
    'they come with a change, and are none of the spec',
  )
  t.notMatch(JSON.stringify(labelled.body.metadata?.['managedFields']), 'f:replicas', "nor the writer's")
  const removed = await send('DELETE', `${DEPLOYMENTS}/old`)
  t.equal(removed.code, 200)
})

void t.test('a namespace keeps its own label', async (t) => {
  const { url } = await startApp(t, { flags: ['--enable-writes'] })
  const send = clientOf(url)
  await send('POST', '/api/v1/namespaces', { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'team' } })
  const labels = { 'kubernetes.io/metadata.name': null, tier: 'one' }
  const answer = await send('PATCH', '/api/v1/namespaces/team', { metadata: { labels } }, MERGE)
  t.match(answer.body, {
    metadata: { labels: { 'kubernetes.io/metadata.name': 'team', tier: 'one' } },
    status: { phase: 'Active' },
  })
})
