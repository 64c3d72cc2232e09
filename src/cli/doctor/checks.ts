/**
 * The checks of `distributary doctor`. Each compares two servers. Its verdict is `wrong` only if an agent would notice
 * the difference, and `skipped`, with the reason, if a permission or an option is missing.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import type { ApiResource } from '../../client/discovery.js'
import { resourcePath } from '../../client/resource-path.js'
import { errorMessage } from '../../support/error-message.js'
import { expecting } from '../../support/https-agent.js'
import type { ListedObject, ComparedServer, Reply, Subject } from './compared-server.js'

export interface Finding {
  readonly check: string
  readonly outcome: 'ok' | 'wrong' | 'skipped'
  readonly found: string
  /** Advice for the operator; '' if none. */
  readonly advice: string
}

export interface Patient {
  /** The API server, as the administrator of the kubeconfig. */
  readonly cluster: ComparedServer
  /** Both servers, as the agent; without an agent, as the administrator. */
  readonly here: ComparedServer
  readonly there: ComparedServer
  readonly agent: { readonly namespace: string; readonly name: string } | null
  readonly reviewer: { readonly namespace: string; readonly name: string }
  /** Whether both servers know the caller by a client certificate, and not by a token. */
  readonly isByCertificate: boolean
  /** The longest time from a write to its watch event. */
  readonly waitMs: number
}

export type Verdict = Omit<Finding, 'check'>
export const ok = (found: string): Verdict => ({ outcome: 'ok', found, advice: '' })
export const wrong = (found: string, advice: string): Verdict => ({ outcome: 'wrong', found, advice })
export const skipped = (found: string, advice: string): Verdict => ({ outcome: 'skipped', found, advice })

export const CHECKS: Readonly<Record<string, (patient: Patient) => Promise<Verdict>>> = {
  version: checkVersion,
  readiness: checkReadiness,
  reviewer: checkReviewer,
  token: checkToken,
  discovery: checkDiscovery,
  permissions: checkPermissions,
  lists: checkLists,
  history: checkHistory,
  latency: checkLatency,
}

const ROLE_ADVICE =
  'allow get, list and watch of each in the role of distributary (agents/upstream/reader.yaml, or serviceAccount.readerRules of the chart); until then, requests for them are forwarded or refused'
/** A rule needs every name. */
const MOST_NAMED = 40
/**
 * How often a check is repeated that may fail for a reason that passes: a confirmation is late, or something was written
 * between two lists.
 */
const ATTEMPTS = 5
/** The interval at which sources are asked to confirm the content. */
const CONFIRMATION_MS = 1_000
const READINESS_ADVICE = 'grant the permission or fix the source that /readyz?verbose names'

/** The minor releases whose objects this server knows. */
const OLDEST_MINOR = 20
const NEWEST_MINOR = 37

async function checkVersion(patient: Patient): Promise<Verdict> {
  const { here, there } = patient
  const [ours, theirs] = await Promise.all([here.get('/version'), there.get('/version')])
  if (theirs.status !== 200) return wrong(`the API server answers ${theirs.status} to /version`, 'check --kubeconfig')
  if (ours.status !== 200)
    return wrong(`distributary answers ${ours.status} to /version`, adviceOn(ours.status, patient))
  const [own = '?', version = '?'] = [ours.body.gitVersion, theirs.body.gitVersion]
  const minor = Number(/^v1\.(\d+)/.exec(version)?.[1])
  if (!(minor >= OLDEST_MINOR && minor <= NEWEST_MINOR)) {
    return wrong(
      `the API server is ${version}`,
      `use a release of distributary that supports it: this one supports 1.${OLDEST_MINOR} to 1.${NEWEST_MINOR}`,
    )
  }
  return own === version
    ? ok(version)
    : wrong(`distributary is ${own}, the API server ${version}`, 'set --passthrough to this API server')
}

/**
 * Checks the certificate as an agent does: against the CA that its pod trusts, and for the host name that the agent
 * uses.
 */
export async function checkCertificate(server: string, ca: string, host: string): Promise<Verdict> {
  const { protocol, hostname, port } = new URL(server)
  if (protocol === 'http:') return wrong('plain HTTP', 'set --tls-cert-file: agents use https')
  const fault = await new Promise<NodeJS.ErrnoException | null>((resolve) => {
    const address = { host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? 443 : Number(port) }
    const socket = connectTls(
      { ...address, ca, allowPartialTrustChain: true, ...expecting(host), timeout: 10_000 },
      () => {
        socket.destroy()
        resolve(null)
      },
    )
    socket.on('timeout', () => socket.destroy(new Error('no answer within 10 s')))
    socket.on('error', resolve)
  })
  if (fault === null) return ok(`valid for ${host}`)
  if (fault.code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return wrong(`not valid for ${host}`, 'recreate the certificate with certificate.sh --names')
  }
  const isUntrusted = /UNABLE_TO|SELF_SIGNED|CERT_/.test(fault.code ?? '')
  return wrong(
    errorMessage(fault),
    isUntrusted ? 'add the CA of the certificate to the ConfigMap distributary-ca' : 'check --server, and the Service',
  )
}

/** Reports what the server itself knows to be wrong, such as a permission that it lacks, whether or not it is ready. */
async function checkReadiness({ here }: Patient): Promise<Verdict> {
  const ask = async (): Promise<{ readonly status: number; readonly problems: readonly string[] }> => {
    const { status, text } = await here.get('/readyz', { verbose: '' }, 'text/plain')
    return { status, problems: text.split('\n').flatMap((line) => /^\[[-*]\](.+)/.exec(line)?.[1] ?? []) }
  }
  let { status, problems } = await ask()
  const isLate = (problem: string): boolean => problem.startsWith('staleness ') && lackOf(problem).length === 0
  for (let attempt = 1; attempt < ATTEMPTS && status === 200 && problems.some(isLate); attempt++) {
    await delay(CONFIRMATION_MS)
    ;({ status, problems } = await ask())
  }
  if (status === 200 && problems.length === 0) return ok('ready')
  const lacks = new Map<string, Set<string>>()
  for (const [verb, resource] of problems.flatMap(lackOf)) lacks.set(verb, (lacks.get(verb) ?? new Set()).add(resource))
  if (
    lacks.size > 0 &&
    problems.every(
      (problem) => /permission-denied|^upstream-permissions |^caches /.test(problem) || lackOf(problem).length > 0,
    )
  ) {
    const texts = [...lacks].map(([verb, resources]) => `${verb} ${some([...resources], MOST_NAMED)}`)
    return wrong(`distributary may not ${texts.join(', nor ')}`, ROLE_ADVICE)
  }
  return wrong(problems.length === 0 ? `distributary answers ${status} to /readyz` : some(problems), READINESS_ADVICE)
}

/** Returns the verb and the resource that this server lacks according to the problem; nothing for another problem. */
function lackOf(problem: string): (readonly [verb: string, resource: string])[] {
  const [, verb, plural, group] = /cannot (\w+) resource "([^"]+)" in API group "([^"]*)"/.exec(problem) ?? []
  if (verb !== undefined) return [[verb, group === '' ? plural! : `${plural}.${group}`]]
  const listed = /^cache-(\S+) .*permission-denied/.exec(problem)?.[1]
  return listed === undefined ? [] : [['list', listed]]
}

/** A source that answers confirms the content every few seconds. */
const MAX_STALENESS_SECONDS = 30

/** Checks how old the cached objects are, and from how far back watches resume. */
async function checkHistory(patient: Patient): Promise<Verdict> {
  const { here, agent } = patient
  const path = resourcePath({ plural: 'configmaps', namespace: agent?.namespace ?? 'default' })
  const list = await here.get(path, { limit: '1', resourceVersion: '0' })
  if (list.status === 403) return skipped(refusalOf(list), 'use --from-pod with an account that may list configmaps')
  if (list.status !== 200) return wrong(`distributary answers ${list.status} to a list`, adviceOn(list.status, patient))
  const { stalenessSeconds } = list
  if (stalenessSeconds > MAX_STALENESS_SECONDS) return wrong(`its data is ${stalenessSeconds} s old`, READINESS_ADVICE)
  const { status, text } = await here.get(path, { watch: '1', resourceVersion: '1', timeoutSeconds: '1' })
  if (status === 403)
    return skipped('may not watch configmaps', 'use --from-pod with an account that may watch configmaps')
  if (status !== 200) return wrong(`distributary answers ${status} to a watch`, adviceOn(status, patient))
  const oldest = /too old resource version: 1 \((\d+)\)/.exec(text)?.[1]
  if (oldest === undefined) return ok('fresh, and watches resume from any revision')
  const revisions = Number(list.body.metadata?.resourceVersion) - Number(oldest)
  return revisions > 0
    ? ok(`fresh, and watches resume from ${revisions} revisions ago`)
    : skipped('no history yet: clients that reconnect now list again', 'run doctor again in a minute')
}

async function checkReviewer({ cluster, reviewer }: Patient): Promise<Verdict> {
  const user = `system:serviceaccount:${reviewer.namespace}:${reviewer.name}`
  const reply = await decide(cluster, {
    user,
    groups: ['system:serviceaccounts', `system:serviceaccounts:${reviewer.namespace}`, 'system:authenticated'],
    resourceAttributes: { group: 'authentication.k8s.io', resource: 'tokenreviews', verb: 'create' },
  })
  if (reply.status >= 300) return skipped(refusalOf(reply), 'use a kubeconfig that may create subjectaccessreviews')
  return reply.body.status?.allowed === true
    ? ok(`${user} may review tokens`)
    : wrong(
        `${user} may not review tokens`,
        'bind the ClusterRole system:auth-delegator to it, or name another with --reviewer',
      )
}

const SELF_REVIEW = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' }

async function checkToken(patient: Patient): Promise<Verdict> {
  const { here, there, agent } = patient
  const path = '/apis/authentication.k8s.io/v1/selfsubjectreviews'
  const [ours, theirs] = await Promise.all([here.post(path, SELF_REVIEW), there.post(path, SELF_REVIEW)])
  const who = agent === null ? 'the kubeconfig’s credentials' : 'the token'
  if (theirs.status >= 300)
    return wrong(
      `the API server refuses ${who}: ${refusalOf(theirs)}`,
      agent === null ? 'check --kubeconfig' : 'check --from-pod',
    )
  if (ours.status >= 300)
    return wrong(`distributary refuses ${who}: ${refusalOf(ours)}`, adviceOn(ours.status, patient))
  const [own, other] = [ours, theirs].map(({ body }) => {
    const { username = '', groups = [] } = body.status?.userInfo ?? {}
    return [username, ...groups.toSorted()].join(' ')
  })
  return own === other
    ? ok(theirs.body.status?.userInfo?.username ?? '')
    : wrong(
        `distributary: ${own}; API server: ${other}`,
        'check the authenticators: user and groups must be those that the API server sees',
      )
}

async function checkDiscovery({ here, there }: Patient): Promise<Verdict> {
  const [ours, theirs] = (await Promise.all([here.resources(), there.resources()])).map(
    (all) => new Set(all.map((resource) => nameOf(resource))),
  ) as [Set<string>, Set<string>]
  const missing = [...theirs].filter((name) => !ours.has(name))
  const extra = [...ours].filter((name) => !theirs.has(name))
  if (missing.length > 0)
    return wrong(
      `missing from distributary: ${some(missing)}`,
      'set --passthrough, so that the API server answers for the rest',
    )
  if (extra.length > 0) return wrong(`only on distributary: ${some(extra)}`, 'check that both read the same etcd')
  return ok(`${theirs.size} resources`)
}

const DECISIONS = 200
const VERBS = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete']

interface Decision {
  readonly user?: string
  readonly groups?: readonly string[]
  readonly resourceAttributes: {
    readonly group?: string
    readonly resource: string
    readonly verb: string
    readonly namespace?: string
    readonly name?: string
  }
}

/**
 * Compares permissions on both servers. An agent checks its own permissions. An administrator may do everything, so for
 * an administrator the check uses the subjects of bindings.
 */
async function checkPermissions(patient: Patient): Promise<Verdict> {
  const { here, there, agent } = patient
  const resources = await there.resources()
  const subjects = agent === null ? await subjectsOf(patient) : [undefined]
  const namespaces = ['', 'default', 'kube-system', ...(agent === null ? [] : [agent.namespace])]
  const differing: string[] = []
  const tally = { allowed: 0 }
  for (let i = 0; i < DECISIONS; i++) {
    // Each coordinate advances at a different rate. The sample is the same in each run.
    const { group, plural } = resources[(i * 17) % resources.length]!
    const namespace = namespaces[(i * 5) % namespaces.length]!
    const decision: Decision = {
      ...subjects[(i * 7) % subjects.length],
      resourceAttributes: {
        group,
        resource: plural,
        verb: VERBS[(i * 3) % VERBS.length]!,
        ...(namespace === '' ? {} : { namespace }),
        ...(i % 4 === 3 ? { name: 'any' } : {}),
      },
    }
    const [ours, theirs] = await Promise.all([decide(here, decision), decide(there, decision)])
    if (theirs.status >= 300) return skipped(`the API server gave no decision: ${refusalOf(theirs)}`, 'use --from-pod')
    if (ours.status >= 300)
      return wrong(`distributary gave no decision: ${refusalOf(ours)}`, adviceOn(ours.status, patient))
    const isAllowed = theirs.body.status?.allowed === true
    if (isAllowed) tally.allowed++
    if ((ours.body.status?.allowed === true) !== isAllowed) differing.push(textOf(decision, isAllowed))
  }
  if (differing.length === 0) return ok(`${DECISIONS} decisions agree, ${tally.allowed} of them to allow`)
  return wrong(
    `${differing.length} of ${DECISIONS} decisions differ: ${some(differing)}`,
    'set --authorization-mode=RBAC, or Webhook if the API server has other authorizers',
  )
}

function textOf(
  { user, resourceAttributes: { verb, resource, namespace } }: Decision,
  isAllowedThere: boolean,
): string {
  const where = namespace === undefined ? '' : ` in ${namespace}`
  return `${user === undefined ? '' : `${user} `}${verb} ${resource}${where} (allowed only by ${isAllowedThere ? 'the API server' : 'distributary'})`
}

async function decide(server: ComparedServer, spec: Decision): Promise<Reply> {
  const kind = spec.user === undefined ? 'SelfSubjectAccessReview' : 'SubjectAccessReview'
  const path = `/apis/authorization.k8s.io/v1/${kind.toLowerCase()}s`
  return await server.post(path, { apiVersion: 'authorization.k8s.io/v1', kind, spec })
}

type Identity = Pick<Decision, 'user' | 'groups'>

async function subjectsOf({ cluster }: Patient): Promise<readonly Identity[]> {
  const paths = ['clusterrolebindings', 'rolebindings'].map((name) => `/apis/rbac.authorization.k8s.io/v1/${name}`)
  const lists = await Promise.all(paths.map((path) => cluster.get(path, { limit: '500' })))
  const subjects = lists.flatMap(({ body }) => body.items ?? []).flatMap(({ subjects: named = [] }) => named)
  const all = [...new Map(subjects.map((subject) => [JSON.stringify(subject), identityOf(subject)])).values()]
  return all.length === 0 ? [{ user: 'nobody', groups: ['system:authenticated'] }] : all
}

function identityOf({ kind, name, namespace = '' }: Subject): Identity {
  if (kind === 'Group') return { user: 'member', groups: [name] }
  if (kind === 'User') return { user: name, groups: ['system:authenticated'] }
  const groups = ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated']
  return { user: `system:serviceaccount:${namespace}:${name}`, groups }
}

/** Resources that every agent lists, that are often in another etcd, or that are often encrypted. */
const ALWAYS = ['pods', 'nodes', 'services', 'endpointslices', 'configmaps', 'events', 'secrets']
const LISTS = 20
const PAGE = '500'

async function checkLists(patient: Patient): Promise<Verdict> {
  const { there, agent } = patient
  const resources = await there.resources()
  const pace = Math.max(1, Math.floor(resources.length / LISTS))
  const sample = resources.filter(({ plural }, i) => ALWAYS.includes(plural) || i % pace === 0)
  const differing: string[] = []
  const advice = new Set<string>()
  let [compared, objects, strips] = [0, 0, false]
  for (const resource of sample) {
    const { differs, count, what, isStripped = false } = await compareLists(patient, resource)
    strips ||= isStripped
    if (count !== null) [compared, objects] = [compared + 1, objects + count]
    if (differs !== null) differing.push(`${nameOf(resource)} ${differs}`)
    if (what !== undefined) advice.add(what)
  }
  if (differing.length > 0) return wrong(some(differing), [...advice].join('; '))
  const lists = `${compared} lists are equal${strips ? ', without managedFields (strip)' : ''}, with ${objects} objects`
  if (compared > 0) return ok(lists)
  return skipped(
    'no list could be compared',
    agent === null ? 'use another kubeconfig' : 'use --from-pod with an account that may list',
  )
}

interface Compared {
  /** Null when both servers give the same response. */
  readonly differs: string | null
  /** Null when neither server responds with a list. */
  readonly count: number | null
  readonly what?: string
  readonly isStripped?: boolean
}

async function compareLists(patient: Patient, { group, version, plural }: ApiResource): Promise<Compared> {
  const { here, there } = patient
  const path = resourcePath({ group, version, plural })
  for (let attempt = 1; ; attempt++) {
    const [plain, theirs] = await Promise.all([here.get(path, { limit: PAGE }), there.get(path, { limit: PAGE })])
    const ours = attempt === 1 ? plain : ((await listAt(here, path, theirs)) ?? plain)
    const leaveOut = `leave it to the API server: --resource=-${group === '' ? plural : `${plural}.${group}`}`
    if (ours.status === 501)
      return { differs: 'cannot be read by distributary (encrypted?)', count: null, what: leaveOut }
    if (ours.status === theirs.status && ours.status !== 200) return { differs: null, count: null }
    if (ours.status !== theirs.status) {
      if (attempt < ATTEMPTS) continue
      return {
        differs: `returns ${ours.status} from distributary, ${theirs.status} from the API server`,
        count: null,
        what: adviceOn(ours.status, patient),
      }
    }
    // Without a revision, a list is computed for each request, as metrics-server does: no two need be equal.
    if ((theirs.body.metadata?.resourceVersion ?? '') === '') return { differs: null, count: null }
    const isStripped = ours.lacksManagedFields
    const [own, other] = [textsOf(ours), textsOf(theirs, isStripped)]
    const odd = [...other.keys(), ...own.keys()].find((key) => own.get(key) !== other.get(key))
    if (odd === undefined) return { differs: null, count: other.size, isStripped }
    if (attempt < ATTEMPTS) {
      await delay(200)
      continue
    }
    if (own.size === 0) {
      const what = `set the API server’s --etcd-servers-overrides on distributary, or ${leaveOut}`
      return { differs: 'is empty on distributary (in another etcd?)', count: 0, what }
    }
    return { differs: `differs at ${odd}`, count: 0, what: 'run distributary consistency-check' }
  }
}

/**
 * Repeats the list at the revision of the other server's list, for a resource that changes all the time; null if that
 * revision is not available.
 */
async function listAt(here: ComparedServer, path: string, { body }: Reply): Promise<Reply | null> {
  const { resourceVersion = '' } = body.metadata ?? {}
  if (resourceVersion === '') return null
  const reply = await here.get(path, { limit: PAGE, resourceVersion, resourceVersionMatch: 'Exact' })
  return reply.status === 200 ? reply : null
}

/** Returns the objects by name, as text with sorted members, so that their order does not matter. */
function textsOf({ body }: Reply, withoutManagedFields = false): ReadonlyMap<string, string> {
  const nameIn = ({ metadata }: ListedObject): string => `${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`
  const shown = (object: ListedObject): object =>
    withoutManagedFields ? { ...object, metadata: { ...object.metadata, managedFields: undefined } } : object
  return new Map((body.items ?? []).map((object) => [nameIn(object), sorted(shown(object))]))
}

function sorted(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  )
}

/** Writes a ConfigMap through the API server, and waits until distributary's watch shows it. */
async function checkLatency(patient: Patient): Promise<Verdict> {
  const { cluster, here, agent, waitMs } = patient
  const namespace = agent?.namespace ?? 'default'
  const path = resourcePath({ plural: 'configmaps', namespace })
  const name = `distributary-doctor-${process.pid}-${Date.now().toString(36)}`
  const stop = new AbortController()
  const signal = AbortSignal.any([here.signal, stop.signal])
  // On Node 20, a timeout signal that nothing else refers to may never fire.
  const late = setTimeout(() => stop.abort(new Error('no event in time')), waitMs + 20_000)
  try {
    const list = await here.get(path, { limit: '1' })
    const query = { watch: '1', fieldSelector: `metadata.name=${name}` }
    const response = await here.transport.send({ path, query, accept: 'application/json', signal })
    if (response.status === 403) {
      return skipped(`the agent may not watch configmaps in ${namespace}`, 'use --from-pod with an account that may')
    }
    if (list.status !== 200 || response.status !== 200) {
      return wrong(`distributary answers ${response.status} to a watch`, adviceOn(response.status, patient))
    }
    const written = await cluster.post(path, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace } })
    const began = performance.now()
    if (written.status >= 300) return skipped(refusalOf(written), 'use a kubeconfig that may write configmaps')
    const seen = await Promise.race([
      hasText(response.body, `"${name}"`),
      delay(waitMs, false, { signal }).catch(() => false),
    ])
    return seen
      ? ok(`a write arrives after ${Math.max(1, Math.round(performance.now() - began))} ms`)
      : wrong(
          `a write did not arrive within ${waitMs / 1_000} s`,
          'check that both use the same etcd, and check /readyz?verbose',
        )
  } finally {
    clearTimeout(late)
    stop.abort()
    await cluster.delete(`${path}/${name}`).catch(() => undefined)
  }
}

async function hasText(body: AsyncIterable<Uint8Array>, wanted: string): Promise<boolean> {
  let text = ''
  try {
    for await (const part of body) if ((text += Buffer.from(part).toString()).includes(wanted)) return true
  } catch {
    // A broken watch counts as ended.
  }
  return false
}

const nameOf = ({ group, version, plural }: ApiResource): string =>
  `${plural}.${version}${group === '' ? '' : `.${group}`}`

/** @param most how many are named. */
function some(names: readonly string[], most = 3): string {
  const shown = names.slice(0, most).join(', ')
  return names.length > most ? `${shown} and ${names.length - most} more` : shown
}

function refusalOf({ status, body }: Reply): string {
  return body.message === undefined ? String(status) : `${status} ${body.message}`
}

function adviceOn(status: number, { isByCertificate }: Patient): string {
  switch (status) {
    case 401:
      return isByCertificate
        ? 'set --client-ca-file to the CA of the kubeconfig’s client certificate, or use --from-pod, which sends a token'
        : 'set --authentication-kubeconfig or --service-account-issuer; if one is set, the server’s log says why it refuses the token'
    case 403:
      return 'check --authorization-mode: with RBAC, callers may read what the API server lets them read'
    case 404:
      return 'set --passthrough'
    case 503:
      return 'check the reviewer’s permissions, and /readyz?verbose'
    default:
      return 'see the server’s log'
  }
}
