/** Modes are asked in order until one of them allows the request or denies it. */
import t from 'tap'
import { pathAttributes, type Decision } from '../../../../src/server/auth/authz/authorizer.js'
import { alwaysAllow } from '../../../../src/server/auth/authz/always-allow.js'
import { unionAuthorizer } from '../../../../src/server/auth/authz/union-authorizer.js'
import { webhook } from '../../../../src/server/auth/authz/webhook.js'
import { JsonClient } from '../../../../src/server/auth/https-json.js'
import { ANONYMOUS } from '../../../../src/server/auth/user.js'
import { VirtualClock } from '../../../support/virtual-clock.js'
import { jsonServer } from '../fixtures.js'

void t.test('an explicit denial of a webhook is a veto, a refusal without an opinion is not', async (t) => {
  let status: object = {}
  const { url } = await jsonServer(t, (path) => ({ body: path === '/readyz' ? 'ok' : { status } }))
  const decide = async (answer: object): Promise<Decision> => {
    status = answer
    const hook = webhook({
      client: new JsonClient({ server: url }),
      authorizedMs: 0,
      unauthorizedMs: 0,
      clock: new VirtualClock(),
    })
    t.teardown(() => hook.close())
    const named = [
      { name: 'Webhook', authorizer: hook },
      { name: 'AlwaysAllow', authorizer: alwaysAllow },
    ]
    return await unionAuthorizer(named).authorize(ANONYMOUS, pathAttributes('GET', '/metrics'))
  }
  t.match(await decide({ allowed: false }), { allowed: true })
  t.match(await decide({ allowed: false, denied: true, reason: 'locked' }), {
    allowed: false,
    reason: 'Webhook: locked',
    rule: null,
  })
  t.match(await decide({ allowed: true, denied: true }), { allowed: false }, 'a contradiction is a denial')
  t.match(await decide({ allowed: false, denied: true, evaluationError: 'failed' }), { allowed: false })
})
