/**
 * When a remote authenticator or authorizer fails, callers get 503, and the operator learns why from the log, the
 * metrics and `/readyz?verbose`.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { jsonServer } from '../server/auth/fixtures.js'
import { startApp } from '../support/app.js'
import { silentLogger } from '../../src/support/log.js'

const forbidden = (what: string): string =>
  `${what} is forbidden: User "reader" cannot create resource at the cluster scope`

for (const [name, failing, reason, metric] of [
  [
    'judge-token-review',
    'tokenreviews',
    'TokenReview returned 403',
    'distributary_authentication_attempts_total{result="error"}',
  ],
  [
    'judge-subject-access-review',
    'subjectaccessreviews',
    'SubjectAccessReview returned 403',
    'distributary_authorization_attempts_total{result="error"}',
  ],
] as const) {
  for (const impersonated of [null, 'bob']) {
    if (impersonated !== null && failing === 'tokenreviews') continue
    const whom = impersonated === null ? '' : ', of one who acts as another,'
    void t.test(`an API server that does not let us create ${failing}${whom} is reported`, async (t) => {
      let fails = true
      const reviewer = await jsonServer(t, (path) => {
        if (fails && path.endsWith(failing))
          return { status: 403, body: { kind: 'Status', message: forbidden(failing) } }
        return { status: 201, body: { status: { authenticated: true, allowed: true, user: { username: 'ann' } } } }
      })
      const directory = mkdtempSync(join(tmpdir(), 'distributary-judges-'))
      t.teardown(() => rmSync(directory, { recursive: true, force: true }))
      const kubeconfig = join(directory, 'kubeconfig')
      writeFileSync(
        kubeconfig,
        JSON.stringify({
          'current-context': 'c',
          contexts: [{ name: 'c', context: { cluster: 'k', user: 'u' } }],
          clusters: [{ name: 'k', cluster: { server: reviewer.url } }],
          users: [{ name: 'u', user: { token: 'own' } }],
        }),
      )
      const lines: (readonly [object, string])[] = []
      const keep = (fields: object, message: string): void => void lines.push([fields, message])
      const flags = ['--authentication-kubeconfig', kubeconfig, '--authorization-kubeconfig', kubeconfig]
      const h = await startApp(t, {
        flags: [...flags, '--authorization-mode', 'Webhook'],
        logger: { ...silentLogger, error: keep, debug: keep },
      })
      const acting: Record<string, string> = impersonated === null ? {} : { 'impersonate-user': impersonated }
      const ask = async (path: string): Promise<readonly [number, string]> => {
        const answer = await fetch(`${h.url}${path}`, { headers: { authorization: 'Bearer sesame', ...acting } })
        return [answer.status, await answer.text()]
      }
      for (let i = 0; i < 5; i++) t.equal((await ask('/api/v1/pods'))[0], 503)
      const told = lines.filter(([, message]) => message === 'the review server fails; callers get 503')
      t.match(told, [[{ webhook: name.slice('judge-'.length), reason: `${reason}: ${forbidden(failing)}` }]])
      t.equal((await ask('/readyz'))[0], 200, 'callers whose answers are known are served')
      const [, verbose] = await ask('/readyz?verbose')
      t.match(verbose, new RegExp(`^\\[\\*\\]${name} cannot check callers: ${reason} \\(\\d+ s ago\\)$`, 'm'))
      t.notMatch(verbose, 'reader', "who we are there is nobody else's business")
      fails = false
      t.equal((await ask('/api/v1/pods'))[0], 200)
      t.match((await ask('/readyz?verbose'))[1], `[+]${name} ok`)
      const [, metrics] = await ask('/metrics')
      t.match(metrics, `${metric} 5\n`)
    })
  }
}

void t.test('why a caller is not authenticated is logged when enabled, without the credential', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-judges-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const tokens = join(directory, 'tokens.csv')
  writeFileSync(tokens, 'sesame,ann,1\n')
  const lines: (readonly [object, string])[] = []
  const logger = { ...silentLogger, debug: (fields: object, message: string) => void lines.push([fields, message]) }
  const h = await startApp(t, { flags: ['--token-auth-file', tokens], logger })
  const headers = { authorization: 'Bearer a-wrong-one' }
  t.equal((await fetch(`${h.url}/api/v1/pods`, { headers })).status, 401)
  t.equal((await fetch(`${h.url}/api/v1/pods`)).status, 401)
  const told = lines.filter(([, message]) => message === 'caller is not authenticated')
  t.match(told, [[{ address: '127.0.0.1', reason: /token/ }], [{ address: '127.0.0.1', reason: 'no credentials' }]])
  t.notMatch(JSON.stringify(told), 'a-wrong-one')
})
