/** Tests what the server itself decides about requests for certificates, because signers trust it. */
import t, { type Test } from 'tap'
import { Folder } from '../../../server/auth/fixtures.js'
import { startApp } from '../../../support/app.js'
import { APPLY, clientOf, JSON_PATCH, MERGE } from '../client.js'

const GROUP = '/apis/certificates.k8s.io/v1'
const CSRS = `${GROUP}/certificatesigningrequests`
const FORGED = {
  username: 'system:node:a',
  uid: '7',
  groups: ['system:masters'],
  extra: { scopes: ['all'] },
}
const SPEC = { request: 'eA==', signerName: 'kubernetes.io/kube-apiserver-client', usages: ['client auth'] }
const APPROVED = { type: 'Approved', status: 'True', reason: 'r', message: 'm' }

const csr = (name: string, spec: object = FORGED, more: object = {}): object => ({
  apiVersion: 'certificates.k8s.io/v1',
  kind: 'CertificateSigningRequest',
  metadata: { name, ...more },
  spec: { ...SPEC, ...spec },
})

async function start(t: Test, objects: Record<string, object> = {}) {
  const tokens = new Folder(t).write('tokens', 'ann-token,ann,5,"web"\nroot-token,root,1,"system:masters"\n')
  const flags = ['--enable-writes', `--token-auth-file=${tokens}`, '--authorization-mode=AlwaysAllow']
  const send = clientOf((await startApp(t, { flags, objects })).url)
  const as =
    (token: string, acting: Record<string, string> = {}) =>
    (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
      send(method, path, body, { authorization: `Bearer ${token}`, ...acting, ...headers })
  return { ann: as('ann-token'), root: as }
}

void t.test('a request for a certificate names its caller, whatever its body says', async (t) => {
  const { ann, root } = await start(t)
  const asBob = root('root-token', { 'impersonate-user': 'bob', 'impersonate-extra-scopes': 'some' })
  const large = { annotations: { large: 'x'.repeat(200_000) } }
  const asAnn = { ...SPEC, username: 'ann', uid: '5', groups: ['web', 'system:authenticated'] }
  const rows = [
    ['a', ann('POST', CSRS, csr('a')), asAnn],
    ['a large one', ann('POST', CSRS, csr('large', FORGED, large)), asAnn],
    ['an applied one', ann('PATCH', `${CSRS}/applied?fieldManager=m`, csr('applied'), APPLY), asAnn],
    [
      'one of who is impersonated',
      asBob('POST', CSRS, csr('bob')),
      { ...SPEC, username: 'bob', groups: ['system:authenticated'], extra: { scopes: ['some'] } },
    ],
  ] as const
  for (const [what, answer, spec] of rows) {
    const { code, body } = await answer
    t.equal(code, 201, what)
    t.same(body['spec'], spec, what)
  }
  const forged = { spec: FORGED, metadata: { labels: { a: 'b' } } }
  for (const [headers, body] of [
    [MERGE, forged],
    [JSON_PATCH, [{ op: 'replace', path: '/spec/username', value: 'system:node:a' }]],
    [{}, csr('a', FORGED)],
  ] as const) {
    const method = 'content-type' in headers ? 'PATCH' : 'PUT'
    const answer = await ann(method, `${CSRS}/a`, body, headers)
    t.equal(answer.code, 200, method)
    t.same(answer.body['spec'], asAnn, 'an update changes nothing')
  }
})

void t.test('a request for a certificate is not approved through its status', async (t) => {
  const stored = { ...csr('approved'), status: { conditions: [APPROVED] } }
  const { ann } = await start(t, { 'certificatesigningrequests/approved': stored })
  await ann('POST', CSRS, csr('a'))
  for (const type of ['Approved', 'Denied']) {
    const answer = await ann('PATCH', `${CSRS}/a/status`, { status: { conditions: [{ ...APPROVED, type }] } }, MERGE)
    t.match(answer, { code: 422, body: { message: new RegExp(`may not add a condition of type "${type}"`) } })
  }
  const failed = { type: 'Failed', status: 'True', reason: 'f', message: 'f' }
  t.equal((await ann('PATCH', `${CSRS}/a/status`, { status: { conditions: [failed] } }, MERGE)).code, 200)
  const withdrawn = await ann('PATCH', `${CSRS}/approved/status`, { status: { conditions: [] } }, MERGE)
  t.match(withdrawn, { code: 422, body: { message: /may not remove a condition of type "Approved"/ } })
  const conditions = [{ ...APPROVED, message: 'another' }, failed]
  const kept = await ann('PATCH', `${CSRS}/approved/status`, { status: { conditions, certificate: 'eA==' } }, MERGE)
  t.match(kept, { code: 200, body: { status: { conditions: [APPROVED, failed], certificate: 'eA==' } } })
})

void t.test('the spec of a request for a certificate of a pod does not change', async (t) => {
  const { ann } = await start(t)
  const path = `${GROUP}/namespaces/default/podcertificaterequests`
  const spec = { signerName: 'a/b', podName: 'p', serviceAccountName: 'one', nodeName: 'n' }
  t.equal((await ann('POST', path, { metadata: { name: 'p' }, spec })).code, 201)
  const labels = await ann('PATCH', `${path}/p`, { metadata: { labels: { a: 'b' } } }, MERGE)
  t.equal(labels.code, 200)
  const answer = await ann('PATCH', `${path}/p`, { spec: { serviceAccountName: 'two' } }, MERGE)
  t.match(answer, { code: 422, body: { message: /spec: Invalid value: .*field is immutable/s } })
})
