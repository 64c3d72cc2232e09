/**
 * Question: does any request block the event loop? Each known-bad request is sent twice to a running server, and each
 * flood and burst once, while the server sends events to a hundred watchers. The bench measures the longest time for
 * which the loop did nothing else. It also measures the watchers' delay during the request and just before it, because
 * the load on the machine varies.
 */
import { writeFileSync } from 'node:fs'
import { Agent, type ClientRequest, request as httpRequest } from 'node:http'
import { loadavg } from 'node:os'
import { fileURLToPath } from 'node:url'
import { distributarySubject } from './subjects/distributary.js'
import { type BadRequest, badRequests, type HttpRequest, preparations, TOKEN_FILE } from './support/bad-requests.js'
import { attempt, type Choice, type Question } from './support/choice.js'
import { bursts, otherClient, sendBurst } from './support/bursts.js'
import { type Flood, floods, sendFlood } from './support/floods.js'
import { pods } from './support/objects.js'
import { measureStretch } from './support/measure.js'
import { sleep } from './support/processes.js'
import { freePort } from '../test/support/free-port.js'
import { type Scene, withScene } from './support/scene.js'
import type { WatchersReport } from './support/watchers.js'
import { createWorkspace, type Workspace } from './support/workspace.js'
import { selfSignedCertificate } from '../test/support/issue-certificate.js'

const WATCHERS = 100
const RATE = 50
const OBJECTS = 10_000
/** Long enough for a p99 over a few thousand deliveries. */
const STRETCH_MS = 2_000
/** The scale of requests that only warm the server up. */
const WARM_SCALE = 0.02
/**
 * How many connections are opened at once. If there were more than the server accepts in one go, the others would be
 * reset.
 */
const OPENED_AT_ONCE = 100
const ANSWER_TIMEOUT_MS = 60_000
/** How long the other client is measured alone before a burst. */
const QUIET_MS = 500

interface Block {
  readonly wallMs: number
  readonly cpuMs: number
}

interface Answered {
  readonly status: number
  /** For a burst, the median duration of another client's gets. */
  readonly answerMs: number
  /** The duration of the other client's gets during a burst, and just before it. */
  readonly otherP99Ms?: number
  readonly otherP99MsWithout?: number
}

interface Measured extends Block, Answered {
  readonly delayMs: WatchersReport['delayMs']
}

export const loop: Question = async (choice) => {
  const workspace = createWorkspace()
  try {
    await attempt(choice, { question: 'loop', subject: 'distributary', wire: 'http1' }, () => all(choice, workspace))
  } finally {
    workspace.remove()
  }
}

async function all(choice: Choice, workspace: Workspace): Promise<void> {
  const [tokens, certFile, keyFile] = [workspace.path('tokens'), workspace.path('cert'), workspace.path('key')]
  writeFileSync(tokens, TOKEN_FILE)
  const { cert, key } = selfSignedCertificate()
  writeFileSync(certFile, cert)
  writeFileSync(keyFile, key)
  const [probePort, securePort] = [await freePort(), await freePort()]
  const probe = fileURLToPath(new URL('./support/loop-probe.js', import.meta.url))
  const count = choice.watchers[0] ?? WATCHERS
  const options = {
    kind: distributarySubject,
    wire: 'http1',
    watchers: count,
    resource: pods,
    objects: { count: choice.quick ? OBJECTS / 10 : OBJECTS, nodes: 100, bytes: 1024 },
    nodeFlags: [...choice.nodeFlags, `--import=file://${probe}?port=${probePort}`],
    serverFlags: [
      '--enable-writes=true',
      `--token-auth-file=${tokens}`,
      `--secure-port=${securePort}`,
      `--tls-cert-file=${certFile}`,
      `--tls-private-key-file=${keyFile}`,
      '--authorization-mode=RBAC',
      '--trusted-proxies=127.0.0.1',
      '--requests-per-second=100000',
      ...choice.serverFlags,
    ],
  }
  await withScene(options, async (scene) => {
    const server = new Server(scene, probePort)
    const watch = scene.subject.watch({ afterRevision: scene.revision })
    const headers = [...(watch.headers ?? []), 'Authorization: Bearer admin']
    // The requests change pods in another namespace. The watchers do not follow that namespace, because they would take
    // those changes for events out of order.
    const path = watch.path.replace('/api/v1/pods', '/api/v1/namespaces/bench/pods')
    const watchers = await scene.openWatchers({}, { ...watch, path, headers })
    const run = { rate: RATE, count: 1e9, ms: (choice.seconds ?? STRETCH_MS / 1000) * 1000 }
    const stretch = { subject: scene.subject, source: scene.source, watchers, run }
    for (const request of preparations) await server.send(request)
    await watchers.caughtUp((await scene.source.run({ ...run, ms: 1_000 })).next, 30_000)
    const { requests } = choice
    const isAsked = ({ name }: { readonly name: string }): boolean =>
      requests.length === 0 || requests.some((one) => name.includes(one))
    const asked = badRequests.filter(isAsked)
    for (const bad of asked) await server.warmUp(bad)
    const row = (name: string, measured: Measured, without: WatchersReport): void => {
      const { delayMs, wallMs, cpuMs, status, answerMs, otherP99Ms, otherP99MsWithout } = measured
      choice.recorder.row({
        question: 'loop',
        subject: 'distributary',
        wire: 'http1',
        request: name,
        blockMs: wallMs,
        blockCpuMs: cpuMs,
        p99Ms: delayMs.p99,
        maxMs: delayMs.max,
        status,
        answerMs,
        load: loadavg()[0]!,
        p99MsWithout: without.delayMs.p99,
        maxMsWithout: without.delayMs.max,
        ...(otherP99Ms === undefined ? {} : { otherP99Ms, otherP99MsWithout: otherP99MsWithout! }),
      })
    }
    await server.block()
    const { report: nothing } = await measureStretch(stretch)
    row('none', { ...(await server.block()), status: 0, answerMs: 0, delayMs: nothing.delayMs }, nothing)
    const measure = async (name: string, send: () => Promise<Answered>): Promise<void> => {
      const { report: without } = await measureStretch(stretch)
      await server.block()
      const [answer, { report }] = await Promise.all([send(), measureStretch(stretch)])
      row(name, { ...answer, ...(await server.block()), delayMs: report.delayMs }, without)
      await sleep(500)
    }
    for (const bad of asked) {
      for (const request of bad.before?.(1) ?? []) await server.send(request)
      await measure(bad.name, () => server.measure(bad))
      server.closeWatches()
    }
    for (const flood of floods.filter(isAsked)) await measure(flood.name, () => server.flood(flood))
    const ports = { plain: server.port, secure: securePort }
    for (const burst of bursts.filter(isAsked)) {
      const { p99Ms: otherP99MsWithout } = await otherClient(ports.plain, () => sleep(QUIET_MS))
      await measure(burst.name, async () => {
        const { p50Ms, p99Ms } = await sendBurst(burst, ports)
        return { status: 0, answerMs: p50Ms, otherP99Ms: p99Ms, otherP99MsWithout }
      })
    }
  })
}

/** A running server, as seen by clients that send it bad requests. */
class Server {
  readonly #scene: Scene
  readonly port: number
  readonly #probePort: number
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 32 })
  #watches: ClientRequest[] = []

  constructor(scene: Scene, probePort: number) {
    this.#scene = scene
    this.port = scene.subject.watch({}).port
    this.#probePort = probePort
  }

  /** The longest block since the last call. */
  async block(): Promise<Block> {
    const answer = await fetch(`http://127.0.0.1:${this.#probePort}/`)
    return (await answer.json()) as Block
  }

  async warmUp(bad: BadRequest): Promise<void> {
    if (bad.watches !== undefined) return
    await this.send(await this.#filledIn(bad.request(WARM_SCALE)))
  }

  /** Sends the request twice. @throws Error when the status is not one of the allowed ones. */
  async measure(bad: BadRequest): Promise<Answered> {
    if (bad.watches !== undefined) return await this.#open(bad, bad.watches)
    const beganMs = performance.now()
    const statuses = new Set<number>()
    for (let i = 0; i < 2; i++) statuses.add(await this.send(await this.#filledIn(bad.request(1))))
    for (const status of statuses) {
      if (!bad.answers.includes(status)) throw new Error(`${bad.name}: answered with ${status}`)
    }
    return { status: Math.max(...statuses), answerMs: (performance.now() - beganMs) / 2 }
  }

  async flood(flood: Flood): Promise<Answered> {
    const beganMs = performance.now()
    const status = await sendFlood(flood, this.port)
    return { status, answerMs: performance.now() - beganMs }
  }

  send(request: HttpRequest): Promise<number> {
    return new Promise((resolve, reject) => {
      const sent = this.#begin(request, this.#agent)
      sent.on('response', (response) => {
        response.resume()
        response.on('end', () => resolve(response.statusCode ?? 0)).on('error', reject)
      })
      sent.setTimeout(ANSWER_TIMEOUT_MS, () => sent.destroy(new Error('no answer')))
      // If the server refuses a body before it has read it, it also closes the connection.
      sent.on('error', (error) => ('code' in error && error.code === 'EPIPE' ? resolve(413) : reject(error)))
      writeChunks(sent, request)
      sent.end(request.chunkBytes === undefined ? request.body : undefined)
    })
  }

  closeWatches(): void {
    for (const watch of this.#watches) watch.destroy()
    this.#watches = []
  }

  async #open(bad: BadRequest, watches: number): Promise<Answered> {
    const beganMs = performance.now()
    const request = await this.#filledIn(bad.request(1))
    const agent = new Agent({ maxSockets: Infinity })
    const statuses = new Set<number>()
    for (let first = 0; first < watches; first += OPENED_AT_ONCE) {
      const numbers = Array.from({ length: Math.min(OPENED_AT_ONCE, watches - first) }, (_, i) => first + i)
      for (const status of await Promise.all(numbers.map((i) => this.#openOne(request, i, agent)))) statuses.add(status)
    }
    return { status: Math.max(...statuses), answerMs: performance.now() - beganMs }
  }

  #openOne(request: HttpRequest, number: number, agent: Agent): Promise<number> {
    return new Promise((resolve, reject) => {
      const watch = this.#begin({ ...request, path: request.path.replaceAll('{i}', String(number)) }, agent)
      this.#watches.push(watch)
      watch.on('response', (response) => resolve(response.resume().statusCode ?? 0))
      watch.on('error', reject)
      watch.end()
    })
  }

  #begin({ method, path, headers, body, chunkBytes, user = 'admin' }: HttpRequest, agent: Agent): ClientRequest {
    const length = body === undefined || chunkBytes !== undefined ? {} : { 'content-length': Buffer.byteLength(body) }
    const all = { ...headers, ...length, authorization: `Bearer ${user}` }
    return httpRequest({ host: '127.0.0.1', port: this.port, method, path, headers: all, agent })
  }

  async #filledIn(request: HttpRequest): Promise<HttpRequest> {
    const now = (await this.#scene.etcd?.revision()) ?? 0
    const past = this.#scene.revision + 1
    return { ...request, path: request.path.replaceAll('{now}', String(now)).replaceAll('{past}', String(past)) }
  }
}

/** Sends the body in separate chunks, one for each write. */
function writeChunks(sent: ClientRequest, { body, chunkBytes }: HttpRequest): void {
  if (body === undefined || chunkBytes === undefined) return
  const bytes = Buffer.from(body)
  for (let at = 0; at < bytes.length; at += chunkBytes) sent.write(bytes.subarray(at, at + chunkBytes))
}
