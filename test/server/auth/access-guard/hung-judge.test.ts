/** The access guard while a webhook accepts requests and does not answer them. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import type { StatusError } from '../../../../src/kubernetes/model/status.js'
import { AccessGuard } from '../../../../src/server/auth/access-guard.js'
import { parseTokenFile, tokenFile } from '../../../../src/server/auth/authn/token-file.js'
import { tokenReview } from '../../../../src/server/auth/authn/token-review.js'
import { unionAuthenticator } from '../../../../src/server/auth/authn/union-authenticator.js'
import { resourceAttributes } from '../../../../src/server/auth/authz/authorizer.js'
import { parsePolicy, policy } from '../../../../src/server/auth/authz/policy.js'
import { JsonClient } from '../../../../src/server/auth/https-json.js'
import { until } from '../../../support/until.js'
import { VirtualClock } from '../../../support/virtual-clock.js'
import { bearer, changeable } from '../fixtures.js'

const PODS = { group: '', version: 'v1', plural: 'pods' }
const LIST = resourceAttributes({ verb: 'watch', resource: PODS, namespace: 'web', name: '', path: '/' })
const policyFor = (users: string): string =>
  `rules: [{users: [${users}], verbs: [watch], apiGroups: [""], resources: [pods], namespaces: [web]}]`

void t.test(
  'a webhook that hangs delays no revocation that needs no webhook, and holds a watch five minutes',
  async (t) => {
    let hung: number | null = null
    const webhook = createServer((asked, answer) => {
      if (hung !== null) return void hung++
      asked.resume()
      answer.setHeader('content-type', 'application/json')
      answer.end('{"status": {"authenticated": true, "user": {"username": "eve"}}}')
    })
    webhook.listen(0, '127.0.0.1')
    await once(webhook, 'listening')
    const clock = new VirtualClock()
    const rules = changeable(parsePolicy, policyFor('eve, bob'), clock)
    const server = `http://127.0.0.1:${(webhook.address() as AddressInfo).port}`
    const authenticator = unionAuthenticator({
      authenticators: [
        tokenFile(changeable(parseTokenFile, 't1,bob,1', clock).files),
        tokenReview({ client: new JsonClient({ server }), cacheMs: 0, clock }),
      ],
      anonymous: false,
      clock,
    })
    const guard = new AccessGuard({ authenticator, authorizer: policy(rules.files), clock })
    t.teardown(() => {
      guard.close()
      authenticator.close()
      webhook.closeAllConnections()
      webhook.close()
    })
    const ended = new Map<string, StatusError>()
    const watch = async (token: string): Promise<void> => {
      const request = { ...bearer(token), address: '127.0.0.1' }
      const acting = await guard.actingAs(await guard.authenticate(request), request, LIST)
      guard.keep(request, LIST, await guard.authorize(acting, LIST), (error) => void ended.set(token, error))
    }
    for (let i = 0; i < 40; i++) await watch(`unknown-${i}`)
    await watch('t1')
    hung = 0
    await clock.advanceInTurns(5_000, 100)
    await until(() => hung! > 0, 'the periodic check has begun')
    rules.change(policyFor('eve'))
    await clock.advanceInTurns(2_000, 100)
    t.match(ended.get('t1'), { code: 403 }, 'within two seconds')
    t.equal(ended.size, 1, 'the others continue')
    await clock.advanceInTurns(290_000, 1_000)
    t.equal(ended.size, 1, 'for five minutes')
    await clock.advanceInTurns(15_000, 1_000)
    t.equal(ended.size, 41, 'but no longer, although the webhook has not even refused')
    t.match(ended.get('unknown-0'), { code: 503 })
  },
)
