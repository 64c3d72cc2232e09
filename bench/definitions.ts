/**
 * Question: how does a server of a cluster with 250 definitions, and 5 or 1,200 objects of each, get through a restart?
 * Clients follow every resource and reconnect as soon as they can, and each resource changes several times a minute.
 *
 * It measures the time from the start of the process until one requested resource is listed and until the server is
 * ready, the responses that clients got before then, and the time from SIGTERM to the end. For the second start, it
 * measures the longest delay of an event, from the later of two times: when the event was written, and when the server
 * was ready.
 */
import { get, type IncomingMessage } from 'node:http'
import { bundlePrograms, programFile } from '../test/support/program.js'
import { freePort } from '../test/support/free-port.js'
import { type Etcd, startEtcd } from './subjects/etcd.js'
import { attempt, type Choice, type Question } from './support/choice.js'
import { benchObjects, customResource, type BenchResource, MAGIC, pods, writeObjectsFile } from './support/objects.js'
import { type Child, endAll, sleep, start, usage } from './support/processes.js'
import { startWriter, writeAll } from './support/source.js'
import { createWorkspace } from './support/workspace.js'

const OBJECTS_EACH = [5, 1_200]
/**
 * The number of changes to pods before a start, because a cluster changes all the time, although most of its custom
 * resources do not.
 */
const OTHER_CHANGES = 12_000
const RATE = 50
const READY_MS = 300_000
const WRITE_MS = 600_000
const AGAIN_MS = 100
const SETTLE_MS = 10_000
const EXIT_MS = 120_000

export const definitions: Question = async (choice) => {
  for (const objectsEach of choice.quick ? OBJECTS_EACH.slice(0, 1) : OBJECTS_EACH) {
    const row = { question: 'definitions', subject: 'distributary', wire: 'http1', definitions: 250, objectsEach }
    await attempt(choice, row, () => measure(choice, row))
  }
}

interface Row {
  readonly question: string
  readonly subject: string
  readonly wire: string
  readonly definitions: number
  readonly objectsEach: number
}

async function measure(choice: Choice, row: Row): Promise<void> {
  const { definitions: count, objectsEach } = row
  const workspace = createWorkspace()
  try {
    await bundlePrograms()
    const etcd = await startEtcd(workspace, 'load')
    const resources = Array.from({ length: count }, (_, i) => customResource(`kind${String(i).padStart(4, '0')}k`))
    for (const { definition } of resources) await etcd.put(definition!.key, JSON.stringify(definition!.object))
    const each = { count: objectsEach, nodes: 100, bytes: 1024 }
    const objects = resources.flatMap((resource) => benchObjects(resource, each))
    const others = benchObjects(pods, { ...each, count: 100 })
    for (const [name, filled, writes] of [
      ['objects', objects, objects.length],
      ['others', others, OTHER_CHANGES],
    ] as const) {
      writeObjectsFile(workspace.path(name), filled)
      const filling = await startWriter(etcd.port, workspace.path(name), workspace.path(`${name}-filling`))
      await writeAll(filling, writes, WRITE_MS)
      await filling.end()
    }
    // The changes go to the first object of each resource, in turn.
    writeObjectsFile(
      workspace.path('changes'),
      resources.map((_, i) => objects[i * objectsEach]!),
    )
    const writer = await startWriter(etcd.port, workspace.path('changes'), workspace.path('progress'))
    const port = await freePort()
    const last = resources.at(-1)!

    const first = await startServer(choice, etcd, port, last)
    const followers = resources.map((resource) => new Follower(port, resource, count))
    const writing = writer.run({ rate: RATE, count: 1e9, ms: choice.quick ? 20_000 : 60_000 })
    await sleep(choice.quick ? 2_000 : SETTLE_MS)
    const { residentBytes } = usage(first.child.pid)
    const stopMs = await stop(first.child)
    for (const follower of followers) follower.startOver()
    const second = await startServer(choice, etcd, port, last)
    for (const follower of followers) follower.readyAt = second.readyAt
    const { next } = await writing
    await sleep(SETTLE_MS)
    for (const follower of followers) follower.close()
    const missing = followers.reduce((sum, follower) => sum + follower.missing + follower.behind(next), 0)
    if (missing > 0) throw new Error(`${missing} events are missing`)
    choice.recorder.row({
      ...row,
      objects: objects.length,
      serverFlags: choice.serverFlags.join(' '),
      listeningMs: first.listeningMs,
      askedMs: first.askedMs,
      readyMs: first.readyMs,
      startCpuSeconds: first.cpuSeconds,
      startReads: first.reads,
      residentMb: residentBytes / 2 ** 20,
      stopMs,
      readyAgainMs: second.readyMs,
      againCpuSeconds: second.cpuSeconds,
      againReads: second.reads,
      askedAgainMs: second.askedMs,
      answersBefore: answersText(followers),
      relists: followers.reduce((sum, { relists }) => sum + relists, 0),
      events: next,
      received: followers.reduce((sum, { received }) => sum + received, 0),
      latestMs: Math.max(...followers.map(({ latestMs }) => latestMs)),
    })
  } finally {
    await endAll()
    workspace.remove()
  }
}

interface Started {
  readonly child: Child
  readonly listeningMs: number
  readonly askedMs: number
  readonly readyMs: number
  /** Monotonic, in nanoseconds. */
  readonly readyAt: number
  readonly cpuSeconds: number
  /** The number of range requests that etcd received from the server. */
  readonly reads: number
}

async function startServer(
  { nodeFlags, serverFlags }: Choice,
  etcd: Etcd,
  port: number,
  asked: BenchResource,
): Promise<Started> {
  const reads = await etcd.reads()
  const begin = performance.now()
  const flags = [`--etcd-servers=http://127.0.0.1:${etcd.port}`, `--port=${port}`, '--log-level=warn', ...serverFlags]
  const child = start('distributary', 'server', [process.execPath, ...nodeFlags, programFile('main'), ...flags])
  const until = async (path: string): Promise<number> => {
    while ((await statusOf(port, path)) !== 200) {
      if (child.hasEnded || performance.now() - begin > READY_MS) throw new Error(`${path} is not answered`)
      await sleep(20)
    }
    return performance.now() - begin
  }
  const [listeningMs, askedMs, readyMs] = await Promise.all([
    until('/livez'),
    until(`${asked.path}?limit=1`),
    until('/readyz'),
  ])
  const [readyAt, { cpuSeconds }] = [nowNanos(), usage(child.pid)]
  return { child, listeningMs, askedMs, readyMs, readyAt, cpuSeconds, reads: (await etcd.reads()) - reads }
}

async function stop(child: Child): Promise<number> {
  const begin = performance.now()
  process.kill(child.pid, 'SIGTERM')
  while (!child.hasEnded && performance.now() - begin < EXIT_MS) await sleep(10)
  if (!child.hasEnded) throw new Error('the server did not end')
  return performance.now() - begin
}

const nowNanos = (): number => Number(process.hrtime.bigint())

async function statusOf(port: number, path: string): Promise<number> {
  const answer = await answerOf(port, path).catch(() => null)
  answer?.resume()
  return answer?.statusCode ?? 0
}

function answerOf(port: number, path: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    get({ port, host: '127.0.0.1', path }, resolve).on('error', reject)
  })
}

/**
 * Lists once and watches from there. When its watch ends, it resumes after a tenth of a second, or after the time that
 * a refusal requests.
 */
class Follower {
  relists = 0
  received = 0
  latestMs = 0
  /** Until this is set, no event counts as late. */
  readyAt = Number.POSITIVE_INFINITY
  /** The number of refusals by status; the status is 0 for a failed connection. */
  readonly answers = new Map<number, number>()
  missing = 0
  #revision = ''
  /** The sequence of the last event; null after a list. */
  #sequence: number | null = null
  #isClosed = false
  #answer: IncomingMessage | null = null

  constructor(
    private readonly port: number,
    private readonly resource: BenchResource,
    /** Consecutive sequences of one resource differ by this, because resources are written in turn. */
    private readonly every: number,
  ) {
    void this.#follow()
  }

  /** Counts answers and lists from zero again. */
  startOver(): void {
    this.answers.clear()
    this.relists = 0
  }

  close(): void {
    this.#isClosed = true
    this.#answer?.destroy()
  }

  /**
   * Returns how many events are missing after the last received one, if `written` events were written to all resources
   * together.
   */
  behind(written: number): number {
    return this.#sequence === null ? 0 : Math.floor((written - 1 - this.#sequence) / this.every)
  }

  async #follow(): Promise<void> {
    while (!this.#isClosed) {
      const path =
        this.#revision === ''
          ? `${this.resource.path}?limit=1`
          : `${this.resource.path}?watch=1&allowWatchBookmarks=true&resourceVersion=${this.#revision}`
      const answer = await answerOf(this.port, path).catch(() => null)
      this.#answer = answer
      const status = answer?.statusCode ?? 0
      if (status !== 200) this.answers.set(status, (this.answers.get(status) ?? 0) + 1)
      else if (this.#revision === '') await this.#list(answer!).catch(() => {})
      else await this.#watch(answer!).catch(() => {})
      answer?.resume()
      const retrySeconds = Number(answer?.headers['retry-after'] ?? 0)
      await sleep(retrySeconds > 0 ? retrySeconds * 1_000 : AGAIN_MS)
    }
  }

  async #list(answer: IncomingMessage): Promise<void> {
    this.relists++
    this.#sequence = null
    const chunks: Buffer[] = []
    for await (const chunk of answer as AsyncIterable<Buffer>) chunks.push(chunk)
    const list = JSON.parse(Buffer.concat(chunks).toString()) as { metadata: { resourceVersion: string } }
    this.#revision = list.metadata.resourceVersion
  }

  async #watch(answer: IncomingMessage): Promise<void> {
    let text = ''
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      text += chunk.toString('latin1')
      for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n')) {
        this.#event(text.slice(0, end))
        text = text.slice(end + 1)
      }
    }
  }

  #event(line: string): void {
    const { type, object } = JSON.parse(line) as { type: string; object: { metadata?: { resourceVersion: string } } }
    if (type === 'ERROR') return void (this.#revision = '')
    this.#revision = object.metadata!.resourceVersion
    const at = line.indexOf(MAGIC)
    if (at === -1) return
    this.received++
    const [sequence, writtenAt] = [numberAt(line, at + MAGIC.length, 12), numberAt(line, at + MAGIC.length + 12, 18)]
    if (this.#sequence !== null && sequence !== this.#sequence + this.every) this.missing++
    this.#sequence = sequence
    if (this.readyAt === Number.POSITIVE_INFINITY) return
    this.latestMs = Math.max(this.latestMs, (nowNanos() - Math.max(writtenAt, this.readyAt)) / 1e6)
  }
}

function numberAt(text: string, at: number, digits: number): number {
  return Number(text.slice(at, at + digits))
}

function answersText(followers: readonly Follower[]): string {
  const sums = new Map<number, number>()
  for (const { answers } of followers) {
    for (const [status, count] of answers) sums.set(status, (sums.get(status) ?? 0) + count)
  }
  return [...sums].map(([status, count]) => `${status}: ${count}`).join(', ')
}
