/** Compares every permission decision in the recorded world with the response of Kubernetes' own code. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { AccessGuard } from '../../src/server/auth/access-guard.js'
import { type Attributes, pathAttributes } from '../../src/server/auth/authz/authorizer.js'
import { EscalationCheck } from '../../src/server/auth/authz/escalation.js'
import { unionAuthorizer } from '../../src/server/auth/authz/union-authorizer.js'
import { rbac, RbacRules } from '../../src/server/auth/authz/rbac.js'
import { type RbacJson, rbacObjects } from '../server/auth/rbac-json.js'
import { anonymousOnly } from '../../src/server/auth/authn/union-authenticator.js'
import type { User } from '../../src/server/auth/user.js'
import { parseJsonTree } from '../../src/kubernetes/codec/json-tree.js'
import { statusOf } from '../../src/kubernetes/model/status-of.js'
import { systemClock } from '../../src/support/clock.js'
import { isSameButOwnership } from '../../src/kubernetes/writes/metadata-rules.js'

interface Question {
  readonly verb: string
  readonly path?: string
  readonly group?: string
  readonly resource?: string
  readonly subresource?: string
  readonly namespace?: string
  readonly name?: string
}

interface RightsObject {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
}

interface World extends RbacJson {
  readonly callers: readonly {
    readonly caller: string
    readonly user: string
    readonly groups: readonly string[]
    readonly extra?: User['extra']
  }[]
  readonly questions: readonly Question[]
  readonly writes: readonly { readonly verb: 'create' | 'update'; readonly object: RightsObject }[]
  readonly impersonations: readonly (readonly string[])[]
  readonly impersonationsOn: readonly { readonly question: number; readonly headers: readonly string[] }[]
}

interface Answer {
  readonly caller: string
  readonly question?: number
  readonly write?: number
  readonly impersonation?: number
  readonly impersonationOn?: number
  readonly allowed: boolean
  readonly reason?: string
  readonly code?: number
  readonly message?: string
  readonly user?: string
  readonly uid?: string
  readonly groups?: readonly string[]
  readonly extra?: Readonly<Record<string, readonly string[]>>
}

const DATA = new URL('../../../test/data/kubernetes-authorization/', import.meta.url)
const world = JSON.parse(readFileSync(new URL('world.json', DATA), 'utf8')) as World
const answers = readFileSync(new URL('answers.jsonl', DATA), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as Answer)

// The program that gave the responses filled in the aggregated roles itself, by the rule of their controller.
const rules = new RbacRules(
  { unread: null, list: () => Promise.resolve(rbacObjects(world)), onChange: () => () => {} },
  { isAggregating: true },
)
const authorizer = unionAuthorizer([{ name: 'rbac', authorizer: rbac(rules) }])
const escalation = new EscalationCheck({ authorizer, rules, refresh: () => Promise.resolve() })

function userOf(caller: string): User {
  const { user, groups, extra = {} } = world.callers.find((one) => one.caller === caller)!
  return { name: user, uid: '', groups, extra, expiresAt: null }
}

function attributesOf(q: Question): Attributes {
  if (q.path !== undefined) return pathAttributes(q.verb, q.path)
  const { verb, group = '', resource = '', subresource = '', namespace = '', name = '' } = q
  return { verb, isResourceRequest: true, group, version: 'v1', resource, subresource, namespace, name, path: '' }
}

void t.test('the RBAC authorizer answers each request as Kubernetes does, and for the same reason', async (t) => {
  const asked = answers.filter(({ question }) => question !== undefined)
  t.equal(asked.length, world.callers.length * world.questions.length)
  for (const { caller, question, allowed, reason = '' } of asked) {
    const what = world.questions[question!]!
    const decision = await authorizer.authorize(userOf(caller), attributesOf(what))
    const why = decision.allowed ? decision.rule : decision.reason
    const said = [decision.allowed, caller === 'master' ? reason : why]
    t.same(said, [allowed, reason], `${caller}: ${JSON.stringify(what)}`)
  }
})

void t.test(
  'a Role or binding can be written by those who may write it in Kubernetes, and is refused with the same message',
  async (t) => {
    const asked = answers.filter(({ write }) => write !== undefined)
    t.equal(asked.length, world.callers.length * world.writes.length)
    for (const answer of asked) {
      const { verb, object } = world.writes[answer.write!]!
      const { kind, metadata } = object
      const held = verb === 'create' ? null : heldObject(kind, metadata)
      const said = await outcome(async () => {
        if (held !== null && isSameButOwnership(tree(held), tree(object))) return
        await escalation.confirm(userOf(answer.caller), {
          plural: `${kind.toLowerCase()}s`,
          namespace: metadata.namespace ?? '',
          pathName: verb === 'create' ? '' : metadata.name,
          before: held,
          after: object,
        })
      })
      const expected = { code: answer.code ?? 0, message: answer.message ?? '' }
      t.same(said, expected, `${answer.caller}: write ${answer.write}, ${verb} ${kind} ${metadata.name}`)
    }
  },
)

void t.test('a caller may impersonate the same users for the same requests as in Kubernetes', async (t) => {
  const { callers, impersonations, impersonationsOn, questions } = world
  const asked = answers.filter((one) => one.impersonation !== undefined || one.impersonationOn !== undefined)
  t.equal(asked.length, callers.length * (impersonations.length + impersonationsOn.length))
  for (const answer of asked) {
    const on = impersonationsOn[answer.impersonationOn ?? -1]
    const rawHeaders = on?.headers ?? impersonations[answer.impersonation!]!
    const attributes = on === undefined ? pathAttributes('get', '/api') : attributesOf(questions[on.question]!)
    // The guard is new for each request, since it tries the mode first that was last successful.
    const guard = new AccessGuard({ authenticator: anonymousOnly, authorizer, clock: systemClock })
    t.teardown(() => guard.close())
    let user: User | null = null
    const { code, message } = await outcome(async () => {
      user = (await guard.actingAs(userOf(answer.caller), { rawHeaders, tlsPeerCertificate: null }, attributes)).user
    })
    const what = `${answer.caller}: ${attributes.verb} ${attributes.resource}${attributes.path} ${rawHeaders.join(' ')}`
    // A caller without a proven identity is refused before any lookup, with our own message.
    if (answer.caller === 'anonymous') t.equal(code, 403, what)
    else if (!answer.allowed) t.same({ code, message }, { code: answer.code, message: answer.message }, what)
    else {
      const { user: name = '', uid = '', groups, extra = {} } = answer
      t.match(user, { name, uid, groups, extra }, what)
    }
  }
})

void t.test('the table is large, and its answers are mixed', async (t) => {
  t.ok(answers.length > 900)
  for (const kind of ['question', 'write', 'impersonation', 'impersonationOn'] as const) {
    const some = answers.filter((answer) => answer[kind] !== undefined)
    const allowed = some.filter((answer) => answer.allowed).length
    t.ok(allowed > some.length / 20 && allowed < some.length / 2, `${kind}: ${allowed} of ${some.length} allowed`)
  }
})

function tree(object: object) {
  return parseJsonTree(Buffer.from(JSON.stringify(object))).value as Parameters<typeof isSameButOwnership>[0]
}

function heldObject(kind: string, { name, namespace = '' }: RightsObject['metadata']): object {
  const list = {
    Role: world.roles,
    ClusterRole: world.clusterRoles,
    RoleBinding: world.roleBindings,
    ClusterRoleBinding: world.clusterRoleBindings,
  }[kind] as readonly RightsObject[]
  const found = list.find(({ metadata }) => metadata.name === name && (metadata.namespace ?? '') === namespace)
  return { apiVersion: 'rbac.authorization.k8s.io/v1', ...found!, kind }
}

async function outcome(act: () => Promise<void>): Promise<{ code: number; message: string }> {
  try {
    await act()
    return { code: 0, message: '' }
  } catch (error) {
    const { code, message } = statusOf(error)
    return { code, message }
  }
}
