import t from 'tap'

import { type Attributes, pathAttributes, resourceAttributes } from '../../../../src/server/auth/authz/authorizer.js'
import { parsePolicy, policy } from '../../../../src/server/auth/authz/policy.js'
import { ALL_AUTHENTICATED, ANONYMOUS, type User } from '../../../../src/server/auth/user.js'
import { changeable } from '../fixtures.js'

const POLICY = `
rules:
  - name: web team
    groups: [web]
    verbs: [get, list, watch]
    apiGroups: ["", apps]
    resources: [pods, deployments, pods/log]
    namespaces: [web, "web-*"]
  - name: monitoring
    users: [prometheus]
    verbs: [get]
    paths: [/metrics, "/healthz/*"]
  - users: [ann]
    verbs: ["*"]
    apiGroups: ["*"]
    resources: ["*"]
  - name: one flag
    users: [bob]
    verbs: [get, watch]
    apiGroups: [distributary.io]
    resources: [flags]
    names: [checkout, "eu/*"]
  - name: scale
    users: [bob]
    verbs: [get]
    apiGroups: [apps]
    resources: ["*/scale"]
  - name: everybody's versions
    users: ["*"]
    verbs: [get]
    paths: [/version]
  - name: the open door
    groups: [system:unauthenticated]
    verbs: [get]
    paths: [/livez]
`

const person = (name: string, ...groups: string[]): User => ({
  name,
  uid: '',
  groups: [...groups, ALL_AUTHENTICATED],
  extra: {},
  expiresAt: null,
})
const on = (verb: string, what: string, namespace = '', name = ''): Attributes => {
  const [resource = '', group = ''] = what.split('@')
  const [plural = '', subresource = ''] = resource.split('/')
  return resourceAttributes({
    verb,
    resource: { group, version: 'v1', plural },
    subresource,
    namespace,
    name,
    path: '/',
  })
}

void t.test('requests are decided by the rules of the policy', async (t) => {
  const authorizer = policy(changeable(parsePolicy, POLICY).files)
  const web = person('w', 'web')
  const rows: readonly (readonly [User, Attributes, string | null])[] = [
    [web, on('watch', 'pods', 'web'), 'web team'],
    [web, on('watch', 'pods', 'web-staging'), 'web team'],
    [web, on('watch', 'pods', 'webb'), null],
    [web, on('watch', 'pods', 'db'), null],
    [web, on('watch', 'pods'), null],
    [web, on('list', 'deployments@apps', 'web'), 'web team'],
    [web, on('list', 'deployments@other', 'web'), null],
    [web, on('delete', 'pods', 'web', 'p'), null],
    [web, on('get', 'pods/log', 'web', 'p'), 'web team'],
    [web, on('get', 'pods/exec', 'web', 'p'), null],
    [web, on('list', 'secrets', 'web'), null],
    [web, pathAttributes('GET', '/metrics'), null],
    [person('web'), on('watch', 'pods', 'web'), null],
    [person('prometheus'), pathAttributes('GET', '/metrics'), 'monitoring'],
    [person('prometheus'), pathAttributes('POST', '/metrics'), null],
    [person('prometheus'), pathAttributes('GET', '/metrics/x'), null],
    [person('prometheus'), pathAttributes('GET', '/healthz/etcd'), 'monitoring'],
    [person('prometheus'), pathAttributes('GET', '/healthz'), null],
    [person('prometheus'), on('get', 'pods', 'web'), null],
    [person('ann'), on('watch', 'secrets'), 'rule 3'],
    [person('ann'), on('get', 'nodes', '', 'n'), 'rule 3'],
    [person('ann'), pathAttributes('GET', '/metrics'), null],
    [person('bob'), on('get', 'flags@distributary.io', '', 'checkout'), 'one flag'],
    [person('bob'), on('get', 'flags@distributary.io', '', 'eu:x'), 'one flag'],
    [person('bob'), on('get', 'flags@distributary.io', '', 'us/x'), null],
    [person('bob'), on('watch', 'flags@distributary.io', '', 'checkout'), 'one flag'],
    [person('bob'), on('watch', 'flags@distributary.io'), null],
    [person('bob'), on('get', 'deployments/scale@apps', 'x', 'd'), 'scale'],
    [person('bob'), on('get', 'deployments@apps', 'x', 'd'), null],
    [person('anyone'), pathAttributes('GET', '/version'), "everybody's versions"],
    [ANONYMOUS, pathAttributes('GET', '/version'), null],
    [ANONYMOUS, pathAttributes('GET', '/livez'), 'the open door'],
    [person('*'), on('watch', 'secrets'), null],
  ]
  for (const [user, attributes, rule] of rows) {
    t.same(
      await authorizer.authorize(user, attributes),
      { allowed: rule !== null, reason: '', rule: rule === null ? null : `Policy: ${rule}` },
      `${user.name} ${JSON.stringify(attributes)}`,
    )
  }
})

void t.test('a policy with one mistake is not used, and every mistake is reported with its line', async (t) => {
  const rule = (text: string) => `rules:\n  - {users: [a], verbs: [get], ${text}}`
  const rows: readonly (readonly [string, RegExp])[] = [
    ['', /line 1: the file must contain one mapping/],
    ['rules: {}', /rules must be a list/],
    ['rulez: []', /unknown key "rulez"/],
    ['rules:\n  - just text', /line 2: a rule must be a mapping/],
    ['rules: [\n', /line \d/],
    [rule('pathz: [/a]'), /line 2: unknown key "pathz"/],
    [rule('__proto__: [/a]'), /unknown key "__proto__"/],
    [rule('paths: [/a], paths: [/b]'), /unique/],
    [rule('paths: /a'), /paths must be a non-empty list/],
    [rule('paths: []'), /paths must be a non-empty list of strings/],
    [rule('paths: [5]'), /paths must be a non-empty list of strings/],
    [rule('paths: [metrics]'), /must begin with "\/"/],
    [rule('paths: ["/a*b"]'), /has a "\*" where none is allowed/],
    [rule('paths: ["/*", "/a/**"]'), /has a "\*" where none is allowed/],
    [rule('paths: [/a], resources: [pods], apiGroups: [""]'), /either resources or paths/],
    [rule('name: x'), /either resources or paths/],
    [rule('resources: [pods]'), /resources need apiGroups/],
    [rule('resources: ["po*"], apiGroups: [""]'), /"\*" where none is allowed/],
    [rule('resources: [pods], apiGroups: ["*.io"]'), /"\*" where none is allowed/],
    [rule('resources: [pods], apiGroups: [""], namespaces: [""]'), /is empty/],
    [rule('resources: [pods], apiGroups: [""], namespaces: ["*-web"]'), /"\*" where none is allowed/],
    [rule('resources: [pods], apiGroups: [""], namespaces: null'), /namespaces must be a non-empty list/],
    [rule('paths: [/a], namespaces: [b]'), /cannot be combined with paths/],
    [rule('name: [x], paths: [/a]'), /name must be a string/],
    ['rules:\n  - {verbs: [get], paths: [/a]}', /needs users or groups/],
    ['rules:\n  - {users: [a], paths: [/a]}', /needs verbs/],
    ['rules:\n  - {users: ["a*"], verbs: [get], paths: [/a]}', /"\*" where none is allowed/],
    ['rules:\n  - {groups: ["*"], verbs: [get], paths: [/a]}', /is not allowed as a group/],
    ['rules:\n  - {users: [a], verbs: [get], paths: [/a]}\n  - {users: [b]}', /line 3: a rule needs verbs\nline 3/],
  ]
  for (const [text, expected] of rows) t.throws(() => parsePolicy(text), expected, JSON.stringify(text))
})

void t.test('the file is followed; a broken change leaves the last good policy in force', async (t) => {
  const { files, change } = changeable(parsePolicy, POLICY)
  const authorizer = policy(files)
  let told = 0
  authorizer.onChange(() => told++)
  const ask = async () => (await authorizer.authorize(person('ann'), on('watch', 'secrets'))).allowed
  t.equal(await ask(), true)
  change('rules: [')
  t.equal(await ask(), true)
  t.equal(told, 0)
  change('rules: []')
  t.equal(await ask(), false)
  t.equal(told, 1)
})
