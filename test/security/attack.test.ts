/**
 * Attacks a server with raw bytes that break the rules on purpose, on every port and protocol, drawn from a seed. The
 * server must serve nothing that it should not, stay up, keep its memory bounded and its output free of secrets, and
 * serve all honest clients in the meantime.
 *
 * `TEST_HALF_OPEN=10000` opens that many silent connections. The test prints how much slower honest clients become,
 * without judging it: on a busy machine the time says more about other processes.
 */
import { once } from 'node:events'
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { type Random, seededRandom } from '../../src/support/random.js'
import { type Attack, bodyAttacks, get, headerAttacks, pathAttacks, pathSpellings, smugglingAttacks, webSocketAttacks } from './support/http1-attacks.js' // prettier-ignore
import { flood, floods, malformedRequests, randomFrames, requestFor } from './support/http2-attacks.js'
import { answered } from './support/http2-frames.js'
import { type Heard, type Layer, open, send, statuses } from './support/raw.js'
import { BAIT, HonestClients, LOOT, TOKENS, type Stage, pause, setStage } from './support/stage.js'
import { clientHello, tlsAttacks } from './support/tls-attacks.js'
import { goodToken, tokenAttacks } from './support/token-attacks.js'
import { testSeed } from '../support/test-seeds.js'

const seed = testSeed(9)
const halfOpen = Number(process.env['TEST_HALF_OPEN'] ?? 500)
const MiB = 2 ** 20
const PODS = '/api/v1/namespaces/open/pods'

/** The codes that the contract allows for such requests; 501 and 503 to 505 are HTTP's own. */
const NAMED = new Set([101, 200, 204, 301, 302, 304, 400, 401, 403, 404, 405, 406, 408, 410, 413, 414, 415, 422, 426, 429, 431, 501, 503, 504, 505]) // prettier-ignore

/** Everything that any attacker received. */
class Judge {
  readonly counts = new Map<string, number>()
  readonly #t: Test
  #attacks = 0

  constructor(t: Test) {
    this.#t = t
  }

  get attacks(): number {
    return this.#attacks
  }

  hears(name: string, heard: Heard, only?: readonly number[]): void {
    this.#attacks++
    const codes = statuses(heard)
    for (const code of codes) this.counts.set(String(code), (this.counts.get(String(code)) ?? 0) + 1)
    const wrong = codes.find((code) => !NAMED.has(code) || (only !== undefined && !only.includes(code)))
    if (wrong !== undefined) this.#t.fail(`${name}: ${wrong}`, { heard: heard.text.slice(0, 500) })
    this.hearsBytes(name, heard.bytes)
  }

  hearsBytes(name: string, bytes: Buffer): void {
    for (const secret of [LOOT, BAIT, ...Object.values(TOKENS)]) {
      if (bytes.includes(secret)) this.#t.fail(`${name}: received ${secret}`)
    }
  }

  hearsFrames(name: string, bytes: Buffer, mayBeAnswered: boolean): void {
    this.#attacks++
    this.hearsBytes(name, bytes)
    const streams = answered(bytes)
    if (!mayBeAnswered && streams.length > 0) this.#t.fail(`${name}: answered on ${streams.join(', ')}`)
  }
}

/** A few attacks run at a time, because the attackers share a core with the honest clients. */
async function each<T>(of: readonly T[], work: (one: T) => Promise<void>, lanes = 40): Promise<void> {
  const queue = [...of]
  const lane = async (): Promise<void> => {
    for (let one = queue.shift(); one !== undefined; one = queue.shift()) await work(one)
  }
  await Promise.all(Array.from({ length: lanes }, lane))
}

async function attackOnce(stage: Stage, random: Random, judge: Judge): Promise<void> {
  const { server } = stage
  const layers: readonly Layer[] = ['plain', 'tls']
  const http1: readonly Attack[] = [
    ...pathAttacks(random, 80),
    ...smugglingAttacks(),
    ...headerAttacks(random),
    ...webSocketAttacks(),
    ...bodyAttacks(),
  ]
  await each(http1, async ({ name, parts, only }) => {
    const layer = layers[random.next() < 0.7 ? 0 : 1]!
    judge.hears(name, await send(server, layer, parts), only)
  })
  await each(await tokenAttacks(stage, random, 20), async ([name, lines]) => {
    judge.hears(name, await send(server, 'plain', [get(PODS, ...lines)]), [401, 431])
  })
  const query = `${PODS}?access_token=${BAIT}&token=${TOKENS.admin}`
  judge.hears('token: in the query', await send(server, 'plain', [get(query)]), [401])
  await each(malformedRequests(), async ([name, bytes]) => {
    const layer = random.next() < 0.5 ? 'h2' : 'h2c'
    judge.hearsFrames(name, (await send(server, layer, [bytes])).bytes, false)
  })
  // Longer ones need more than one frame.
  const paths = pathSpellings(random, 40).filter((path) => path.length < 14_000)
  await each(paths, async (path) => {
    const layer = random.next() < 0.5 ? 'h2' : 'h2c'
    judge.hearsFrames(`HTTP/2: path ${path.slice(0, 100)}`, (await send(server, layer, [requestFor(path)])).bytes, true)
  })
  await each(tlsAttacks(random, 30), async ([name, bytes]) => {
    judge.hears(name, await send(server, 'tcp-to-tls', [bytes], { withinMs: 300 }))
  })
  await each(
    Array.from({ length: 30 }, () => randomFrames(random)),
    async (bytes) => judge.hearsFrames('random frames', (await send(server, 'h2c', [bytes])).bytes, true),
  )
}

async function floodAll(t: Test, stage: Stage, random: Random, judge: Judge): Promise<void> {
  for (const one of floods) {
    const socket = await open(stage.server, random.next() < 0.5 ? 'h2' : 'h2c')
    const { sent, heard, isClosed } = await flood(socket, one, random)
    judge.hearsFrames(`flood: ${one.name}`, heard, true)
    const end = isClosed ? 'cut off' : 'borne'
    t.comment(`${one.name}: ${end} after ${Math.round(sent / 1024)} KB, ${mebibytes(stage)} MiB resident`)
  }
}

const mebibytes = ({ server }: Stage): number => Math.round(server.memory().now / MiB)

/** Connections that never finish: silent, or with half a hello or half a request. */
async function standOpen(stage: Stage, random: Random, count: number): Promise<Socket[]> {
  const { port, securePort } = stage.server
  const sockets: Socket[] = []
  const hello = clientHello(random)
  const openings = [
    [securePort, Buffer.alloc(0)],
    [securePort, hello.subarray(0, 20)],
    [securePort, hello],
    [port, Buffer.alloc(0)],
    [port, Buffer.from('PRI')],
    [port, Buffer.from(`GET ${PODS} HTTP/1.1\r\nHost: a\r\nX: `)],
  ] as const
  await each(
    Array.from({ length: count }, (_, i) => i),
    async (i) => {
      const [to, bytes] = openings[i % openings.length]!
      const socket = connectTcp(to, '127.0.0.1')
      sockets.push(socket)
      socket.on('error', () => {})
      await Promise.race([once(socket, 'connect'), once(socket, 'close')]).catch(() => {})
      if (bytes.length > 0 && socket.writable) socket.write(bytes)
      socket.on('data', () => {})
    },
    64,
  )
  return sockets
}

void t.test(`a server under attack continues to serve its clients (seed ${seed})`, async (t) => {
  t.setTimeout(300_000)
  const stage = await setStage(t)
  const { server } = stage
  const control = async (token: string, path: string): Promise<string> =>
    await (await fetch(`${server.url}${path}`, { headers: { authorization: `Bearer ${token}` } })).text()
  t.match(await control(TOKENS.admin, '/api/v1/namespaces/closed/pods'), LOOT, 'there is something to steal')
  t.match(await control(TOKENS.low, PODS), '"p1"', 'the attacker has rights elsewhere')
  t.match(await control(await goodToken(stage), PODS), /"code":\s*403/, 'a good token of the issuer is known')

  const honest = new HonestClients(stage, 4)
  await pause(800)
  const before = honest.take()
  t.comment(`alone: lists ${before.lists}; events ${before.events}; ${mebibytes(stage)} MiB`)
  const descriptors = stage.descriptors()

  await t.test('only the intended paths are served', async (t) => {
    const judge = new Judge(t)
    const random = seededRandom(seed)
    await attackOnce(stage, random, judge)
    await floodAll(t, stage, random, judge)
    t.ok(judge.attacks > 350, `${judge.attacks} attacks`)
    const codes = [...judge.counts].sort(([a], [b]) => a.localeCompare(b)).map(([code, n]) => `${code} ×${n}`)
    t.comment(codes.join(', '))
    for (const code of ['400', '401', '403', '404']) t.ok(judge.counts.has(code), `some were ${code}`)
  })
  const under = honest.take()
  t.comment(`under attack: lists ${under.lists}; events ${under.events}; ${mebibytes(stage)} MiB`)

  await t.test(`${halfOpen} silent connections do not affect other clients`, async (t) => {
    t.setTimeout(200_000)
    const sockets = await standOpen(stage, seededRandom(seed), halfOpen)
    t.teardown(() => sockets.forEach((socket) => socket.destroy()))
    // The server accepts them at its own pace; those with a complete hello are refused at once.
    const accepted = performance.now() + 20_000
    while (stage.descriptors() < halfOpen * 0.6 && performance.now() < accepted) await pause(10)
    t.comment(`${stage.descriptors()} descriptors`)
    honest.take()
    await pause(800)
    const meanwhile = honest.take()
    t.comment(`meanwhile: lists ${meanwhile.lists}; events ${meanwhile.events}; ${mebibytes(stage)} MiB`)
    if (process.env['TEST_HALF_OPEN'] !== undefined) {
      const end = performance.now() + 120_000
      while (stage.descriptors() > descriptors + 50 && performance.now() < end) await pause(200)
      t.ok(stage.descriptors() <= descriptors + 50, 'the server has ended them all')
    }
    for (const socket of sockets) socket.destroy()
  })

  await t.test('endless renegotiation is cut off', async (t) => {
    const { securePort } = server
    const socket = connectTls({ port: securePort, host: '127.0.0.1', rejectUnauthorized: false, maxVersion: 'TLSv1.2' })
    socket.on('error', () => {})
    await once(socket, 'secureConnect')
    let times = 0
    const gaveUp = new AbortController()
    await new Promise<void>((resolve) => {
      const end = (): void => resolve()
      socket.once('close', end)
      // A refusal without a response still counts as a refusal.
      setTimeout(end, 1_000)
      const again = (): void => {
        if (gaveUp.signal.aborted || times++ >= 50 || !socket.renegotiate({}, (error) => (error ? end() : again())))
          end()
      }
      again()
    })
    gaveUp.abort()
    t.ok(times < 50, `${times} times`)
    socket.destroy()
  })

  await honest.stop()
  t.same(honest.problems, [], 'the honest were all served, and missed nothing')
  const { peak } = server.memory()
  t.ok(peak < 700 * MiB, `${Math.round(peak / MiB)} MiB at the most`)

  const metrics = await (
    await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${TOKENS.admin}` } })
  ).text()
  t.match(metrics, 'distributary_http_requests_total')
  const output = `${server.log()}${server.printed()}${metrics}`
  t.match(server.printed(), '"decision":"unauthenticated"', 'the audit log is part of it')
  for (const secret of [...stage.secrets, BAIT, LOOT]) {
    const at = output.indexOf(secret)
    t.equal(at, -1, `no output has ${secret.slice(0, 30)}`, { output: output.slice(Math.max(0, at - 300), at + 100) })
    t.notOk(output.includes(Buffer.from(secret).toString('base64url')), 'nor in base64')
  }
  t.notMatch(server.log(), /internal error|MaxListenersExceededWarning|"level":(50|60)/, 'nothing went wrong inside')
  t.equal(await server.kill('SIGTERM'), 0, 'it is alive, and exits on SIGTERM')
})
