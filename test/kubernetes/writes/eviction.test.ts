/**
 * Evictions, as the Kubernetes documentation describes them ("API-initiated eviction", "Unhealthy Pod Eviction
 * Policy"), with the messages of kube-apiserver.
 */
import t, { type Test } from 'tap'
import { type AppHarness, startApp } from '../../support/app.js'
import { pod } from '../../support/pod.js'

const BUDGETS = '/apis/policy/v1/namespaces/default/poddisruptionbudgets'
const PODS = '/api/v1/namespaces/default/pods'
const REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."

interface BudgetFields {
  readonly name?: string
  readonly spec?: object
  readonly status?: object
  readonly generation?: number
}

/** A budget whose controller has counted three healthy pods, of which two are needed. */
function budget({ name = 'web', spec = {}, status = {}, generation = 1 }: BudgetFields = {}): object {
  const counted = {
    observedGeneration: 1,
    disruptionsAllowed: 1,
    currentHealthy: 3,
    desiredHealthy: 2,
    expectedPods: 3,
  }
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: { name, namespace: 'default', uid: `uid-${name}`, generation },
    spec: { minAvailable: 2, selector: { matchLabels: { app: 'web' } }, ...spec },
    status: { ...counted, ...status },
  }
}

const ready = (status: 'True' | 'False', phase = 'Running'): object => ({
  phase,
  conditions: [{ type: 'Ready', status }],
})

const webPod = (status: object = ready('True'), labels: Record<string, string> = { app: 'web' }): object =>
  pod('a', { labels, status: status as Record<string, unknown> })

interface Answer {
  readonly code: number
  readonly retryAfter: string | null
  readonly body: Record<string, unknown>
}

async function evict(h: AppHarness, fields: object = {}, query = '', name = 'a'): Promise<Answer> {
  const response = await fetch(`${h.url}${PODS}/a/eviction${query}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      apiVersion: 'policy/v1',
      kind: 'Eviction',
      metadata: { name, namespace: 'default' },
      ...fields,
    }),
  })
  const retryAfter = response.headers.get('retry-after')
  return { code: response.status, retryAfter, body: (await response.json()) as Record<string, unknown> }
}

interface Read {
  readonly metadata: { readonly resourceVersion: string; readonly deletionTimestamp?: string }
  readonly status: Record<string, unknown>
}

async function read(h: AppHarness, path: string): Promise<Read | null> {
  const response = await fetch(h.url + path)
  return response.status === 404 ? null : ((await response.json()) as Read)
}

async function start(t: Test, podObject: object, itsBudget = budget()): Promise<AppHarness> {
  const objects = { 'pods/default/a': podObject, 'poddisruptionbudgets/default/web': itsBudget }
  return await startApp(t, { flags: ['--enable-writes'], objects })
}

interface Case {
  readonly name: string
  readonly pod?: object
  readonly budgets?: readonly object[]
  readonly code: number
  readonly cause?: string
  readonly retryAfter?: string
  readonly message?: string
  /** The disruptions that the budget allows afterwards; undefined means unchanged. */
  readonly left?: number
}

const none = { disruptionsAllowed: 0, currentHealthy: 2 }
const refusing = (condition: object): object => ({
  ...none,
  conditions: [{ type: 'DisruptionAllowed', status: 'False', ...condition }],
})

const CASES: readonly Case[] = [
  { name: 'a pod without a budget', pod: webPod(ready('True'), { app: 'other' }), code: 201 },
  { name: 'a pod whose budget allows a disruption', code: 201, left: 0 },
  {
    name: 'a pod of a budget for the whole namespace',
    budgets: [budget({ spec: { selector: {} } })],
    code: 201,
    left: 0,
  },
  {
    name: 'a budget without a selector selects nothing',
    budgets: [budget({ spec: { selector: null }, status: none })],
    code: 201,
  },
  {
    name: 'a budget with a wrong selector selects nothing',
    budgets: [
      budget({ spec: { selector: { matchExpressions: [{ key: 'app', operator: 'Odd', values: [] }] } }, status: none }),
    ],
    code: 201,
  },
  {
    name: 'a budget by expressions',
    budgets: [
      budget({
        spec: { selector: { matchExpressions: [{ key: 'app', operator: 'In', values: ['web', 'x'] }] } },
        status: none,
      }),
    ],
    code: 429,
    cause: 'The disruption budget web needs 2 healthy pods and has 2 currently',
  },
  {
    name: 'a pod whose budget is spent',
    budgets: [budget({ status: none })],
    code: 429,
    cause: 'The disruption budget web needs 2 healthy pods and has 2 currently',
  },
  {
    name: 'a budget whose controller could not count',
    budgets: [budget({ status: refusing({ reason: 'SyncFailed', message: 'found no controllers for pod "a"' }) })],
    code: 429,
    cause:
      'The disruption budget web does not allow evicting pods currently because it failed sync: found no controllers for pod "a"',
  },
  {
    name: 'a budget that refuses although there are enough',
    budgets: [budget({ status: { ...refusing({ reason: 'Odd', message: 'why' }), currentHealthy: 3 } })],
    code: 429,
    cause: 'The disruption budget web does not allow evicting pods currently (Odd): why',
  },
  {
    name: 'a budget that its controller has not seen',
    budgets: [budget({ generation: 2 })],
    code: 429,
    cause: 'The disruption budget web is still being processed by the server.',
    retryAfter: '10',
  },
  {
    name: 'a budget that no controller has ever seen',
    budgets: [budget({ status: { observedGeneration: undefined, disruptionsAllowed: undefined } })],
    code: 429,
    cause: 'The disruption budget web is still being processed by the server.',
    retryAfter: '10',
  },
  {
    name: 'a budget with a number below zero',
    budgets: [budget({ status: { disruptionsAllowed: -1 } })],
    code: 403,
    message: 'poddisruptionbudget.policy "web" is forbidden: pdb disruptions allowed is negative',
  },
  {
    name: 'a budget with more evictions than its controller has seen: at the bound',
    budgets: [budget({ status: { disruptedPods: disrupted(2_000) } })],
    code: 201,
    left: 0,
  },
  {
    name: 'a budget with more evictions than its controller has seen: past the bound',
    budgets: [budget({ status: { disruptedPods: disrupted(2_001) } })],
    code: 403,
    message:
      'poddisruptionbudget.policy "web" is forbidden: DisruptedPods map too big - too many evictions not confirmed by PDB controller',
  },
  {
    name: 'a pod with two budgets',
    budgets: [budget(), budget({ name: 'web-1' })],
    code: 500,
    message: 'This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.',
  },
  ...['Succeeded', 'Failed', 'Pending'].map((phase) => ({
    name: `a pod that is ${phase}, whatever its budget says`,
    pod: webPod(ready('False', phase)),
    budgets: [budget({ status: none })],
    code: 201,
  })),
  {
    name: 'a pod that is not ready, with enough that are',
    pod: webPod(ready('False')),
    budgets: [budget({ status: none })],
    code: 201,
  },
  {
    name: 'a pod that is not ready, with too few that are',
    pod: webPod(ready('False')),
    budgets: [budget({ status: { ...none, currentHealthy: 1 } })],
    code: 429,
    cause: 'The disruption budget web needs 2 healthy pods and has 1 currently',
  },
  {
    name: 'a pod that is not ready, with too few that are, under AlwaysAllow',
    pod: webPod(ready('False')),
    budgets: [budget({ spec: { unhealthyPodEvictionPolicy: 'AlwaysAllow' }, status: { ...none, currentHealthy: 1 } })],
    code: 201,
  },
  {
    name: 'a pod that is not ready, with too few that are, under IfHealthyBudget',
    pod: webPod(ready('False')),
    budgets: [
      budget({ spec: { unhealthyPodEvictionPolicy: 'IfHealthyBudget' }, status: { ...none, currentHealthy: 1 } }),
    ],
    code: 429,
    cause: 'The disruption budget web needs 2 healthy pods and has 1 currently',
  },
  {
    name: 'a pod that is not ready, of a budget that needs none, counts',
    pod: webPod(ready('False')),
    budgets: [budget({ status: { desiredHealthy: 0 } })],
    code: 201,
    left: 0,
  },
  {
    name: 'a pod that is ready, under AlwaysAllow',
    budgets: [budget({ spec: { unhealthyPodEvictionPolicy: 'AlwaysAllow' }, status: none })],
    code: 429,
    cause: 'The disruption budget web needs 2 healthy pods and has 2 currently',
  },
]

function disrupted(pods: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: pods }, (_, i) => [`p${i}`, '2026-01-01T00:00:00Z']))
}

void t.test('the decisions of the budgets', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes'] })
  for (const one of CASES) {
    const budgets = one.budgets ?? [budget()]
    h.put('pods/default/a', one.pod ?? webPod())
    h.put('poddisruptionbudgets/default/web', budgets[0]!)
    if (budgets[1] === undefined) h.delete('poddisruptionbudgets/default/web-1')
    else h.put('poddisruptionbudgets/default/web-1', budgets[1])
    await judge(t, h, one)
  }
})

async function judge(t: Test, h: AppHarness, { name, code, cause, retryAfter, message, left }: Case): Promise<void> {
  await t.test(name, async (t) => {
    const before = (await read(h, `${BUDGETS}/web`))!
    const answer = await evict(h)
    t.equal(answer.code, code, JSON.stringify(answer.body))
    t.equal(answer.retryAfter, retryAfter ?? null)
    const gone = (await read(h, `${PODS}/a`)) === null
    if (code === 201) {
      t.same(answer.body, { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', code: 201 })
      t.ok(gone, 'the pod is gone')
    } else {
      t.match(answer.body, { kind: 'Status', status: 'Failure', code, message: message ?? REFUSED })
      if (cause !== undefined) {
        t.match(answer.body, {
          reason: 'TooManyRequests',
          details: { causes: [{ reason: 'DisruptionBudget', message: cause }] },
        })
      }
      t.notOk(gone, 'the pod is still there')
    }
    const after = (await read(h, `${BUDGETS}/web`))!
    if (left === undefined) return void t.same(after, before, 'the budget is as before')
    t.match(after.status, { disruptionsAllowed: left, disruptedPods: { a: /^20.*Z$/ } })
  })
}

void t.test('the last disruption used is reported with the controller’s message', async (t) => {
  const conditions = [
    { type: 'Odd', status: 'True' },
    {
      type: 'DisruptionAllowed',
      status: 'True',
      observedGeneration: 1,
      lastTransitionTime: '2026-01-01T00:00:00Z',
      reason: 'SufficientPods',
      message: '',
    },
  ]
  const h = await start(t, webPod(), budget({ status: { conditions } }))
  t.equal((await evict(h)).code, 201)
  t.match((await read(h, `${BUDGETS}/web`))!.status['conditions'], [
    { type: 'Odd', status: 'True' },
    { type: 'DisruptionAllowed', status: 'False', observedGeneration: 1, reason: 'InsufficientPods', message: '' },
  ])
})

void t.test('a dry run is answered like the eviction, without a change', async (t) => {
  const all = { deleteOptions: { dryRun: ['All'] } }
  for (const [fields, query] of [
    [{}, '?dryRun=All'],
    [all, ''],
  ] as const) {
    const h = await start(t, webPod())
    const before = [await read(h, `${PODS}/a`), await read(h, `${BUDGETS}/web`)]
    t.equal((await evict(h, fields, query)).code, 201)
    t.same([await read(h, `${PODS}/a`), await read(h, `${BUDGETS}/web`)], before)
    h.put('poddisruptionbudgets/default/web', budget({ status: none }))
    t.equal((await evict(h, fields, query)).code, 429)
  }
})

void t.test('the preconditions in its deleteOptions count', async (t) => {
  for (const status of [ready('True'), ready('False'), ready('False', 'Pending'), ready('False', 'Failed')]) {
    const h = await start(t, webPod(status))
    const { resourceVersion } = (await read(h, `${PODS}/a`))!.metadata
    const withPreconditions = (preconditions: object): Promise<Answer> =>
      evict(h, { deleteOptions: { gracePeriodSeconds: 5, preconditions } })
    t.match(await withPreconditions({ uid: 'another' }), { code: 409, body: { reason: 'Conflict' } })
    t.match(await withPreconditions({ resourceVersion: '1' }), { code: 409, body: { reason: 'Conflict' } })
    t.ok(await read(h, `${PODS}/a`))
    t.equal((await withPreconditions({ uid: 'uid-default-a', resourceVersion })).code, 201)
    t.equal(await read(h, `${PODS}/a`), null)
  }
})

void t.test('watchers see why a pod was evicted', async (t) => {
  const h = await start(t, webPod())
  const { resourceVersion } = (await read(h, `${PODS}/a`))!.metadata
  t.equal((await evict(h)).code, 201)
  const watch = await fetch(`${h.url}${PODS}?watch=true&resourceVersion=${resourceVersion}&timeoutSeconds=1`)
  const events = (await watch.text())
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { type: string; object: Read })
  t.same(
    events.map(({ type }) => type),
    ['MODIFIED', 'DELETED'],
  )
  for (const { object } of events) {
    t.match(object.status['conditions'], [
      { type: 'Ready' },
      { type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI', message: 'Eviction API: evicting' },
    ])
  }
})

void t.test('a pod with a finalizer is marked, and evicted again at no cost', async (t) => {
  const held = webPod() as { metadata: object }
  const h = await start(t, { ...held, metadata: { ...held.metadata, finalizers: ['example.com/hold'] } })
  for (let i = 0; i < 2; i++) {
    t.equal((await evict(h)).code, 201)
    t.ok((await read(h, `${PODS}/a`))!.metadata.deletionTimestamp)
    t.equal((await read(h, `${BUDGETS}/web`))!.status['disruptionsAllowed'], 0)
  }
})

void t.test('of many evictions at once a budget allows as many as it has left', async (t) => {
  const names = Array.from({ length: 12 }, (_, i) => `p${i}`)
  const h = await startApp(t, {
    flags: ['--enable-writes'],
    objects: {
      ...Object.fromEntries(
        names.map((name) => [
          `pods/default/${name}`,
          pod(name, { labels: { app: 'web' }, status: ready('True') as Record<string, unknown> }),
        ]),
      ),
      'poddisruptionbudgets/default/web': budget({ status: { disruptionsAllowed: 5, currentHealthy: 12 } }),
    },
  })
  const codes = await Promise.all(
    names.map(async (name) => {
      const { status } = await fetch(`${h.url}${PODS}/${name}/eviction`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ apiVersion: 'policy/v1beta1', kind: 'Eviction', metadata: { name } }),
      })
      return status
    }),
  )
  t.equal(codes.filter((code) => code === 201).length, 5)
  t.equal(codes.filter((code) => code === 429).length, 7)
  const { disruptionsAllowed, disruptedPods } = (await read(h, `${BUDGETS}/web`))!.status
  t.equal(disruptionsAllowed, 0)
  t.equal(Object.keys(disruptedPods as object).length, 5)
})

void t.test('only an eviction of this pod is accepted', async (t) => {
  const h = await start(t, webPod())
  t.match(await evict(h, {}, '', 'b'), {
    code: 400,
    body: { message: 'name in URL does not match name in Eviction object' },
  })
  t.equal((await evict(h, { kind: 'Pod' })).code, 400)
  t.equal((await evict(h, { apiVersion: 'v1' })).code, 400)
  t.equal((await evict(h, { metadata: { name: 'a', namespace: 'other' } })).code, 400)
  t.equal((await evict(h, { deleteOptions: { propagationPolicy: 'Odd' } })).code, 422)
  t.equal((await evict(h, { spec: 'x'.repeat(10_000) })).code, 413)
  for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
    const { status } = await fetch(`${h.url}${PODS}/a/eviction`, { method })
    t.equal(status, 405, method)
  }
  t.ok(await read(h, `${PODS}/a`))
  h.delete('pods/default/a')
  t.match(await evict(h), { code: 404, body: { message: 'pods "a" not found', details: { name: 'a', kind: 'pods' } } })
})

void t.test('a server without writes does not evict, and discovery does not offer it', async (t) => {
  const h = await startApp(t, { objects: { 'pods/default/a': webPod() } })
  t.match(await evict(h), { code: 405, body: { message: /needs --enable-writes/ } })
  const { resources } = (await (await fetch(`${h.url}/api/v1`)).json()) as { resources: readonly { name: string }[] }
  t.notOk(resources.some(({ name }) => name === 'pods/eviction'))
})

void t.test('a drain finds it in discovery', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes'] })
  const { resources } = (await (await fetch(`${h.url}/api/v1`)).json()) as { resources: readonly { name: string }[] }
  t.same(
    resources.find(({ name }) => name === 'pods/eviction'),
    {
      name: 'pods/eviction',
      singularName: '',
      namespaced: true,
      group: 'policy',
      version: 'v1',
      kind: 'Eviction',
      verbs: ['create'],
    },
  )
})

void t.test('a controller that counted before the eviction gets a conflict, and counts again', async (t) => {
  const h = await start(t, webPod())
  const counted = (await read(h, `${BUDGETS}/web`))!
  t.equal((await evict(h)).code, 201)
  const write = (found: Read, status: object): Promise<Response> =>
    fetch(`${h.url}${BUDGETS}/web/status`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...found, status: { ...found.status, ...status } }),
    })
  const refused = await write(counted, { disruptionsAllowed: 1 })
  t.equal(refused.status, 409)
  t.match(await refused.json(), { reason: 'Conflict', message: /the object has been modified/ })
  const again = (await read(h, `${BUDGETS}/web`))!
  t.match(again.status, { disruptionsAllowed: 0, disruptedPods: { a: /Z$/ } })
  t.equal((await write(again, { currentHealthy: 2, disruptedPods: {} })).status, 200)
  const after = (await read(h, `${BUDGETS}/web`))!.status
  t.match(after, { disruptionsAllowed: 0, currentHealthy: 2, disruptedPods: undefined })
})
