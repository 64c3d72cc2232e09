/**
 * The time of day jumps while servers run: forward and back, by an hour and by a day, as when an operator or NTP
 * corrects it. Durations are measured by another clock, so nobody notices; only expiry dates follow.
 */
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { join } from 'node:path'
import { SignJWT } from 'jose'
import t from 'tap'
import { setStage, type Stage, TOKENS } from '../security/support/stage.js'
import { hold } from '../security/support/transports.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.js'
import { LightWatcher } from '../support/light-watcher.js'
import { startNats } from '../support/nats-process.js'
import { only } from '../support/only.js'
import { pod } from '../support/pod.js'
import { type ServerProcess, startServer, total } from '../support/server-process.js'
import { shiftedClock } from '../support/shifted-clock.js'
import { pause, until } from '../support/until.js'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const PODS = '/api/v1/namespaces/default/pods'
const KEY = '/registry/pods/default/p'

/** The errors in its log; warnings may come from a busy machine. */
function errors(server: ServerProcess): readonly string[] {
  return server
    .log()
    .split('\n')
    .filter((line) => /"level":(50|60)/.test(line))
}

/** Whether a server returns etcd's current content, and reports that it is fresh. */
async function isFresh({ url }: ServerProcess, revision: number): Promise<boolean> {
  const answer = await fetch(`${url}${PODS}?resourceVersion=0`)
  const { metadata } = (await answer.json()) as { readonly metadata: { readonly resourceVersion: string } }
  const age = Number(answer.headers.get('x-distributary-staleness-seconds') ?? 0)
  return Number(metadata.resourceVersion) >= revision && age <= 3
}

async function isReady({ url }: ServerProcess): Promise<boolean> {
  return (await fetch(`${url}/readyz`)).status === 200
}

void t.test('watches, ages, leases and signed statuses in a fleet take no notice of a clock that jumps', async (t) => {
  const [etcd, nats] = await Promise.all([startEtcd(t), startNats(t)])
  const writer = new EtcdWriter([etcd])
  await writer.put(KEY, pod('p'))
  const key = join(t.testdir({ key: `${Buffer.alloc(32, 7).toString('base64')}\n` }), 'key')
  const fleet = [
    '--nats-servers',
    nats.url,
    '--nats-signing-key-file',
    key,
    '--nats-stream-bytes',
    '16MiB',
    ...only('pods'),
  ]
  const clocks = [shiftedClock(t), shiftedClock(t), shiftedClock(t)] as const
  const between = async (targetPort: number): Promise<FaultProxy> => {
    const proxy = await startFaultProxy({ targetPort })
    t.teardown(() => proxy.close())
    return proxy
  }
  const toEtcd = await between(Number(new URL(etcd.url).port))
  const candidate = await startServer(t, {
    flags: ['--etcd-servers', `http://127.0.0.1:${toEtcd.port}`, '--nats-lease', '30s', ...fleet],
    environment: clocks[0].environment,
  })
  const edge = await startServer(t, { flags: ['--nats-role', 'edge', ...fleet], environment: clocks[1].environment })
  const toEdge = await between(edge.port)
  const reader = await startServer(t, {
    flags: ['--upstream', `http://127.0.0.1:${toEdge.port}`, ...only('pods')],
    environment: clocks[2].environment,
  })
  const servers = [candidate, edge, reader]
  const watchers = servers.map(({ url }) => new LightWatcher(`${url}${PODS}?watch=1&timeoutSeconds=86400`))
  t.teardown(() => watchers.forEach((watcher) => watcher.destroy()))
  let revision = await writer.put(KEY, pod('p'))
  const everybodySees = async (): Promise<void> => {
    for (const watcher of watchers) await watcher.until(({ revisions }) => revisions.at(-1) === revision)
    for (const server of servers) await until(() => isFresh(server, revision), 'its data is fresh')
  }
  await everybodySees()
  let writes = 1
  for (const shiftMs of [HOUR, -HOUR, 0, DAY, -DAY]) {
    for (const [at, clock] of clocks.entries()) {
      await clock.set(at === 1 ? -shiftMs : shiftMs)
      revision = await writer.put(KEY, pod('p', { spec: { writes: ++writes } }))
      await everybodySees()
      for (const server of servers) t.ok(await isReady(server))
    }
  }
  t.same(servers.flatMap(errors), [])
  const metrics = await Promise.all([candidate.metrics(), edge.metrics()])
  t.equal(total(metrics[0], 'distributary_fleet_publishing') > 0, true, 'the publisher keeps its lease')
  for (const one of metrics) {
    t.equal(total(one, 'distributary_fleet_chain_breaks_total'), 0)
    t.equal(total(one, 'distributary_fleet_refused_total'), 0, 'no status or message is refused')
  }

  await t.test('connections that are lost after the clock was set back are re-established at once', async () => {
    await nats.kill()
    await until(async () => !(await isFresh(edge, revision)), 'NATS is missed')
    for (const clock of clocks) await clock.set(-2 * DAY)
    for (const proxy of [toEtcd, toEdge]) proxy.cut()
    await nats.restart()
    revision = await writer.put(KEY, pod('p', { spec: { writes: ++writes } }))
    await everybodySees()
  })
  for (const watcher of watchers) t.equal(new Set(watcher.revisions).size, watcher.revisions.length, 'nothing twice')
})

/** Asks with a client certificate or a token. @returns the status. */
async function ask(
  stage: Stage,
  path: string,
  as: { token?: string; certificate?: { readonly cert: string; readonly key: string }; body?: object },
): Promise<{ readonly status: number; readonly text: string }> {
  const files =
    as.certificate === undefined
      ? {}
      : { cert: readFileSync(as.certificate.cert), key: readFileSync(as.certificate.key) }
  const agent = new Agent({ ca: stage.ca, ...files })
  const headers = as.token === undefined ? {} : { authorization: `Bearer ${as.token}` }
  const method = as.body === undefined ? 'GET' : 'POST'
  try {
    return await new Promise((resolve, reject) => {
      request({ host: '127.0.0.1', port: stage.server.securePort, path, agent, headers, method }, (response) => {
        let text = ''
        response.on('data', (bytes: Buffer) => (text += bytes.toString()))
        response.on('end', () => resolve({ status: response.statusCode!, text }))
      })
        .on('error', reject)
        .end(as.body === undefined ? '' : JSON.stringify(as.body))
    })
  } finally {
    agent.destroy()
  }
}

async function issue({ key, issuerUrl }: Stage, endsAtMs: number): Promise<string> {
  return await new SignJWT({ iss: issuerUrl, aud: 'distributary', sub: 'honest', exp: Math.floor(endsAtMs / 1_000) })
    .setProtectedHeader({ alg: 'RS256', kid: key.kid })
    .sign(key.privateKey)
}

void t.test(
  'tokens, certificates and tickets expire by the time of day, and streams without an expiry continue',
  async (t) => {
    const clock = shiftedClock(t)
    const folder = t.testdir({ keys: `${'k'.repeat(40)}\n` })
    const stage = await setStage(
      t,
      // prettier-ignore
      [
      '--oidc-username-prefix=-', '--ticket-key-file', join(folder, 'keys'), '--requests-per-second=20',
      ...only('pods'),
    ],
      clock.environment,
    )
    const path = '/api/v1/namespaces/open/pods/p1'
    const certificate = stage.authority.client('honest')
    const token = await issue(stage, Date.now() + HOUR / 2)
    const statusOf = async (as: Parameters<typeof ask>[2], at = path): Promise<number> =>
      (await ask(stage, at, as)).status
    const ticket = async (): Promise<string> => {
      const { text } = await ask(stage, '/tickets', { token: TOKENS.honest, body: { path } })
      return (JSON.parse(text) as { readonly ticket: string }).ticket
    }
    const [first, watch] = [await ticket(), `${path.slice(0, -3)}?watch=1&resourceVersion=0&timeoutSeconds=86400`]
    const forever = await hold(stage.server.url, 'HTTP/1.1', watch, { token: TOKENS.honest })
    const bounded = await hold(stage.server.url, 'HTTP/1.1', watch, { token })
    t.teardown(() => [forever, bounded].forEach((held) => held.close()))
    const all = async (): Promise<readonly number[]> => [
      await statusOf({ token: TOKENS.honest }),
      await statusOf({ token }),
      await statusOf({ certificate }),
      await statusOf({}, `${path}?ticket=${first}`),
    ]
    t.same([forever.status, bounded.status, ...(await all())], [200, 200, 200, 200, 200, 200])

    await clock.set(HOUR)
    t.same(await all(), [200, 401, 200, 401], 'an hour on, a token and a ticket have ended')
    t.equal(await statusOf({}, `${path}?ticket=${await ticket()}`), 200, 'and a new ticket is good')
    await bounded.ended
    await clock.set(3 * DAY)
    t.same(await all(), [200, 401, 401, 401], 'and later the certificate')
    await clock.set(-HOUR / 4)
    // A refused token stays refused for ten seconds. Meanwhile, requests must not use up the identity's rate.
    await until(async () => {
      await pause(500)
      return (await all()).join() === '200,200,200,200'
    }, 'corrected, they count again')

    const counted = async (): Promise<number> => await statusOf({ token: TOKENS.low })
    await until(
      async () => (await Promise.all(Array.from({ length: 50 }, counted))).includes(429),
      'a limit is reached',
    )
    await clock.set(-DAY)
    await until(async () => (await counted()) !== 429, 'a budget fills again although the clock was set back')

    const sees = async (): Promise<void> => {
      const name = `w${Math.random()}`
      await stage.writer.put('/registry/pods/open/w', pod('w', { namespace: 'open', spec: { name } }))
      await until(() => forever.text.includes(name), 'a watch goes on')
    }
    for (const shiftMs of [DAY, -DAY, 0]) {
      await clock.set(shiftMs)
      await sees()
    }
    t.equal(forever.hasEnded, false)
  },
)
