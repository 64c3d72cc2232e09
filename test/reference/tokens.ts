/**
 * Service account tokens issued by the API server: both servers say who the caller is, and ours does so without asking.
 * When the pod of a token is deleted, ours rejects the token within a second, and ends the watch that uses it.
 */
import { type Answer, type Server, tryAsk, watch } from './ask.js'
import type { Difference } from './compare.js'
import { NODES, PLACE } from './decisions.js'
import type { Report } from './report.js'
import { eventually, get, send, type World } from './world.js'

const SELF = '/apis/authentication.k8s.io/v1/selfsubjectreviews'
const PODS = `/api/v1/namespaces/${PLACE}/pods`
const READ = { apiGroups: [''], resources: ['pods'], verbs: ['get', 'list', 'watch'] }
const NODE = NODES[0]

/** Compares tokens. This needs the objects that `decisions.ts` creates. */
export async function compareTokens(world: World, report: Report): Promise<void> {
  await letAccountsRead(world)
  const reviewsBefore = await reviews(world)
  const pod = await tokenOf(world, await bindingTo(world, 'v1', 'Pod', `${PODS}/${NODE}`))
  const tokens: readonly (readonly [string, string])[] = [
    ['a pod', pod],
    ['a node', await tokenOf(world, await bindingTo(world, 'v1', 'Node', `/api/v1/nodes/${NODE}`))],
    ['a Secret', await tokenOf(world, await bindingTo(world, 'v1', 'Secret', `/api/v1/namespaces/${PLACE}/secrets/${NODE}`))],
    ['nothing', await tokenOf(world, {})],
    ['another audience', await tokenOf(world, { audiences: ['elsewhere'] })],
  ] // prettier-ignore
  for (const [bound, token] of tokens) {
    const answers = await Promise.all([whoIs(world.theirs, token), whoIs(world.ours, token)])
    add(report, `a token for ${bound}`, ...(answers.map(said) as [string, string]))
  }
  add(report, 'reviews of tokens', `${reviewsBefore}`, `${await reviews(world)}`)

  const end = { watch: '' }
  const stream = await watch(world.ours, `${PODS}?watch=1`, 'application/json', () => {}, pod)
  void stream.ended.then(() => (end.watch = elapsed()))
  await send(world, 'DELETE', `${PODS}/${NODE}`, JSON.stringify({ gracePeriodSeconds: 0 }))
  const deletedMs = performance.now()
  const elapsed = (): string => (performance.now() - deletedMs < 1_000 ? 'within a second' : 'later')
  await eventually(async () => (await whoIs(world.ours, pod)).code === 401, 'a token ends with its pod')
  add(report, 'the end of a pod: its token', 'within a second', elapsed())
  await eventually(async () => Promise.resolve(end.watch !== ''), 'a watch ends with its pod')
  add(report, 'the end of a pod: its watch', 'within a second', end.watch)
  // The API server caches tokens for ten seconds.
  await eventually(async () => (await whoIs(world.theirs, pod)).code === 401, 'the API server refuses it, too')
}

/** Lets the service accounts read pods. */
async function letAccountsRead(world: World): Promise<void> {
  const api = 'rbac.authorization.k8s.io'
  const role = { apiVersion: `${api}/v1`, kind: 'Role', metadata: { name: 'tokens' }, rules: [READ] }
  const subjects = [{ apiGroup: api, kind: 'Group', name: `system:serviceaccounts:${PLACE}` }]
  const roleRef = { apiGroup: api, kind: 'Role', name: 'tokens' }
  const binding = { ...role, kind: 'RoleBinding', rules: undefined, subjects, roleRef }
  const place = `/apis/${api}/v1/namespaces/${PLACE}`
  await send(world, 'POST', `${place}/roles`, JSON.stringify(role))
  await send(world, 'POST', `${place}/rolebindings`, JSON.stringify(binding))
}

async function bindingTo(world: World, apiVersion: string, kind: string, path: string): Promise<object> {
  const { metadata } = JSON.parse((await get(world.theirs, path)).body.toString()) as {
    metadata: { name: string; uid: string }
  }
  return { boundObjectRef: { apiVersion, kind, name: metadata.name, uid: metadata.uid } }
}

async function tokenOf(world: World, spec: object): Promise<string> {
  const path = `/api/v1/namespaces/${PLACE}/serviceaccounts/${NODE}/token`
  const body = {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: { expirationSeconds: 600, ...spec },
  }
  const answer = await send(world, 'POST', path, JSON.stringify(body))
  return (JSON.parse(answer.body.toString()) as { status: { token: string } }).status.token
}

async function whoIs(server: Server, token: string): Promise<Answer> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', accept: 'application/json' }
  return await tryAsk(server, { method: 'POST', path: SELF, headers }, Buffer.from('{}'))
}

/** The status code and the user, including the order of members. */
function said({ code, body }: Answer): string {
  const { status } = JSON.parse(body.toString()) as { status: unknown }
  return `${code} ${JSON.stringify(status)}`
}

/** Returns the number of token reviews that our server has sent. */
async function reviews(world: World): Promise<number> {
  const text = (await get(world.ours, '/metrics')).body.toString()
  const found = /_webhook_request_duration_seconds_count\{[^}]*webhook="token-review"[^}]*\} (\d+)/.exec(text)
  return Number(found?.[1] ?? 0)
}

function add(report: Report, what: string, theirs: string, ours: string): void {
  const differences: Difference[] = theirs === ours ? [] : [{ where: what, theirs, ours }]
  report.add({ method: 'POST', path: SELF, headers: {} }, differences)
}
