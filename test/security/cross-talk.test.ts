/**
 * Tests what callers share: bodies of lists, Tables, compressed frames and groups are built once for all callers who
 * may read everything in them. Two tenants who send the same requests at the same time, over every transport and in
 * every form, must never learn anything about each other; an administrator who shares with both sees both.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type AppHarness, startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'
import { type Held, TRANSPORTS, type Transport, hold } from './support/transports.js'

const NAMESPACE_OF = { ann: 'a', bob: 'ab' } as const
const USERS = ['ann', 'bob', 'root'] as const
type User = (typeof USERS)[number]
/** A mark in every object of one namespace, and in no other object. */
const MARK = { a: 'MARK-OF-A', ab: 'MARK-OF-B' } as const

const POLICY = `rules:
  - { users: [ann], verbs: [get, list, watch], apiGroups: [""], resources: [pods], namespaces: [a] }
  - { users: [bob], verbs: [get, list, watch], apiGroups: [""], resources: [pods], namespaces: [ab] }
  - { users: [cid], verbs: [get, list, watch], apiGroups: [""], resources: [pods], namespaces: [a], names: [p1] }
  - { users: [root], verbs: ["*"], apiGroups: ["*"], resources: ["*"] }
`
const TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io'
const PARTIAL = 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io' // prettier-ignore
const FORMS: readonly (readonly [name: string, headers: Readonly<Record<string, string>>])[] = [
  ['JSON', {}],
  ['gzip', { 'accept-encoding': 'gzip' }],
  ['Table', { accept: TABLE }],
  ['Table, gzip', { accept: TABLE, 'accept-encoding': 'gzip' }],
  ['PartialObjectMetadata', { accept: PARTIAL }],
  ['protobuf', { accept: 'application/vnd.kubernetes.protobuf' }],
  ['protobuf, gzip', { accept: 'application/vnd.kubernetes.protobuf', 'accept-encoding': 'gzip' }],
]
const SELECTIONS = ['', '&labelSelector=app%3Dweb', '&fieldSelector=spec.nodeName%3Dn1', '&includeObject=Object']

/** Large enough for lists to be compressed. */
function marked(namespace: keyof typeof MARK, name: string): object {
  const mark = MARK[namespace]
  const spec = { nodeName: 'n1', mark, filler: `${mark} `.repeat(200) }
  return { ...pod(name, { namespace, labels: { app: 'web', mark }, spec }) }
}

async function start(t: Test): Promise<AppHarness> {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-cross-talk-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const tokens = [...USERS, 'cid'].map((user, i) => `t-${user},${user},${i}`)
  writeFileSync(join(directory, 'tokens.csv'), `${tokens.join('\n')}\n`)
  writeFileSync(join(directory, 'policy.yaml'), POLICY)
  const objects: Record<string, object> = {}
  for (const namespace of ['a', 'ab'] as const) {
    for (let i = 0; i < 80; i++) objects[`pods/${namespace}/p${i}`] = marked(namespace, `p${i}`)
  }
  return await startApp(t, {
    objects,
    // prettier-ignore
    flags: [
      '--token-auth-file', join(directory, 'tokens.csv'), '--authorization-mode', 'Policy', '--compress',
      '--authorization-policy-file', join(directory, 'policy.yaml'), '--requests-per-second', '10000',
    ],
  })
}

/** Checks that each user saw all the marks that they may see, and no others. */
function judge(t: Test, what: string, user: User, { text }: Held): void {
  const [own, other] = user === 'bob' ? [MARK.ab, MARK.a] : [MARK.a, MARK.ab]
  if (!text.includes(own)) t.fail(`${what}: ${user} saw nothing of its own`)
  if (text.includes(other) !== (user === 'root')) t.fail(`${what}: ${user} and the other's: ${text.includes(other)}`)
}

const collection = (user: User): string =>
  user === 'root' ? '/api/v1/pods' : `/api/v1/namespaces/${NAMESPACE_OF[user]}/pods`

void t.test(
  'callers that request the same list at the same time, in every form, each get only what they may read',
  async (t) => {
    const app = await start(t)
    let answers = 0
    for (const transport of ['HTTP/1.1', 'HTTP/2'] as const) {
      for (const [form, headers] of FORMS) {
        for (const selection of SELECTIONS) {
          // The lists are read twice: while the body is built, and from the cache.
          for (const time of ['first', 'second']) {
            await Promise.all(
              USERS.map(async (user) => {
                const path = `${collection(user)}?resourceVersion=0${selection}`
                const held = await hold(app.url, transport, path, { token: `t-${user}`, headers })
                await held.ended
                const what = `${transport}, ${form}, ${selection}, ${time}`
                if (held.status !== 200) t.fail(`${what}: ${held.status}`)
                judge(t, what, user, held)
                answers++
              }),
            )
            for (const [user, of] of [
              ['ann', 'bob'],
              ['bob', 'ann'],
              ['ann', 'root'],
            ] as const) {
              // prettier-ignore
              const path = `${collection(of)}?resourceVersion=0${selection}`
              const held = await hold(app.url, transport, path, { token: `t-${user}`, headers })
              await held.ended
              if (held.status !== 403) t.fail(`${form}: ${user} was answered ${held.status} for what is ${of}'s`)
              if (/MARK-OF/.test(held.text)) t.fail(`${form}: ${user} received the mark in a refusal`)
            }
          }
        }
      }
    }
    t.equal(answers, 2 * FORMS.length * SELECTIONS.length * 2 * USERS.length)
  },
)

void t.test('groups, initial states and compressed frames are shared only after permission checks', async (t) => {
  const app = await start(t)
  const forms = (transport: Transport) => (transport === 'SSE' || transport === 'WebSocket' ? FORMS.slice(0, 1) : FORMS)
  const all: { readonly what: string; readonly user: User; readonly held: Held }[] = []
  t.teardown(() => all.forEach(({ held }) => held.close()))
  for (const transport of TRANSPORTS) {
    for (const [form, headers] of forms(transport)) {
      for (const selection of SELECTIONS) {
        await Promise.all(
          // Each watch is opened twice, so that the second finds its group.
          [...USERS, ...USERS].map(async (user) => {
            const path = `${collection(user)}?watch=1&resourceVersion=0${selection}`
            const held = await hold(app.url, transport, path, { token: `t-${user}`, headers })
            if (held.status !== 200) t.fail(`${transport}, ${form}: ${held.status}`)
            all.push({ what: `${transport}, ${form}, ${selection}`, user, held })
          }),
        )
      }
    }
  }
  t.equal(app.watchers, all.length)
  // One revision changes both namespaces, so that events dispatched together must be separated.
  for (let i = 0; i < 5; i++) {
    app.commit({ [`pods/a/late${i}`]: marked('a', `late${i}`), [`pods/ab/late${i}`]: marked('ab', `late${i}`) })
  }
  const isThere = ({ held, user }: (typeof all)[number]): boolean =>
    held.text.split('late4').length > (user === 'root' ? 2 : 1)
  await until(() => all.every(isThere), 'the last event is with everybody', 30_000)
  for (const { what, user, held } of all) judge(t, what, user, held)
})

void t.test(
  'a caller who may see one object sees only that one, in a list, a watch and a separate group',
  async (t) => {
    const app = await start(t)
    const base = '/api/v1/namespaces/a/pods?resourceVersion=0'
    for (const transport of TRANSPORTS) {
      const refused = await hold(app.url, transport, `${base}&watch=1`, { token: 't-cid' })
      t.equal(refused.status, 403, `${transport}: not all of them`)
      refused.close()
      // Another name with the same beginning, the negated name, another field and another object do not name that
      // object.
      for (const selector of [
        'metadata.name%3Dp10',
        'metadata.name!%3Dp1',
        'spec.nodeName%3Dn1',
        'metadata.name%3Dp2',
      ]) {
        // prettier-ignore
        const held = await hold(app.url, transport, `${base}&watch=1&fieldSelector=${selector}`, { token: 't-cid' })
        t.equal(held.status, 403, `${transport}: ${selector}`)
        held.close()
      }
      const one = await hold(app.url, transport, `${base}&watch=1&fieldSelector=metadata.name%3Dp1`, { token: 't-cid' })
      t.equal(one.status, 200)
      // The first name is judged; no object has both names.
      const both = 'metadata.name%3Dp1,metadata.name%3Dp2'
      const none = await hold(app.url, transport, `${base}&watch=1&fieldSelector=${both}`, { token: 't-cid' })
      await until(() => one.text.includes('"p1"'), 'its object is there')
      app.put('pods/a/p2', marked('a', 'p2'))
      app.put('pods/a/p1', marked('a', 'p1'))
      await until(() => one.text.split('"name":"p1"').length > 2, 'and its changes')
      t.notMatch(one.text, /"name":"p(?!1")/)
      t.notMatch(none.text, /"name":"p/)
      one.close()
      none.close()
    }
  },
)
