/**
 * The requests of `bench -- loop`, scaled down: each is answered as declared, and the server still answers others
 * afterwards.
 */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import {
  ASKED,
  badRequests,
  BYSTANDER,
  type HttpRequest,
  preparations,
  TOKEN_FILE,
} from '../../bench/support/bad-requests.js'
import { bursts, sendBurst } from '../../bench/support/bursts.js'
import { floods, sendFlood } from '../../bench/support/floods.js'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'

const SCALE = 0.005

void t.test('each known-bad request is answered, and no later request is refused', async (t) => {
  const tokens = join(mkdtempSync(join(tmpdir(), 'tokens-')), 'tokens.csv')
  writeFileSync(tokens, TOKEN_FILE)
  const flags = ['--enable-writes=true', `--token-auth-file=${tokens}`, '--authorization-mode=RBAC']
  const pods = Array.from({ length: 20 }, (_, i) => [`pods/bench/p${i}`, pod(`p${i}`, { namespace: 'bench' })])
  const objects = Object.fromEntries(pods) as Record<string, object>
  const app = await startApp(t, { flags, objects })
  const { url, upstream } = app
  const past = upstream.revision - 5
  const send = async ({ method, path, headers, body, user = 'admin' }: HttpRequest): Promise<number> => {
    const filledIn = path.replaceAll('{now}', String(upstream.revision)).replaceAll('{past}', String(past))
    const controller = new AbortController()
    const answer = await fetch(`${url}${filledIn.replaceAll('{i}', '0')}`, {
      method,
      headers: { ...headers, authorization: `Bearer ${user}` },
      body: body ?? null,
      signal: controller.signal,
    })
    if (path.includes('watch=1')) controller.abort()
    else await answer.arrayBuffer()
    return answer.status
  }
  for (const request of preparations) t.equal(await send(request), 201, request.path)
  app.put('pods/bench/last', pod('last', { namespace: 'bench' }))
  t.ok(badRequests.length >= 40, `${badRequests.length} requests`)
  t.equal(new Set(badRequests.map(({ name }) => name)).size, badRequests.length, 'each has a name of its own')
  for (const { name, before, request, answers } of badRequests) {
    for (const first of before?.(SCALE) ?? []) t.ok([201, 409].includes(await send(first)), `${name}: ${first.path}`)
    const status = await send(request(SCALE))
    t.ok(answers.includes(status), `${name}: ${status}`)
    t.equal(await send({ method: 'GET', path: '/api/v1/namespaces/bench/pods/last' }), 200, `after ${name}`)
  }
  for (const path of [ASKED, BYSTANDER]) t.equal(await send({ method: 'GET', path }), 200, `the bursts find ${path}`)
})

void t.test('each flood ends, and other clients are answered during and after it', async (t) => {
  const tokens = join(mkdtempSync(join(tmpdir(), 'tokens-')), 'tokens.csv')
  // The flooding user itself may be rate-limited.
  writeFileSync(tokens, `${TOKEN_FILE}other,other,3,system:masters\n`)
  const flags = [`--token-auth-file=${tokens}`, '--authorization-mode=RBAC']
  const app = await startApp(t, { flags, objects: { 'pods/bad/victim': pod('victim', { namespace: 'bad' }) } })
  const read = async (): Promise<number> => {
    const answer = await fetch(`${app.url}/api/v1/namespaces/bad/pods/victim`, {
      headers: { authorization: 'Bearer other' },
    })
    await answer.arrayBuffer()
    return answer.status
  }
  t.equal(new Set(floods.map(({ name }) => name)).size, floods.length, 'each has a name of its own')
  for (const flood of floods) {
    const flooded = sendFlood(flood, Number(new URL(app.url).port), 20)
    t.equal(await read(), 200, `beside ${flood.name}`)
    const status = await flooded
    t.ok([0, 101, 200, 429].includes(status), `${flood.name}: ${status}`)
    t.equal(await read(), 200, `after ${flood.name}`)
  }
})

void t.test('beside each burst another client is answered', async (t) => {
  const tokens = join(mkdtempSync(join(tmpdir(), 'tokens-')), 'tokens.csv')
  writeFileSync(tokens, TOKEN_FILE)
  const flags = [
    `--token-auth-file=${tokens}`,
    '--authorization-mode=RBAC',
    '--trusted-proxies=127.0.0.1',
    '--requests-per-second=100000',
  ]
  const pods = ['asked', 'bystander'].map((name) => [`pods/calm/${name}`, pod(name, { namespace: 'calm' })] as const)
  const objects = Object.fromEntries(pods)
  const app = await startApp(t, { flags, objects })
  t.equal(new Set(bursts.map(({ name }) => name)).size, bursts.length, 'each has a name of its own')
  for (const burst of bursts) {
    const { p99Ms } = await sendBurst(burst, { plain: app.port, secure: app.port }, 0.02)
    t.ok(p99Ms > 0, burst.name)
  }
})
