/**
 * A server that plays an API server with authorization, and one behind it (`--upstream`) whose permissions there the
 * test changes.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { nodeTransport } from '../../../../src/client/node/node-transport.js'
import type { TransportRequest } from '../../../../src/client/reflector/transport.js'
import { RemoteApiServer } from '../../../../src/kubernetes/upstream/remote-api-server.js'
import type { Logger } from '../../../../src/support/log.js'
import { type AppHarness, startApp } from '../../../support/app.js'
import { column, definitionObject } from '../../../support/definition.js'
import { pod } from '../../../support/pod.js'
import { SkippingClock } from '../../../support/skipping-clock.js'
import { pause, until } from '../../../support/until.js'

/** The verbs that a cache needs. */
export const LIST = ['list', 'watch']

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
export const reads = (verbs: readonly string[], ...resources: readonly string[]): object => ({
  users: ['edge'],
  verbs,
  apiGroups: ['*'],
  resources,
})

export interface Scene {
  readonly front: AppHarness
  readonly back: AppHarness
  readonly requests: readonly TransportRequest[]
  readonly lines: readonly string[]
  readonly clock: SkippingClock
  readonly permit: (...rules: readonly object[]) => void
  /** Lets the next attempt of everything that waits begin, and gives it time to end. */
  readonly later: () => Promise<void>
  readonly answer: (path: string, accept?: string) => Promise<{ readonly status: number; readonly text: string }>
}

/** A server in front that plays an API server with authorization, and one behind it with the given permissions. */
export const setScene = async (t: Test, ...rules: readonly object[]): Promise<Scene> => await openScene(t, rules)

export async function openScene(t: Test, rules: readonly object[], forwards = false): Promise<Scene> {
  const directory = t.testdir({ 'tokens.csv': 'sesame,edge,1\ncaller,caller,2\n' })
  const policy = join(directory, 'policy.yaml')
  const permit = (...given: readonly object[]): void =>
    writeFileSync(policy, JSON.stringify({ rules: [paths, { ...reads(LIST, 'pods'), users: ['caller'] }, ...given] }))
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
  return { front, back, requests, lines, clock, permit, later, answer }
}
