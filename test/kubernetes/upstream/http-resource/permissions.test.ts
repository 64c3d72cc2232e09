/**
 * What a server behind `--upstream` does with a role that lacks something: right answers, a line in readiness and the
 * log, and no restart when the role is corrected.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { nodeTransport } from '../../../../src/client/node/node-transport.js'
import type { TransportRequest } from '../../../../src/client/reflector/transport.js'
import { RemoteApiServer } from '../../../../src/kubernetes/upstream/remote-api-server.js'
import type { Logger } from '../../../../src/support/log.js'
import { type AppHarness, startApp } from '../../../support/app.js'
import { column, definitionObject } from '../../../support/definition.js'
import { pod } from '../../../support/pod.js'
import { SkippingClock } from '../../../support/skipping-clock.js'
import { pause, until } from '../../../support/until.js'

const DEFINITION = 'apiextensions.k8s.io/customresourcedefinitions/gadgets.example.com'
const definition = definitionObject({
  group: 'example.com',
  plural: 'gadgets',
  kind: 'Gadget',
  scope: 'Namespaced',
  versions: [{ name: 'v1', storage: true, additionalPrinterColumns: [column('Size', 'integer', '.spec.size')] }],
})
const gadget = {
  apiVersion: 'example.com/v1',
  kind: 'Gadget',
  metadata: { name: 'g', namespace: 'a', uid: 'u', creationTimestamp: '2026-01-01T00:00:00Z' },
  spec: { size: 3 },
}

const paths = { users: ['edge'], verbs: ['get'], paths: ['*'] }
const reads = (verbs: readonly string[], ...resources: readonly string[]): object => ({
  users: ['edge'],
  verbs,
  apiGroups: ['*'],
  resources,
})

interface Scene {
  readonly front: AppHarness
  readonly back: AppHarness
  readonly requests: readonly TransportRequest[]
  readonly lines: readonly string[]
  readonly permit: (...rules: readonly object[]) => void
  /** Lets the next attempt of everything that waits begin, and gives it time to end. */
  readonly later: () => Promise<void>
  readonly answer: (path: string, accept?: string) => Promise<{ readonly status: number; readonly text: string }>
}

/** A server in front that plays an API server with authorization, and one behind it with the given permissions. */
const setScene = async (t: Test, ...rules: readonly object[]): Promise<Scene> => await openScene(t, rules)

async function openScene(t: Test, rules: readonly object[], forwards = false): Promise<Scene> {
  const directory = t.testdir({ 'tokens.csv': 'sesame,edge,1\ncaller,caller,2\n' })
  const policy = join(directory, 'policy.yaml')
  const permit = (...given: readonly object[]): void =>
    writeFileSync(
      policy,
      JSON.stringify({ rules: [paths, { ...reads(['list'], 'pods'), users: ['caller'] }, ...given] }),
    )
  permit(...rules)
  const flags = [`--token-auth-file=${directory}/tokens.csv`, '--authorization-mode=Policy']
  const front = await startApp(t, {
    flags: [...flags, `--authorization-policy-file=${policy}`, '--resource=-events'],
    objects: { [DEFINITION]: definition, 'example.com/gadgets/a/g': gadget, 'pods/a/x': pod('x', { namespace: 'a' }) },
  })
  const transport = nodeTransport({ server: front.url, authorization: () => 'Bearer sesame' })
  const requests: TransportRequest[] = []
  let unanswered = 0
  const lines: string[] = []
  const note = (fields: object, message: string): void => void lines.push(`${message} ${JSON.stringify(fields)}`)
  const logger: Logger = { debug() {}, info: note, warn: note, error: note }
  const clock = new SkippingClock()
  const server = new RemoteApiServer({
    transport: {
      send: async (request) => {
        requests.push(request)
        unanswered++
        try {
          return await transport.send(request)
        } finally {
          unanswered--
        }
      },
      close: () => transport.close(),
    },
    url: front.url,
    clock,
    logger,
    speaksSse: false,
  })
  const forwarding = forwards ? ['--passthrough', front.url] : []
  const back = await startApp(t, {
    flags: ['--upstream', front.url, ...forwarding],
    server,
    clock,
    logger,
    ready: false,
  })
  const answer: Scene['answer'] = async (path, accept = 'application/json') => {
    const response = await fetch(`${back.url}${path}`, { headers: { accept, authorization: 'Bearer caller' } })
    return { status: response.status, text: await response.text() }
  }
  const later = async (): Promise<void> => {
    await clock.skip(40_000, 40_000)
    // On a slow machine they take longer, and the next skip would end them.
    for (let before = -1; unanswered > 0 || before < requests.length;) {
      before = requests.length
      await pause(300)
    }
  }
  await until(async () => {
    const { status } = await answer('/api/v1/pods')
    if (forwards) t.equal(status, 200, 'forwarded until the cache is ready, or known to be of no use')
    return status === 200
  }, 'pods are served')
  return { front, back, requests, lines, permit, later, answer }
}

const LIST = ['list', 'watch']

void t.test('an object is read with the permission to list, and readiness names the missing one', async (t) => {
  const { requests, lines, permit, answer, later, front } = await setScene(t, reads(LIST, '*'))
  const path = '/api/v1/namespaces/a/pods/x'
  const gets = (): number => requests.filter((request) => request.path === path).length
  for (let i = 0; i < 3; i++) t.match(await answer(path), { status: 200, text: /"name":"x"/ })
  t.equal((await answer('/api/v1/namespaces/a/pods/y')).status, 404, 'an object that does not exist')
  t.equal(gets(), 1, 'a refused get is not repeated at once')
  t.match((await answer('/readyz?verbose')).text, /^\[\*\]upstream-permissions reads are refused: .*"edge" cannot get/m)
  t.equal(lines.filter((line) => line.includes('"permission":"get pods"')).length, 1, 'one line')
  permit(reads(['get', ...LIST], '*'))
  await until(async () => {
    await later()
    await answer(path)
    return gets() > 1 && /^\[\+\]upstream-permissions ok/m.test((await answer('/readyz?verbose')).text)
  }, 'a permission that comes later is noticed')
  const written = front.put('pods/a/z', pod('z', { namespace: 'a' }))
  await until(async () => (await answer('/api/v1/pods')).text.includes(`"${written}"`), 'and the watch goes on')
})

void t.test('a permission that goes is no timeout, and its reason is only for the operator', async (t) => {
  const { permit, answer, later } = await setScene(t, reads(['get', ...LIST], '*'))
  permit()
  for (const path of ['/api/v1/pods', '/api/v1/namespaces/a/pods/x']) {
    await until(async () => (await answer(path)).status !== 200, `${path} is refused`)
    const { status, text } = await answer(path)
    t.equal(status, 503, path)
    t.match(text, /the storage refuses this server's own reads/)
    t.notMatch(text, /edge|127\.0\.0\.1|forbidden/i)
  }
  t.equal((await answer('/api/v1/pods?resourceVersion=0')).status, 200, 'the cache can be read')
  t.match((await answer('/readyz?verbose')).text, /^\[\*\]upstream-permissions reads are refused: .*cannot (get|list)/m)
  permit(reads(['get', ...LIST], '*'))
  await until(async () => {
    await later()
    return (await answer('/api/v1/pods')).status === 200
  }, 'it is back')
})

void t.test('with --passthrough the API server answers what this server may not read', async (t) => {
  // From the start, with a request that waits for the first list.
  await openScene(t, [], true)
  const { permit, answer, front } = await openScene(t, [reads(['get', ...LIST], '*')], true)
  const readiness = async (): Promise<string> => (await answer('/readyz?verbose')).text
  await until(async () => (await readiness()).includes('[+]cache-pods ok'), 'pods are cached')
  permit()
  await until(async () => {
    t.equal((await answer('/api/v1/pods')).status, 200)
    return (await readiness()).includes('is forbidden')
  }, 'the permission is gone')
  const written = front.put('pods/a/z', pod('z', { namespace: 'a' }))
  const { status, text } = await answer('/api/v1/pods')
  t.equal(status, 200)
  t.ok(text.includes(`"${written}"`), 'the API server answers, as the caller')
})

void t.test('definitions that could not be read at the start are used as soon as they can be', async (t) => {
  const { back, permit, answer, later, lines } = await setScene(t, reads(['get', ...LIST], 'pods', 'gadgets'))
  const list = '/apis/example.com/v1/gadgets'
  const table = 'application/json;as=Table;v=v1;g=meta.k8s.io'
  const columns = async (): Promise<readonly string[]> => {
    const { status, text } = await answer(list, table)
    if (status !== 200) return []
    const { columnDefinitions } = JSON.parse(text) as { columnDefinitions: readonly { readonly name: string }[] }
    return columnDefinitions.map(({ name }) => name)
  }
  await until(async () => (await columns()).length > 0, 'discovery alone serves them')
  t.notOk((await columns()).includes('Size'))
  t.match(
    (await answer('/readyz?verbose')).text,
    /^\[\*\]cache-customresourcedefinitions\S+ not served: permission-denied/m,
  )
  permit(reads(['get', ...LIST], '*'))
  await until(async () => {
    await later()
    return (await columns()).includes('Size')
  }, 'the definition is followed')
  t.not(back.app.registry.find('example.com', 'v1', 'gadgets')?.definition, null)
  t.same(
    lines.filter((line) => /custom resource is/.test(line)),
    [],
    'nothing is said to be in the way',
  )
})

void t.test('an aggregated API is named as soon as the APIServices can be read', async (t) => {
  const { front, permit, answer, later } = await setScene(t, reads(['get', ...LIST], 'pods'))
  const name = 'v1beta1.metrics.example.com'
  front.put(`apiregistration.k8s.io/apiservices/${name}`, {
    apiVersion: 'apiregistration.k8s.io/v1',
    kind: 'APIService',
    metadata: { name, uid: 'u', creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: {
      group: 'metrics.example.com',
      version: 'v1beta1',
      service: { namespace: 'a', name: 's' },
      groupPriorityMinimum: 100,
      versionPriority: 100,
    },
  })
  const path = '/apis/metrics.example.com/v1beta1/things'
  // While the server starts, groups that may still appear answer 503.
  await until(async () => (await answer(path)).status === 404, 'nothing names it')
  t.match((await answer('/readyz?verbose')).text, /^\[\*\]cache-apiservices\S+ not served: permission-denied/m)
  permit(reads(['get', ...LIST], '*'))
  await until(async () => {
    await later()
    return (await answer(path)).status === 503
  }, 'the APIServices are followed')
  t.match((await answer(path)).text, /is served by the service a\/s .*--apiservice/)
})
