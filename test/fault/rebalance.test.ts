/**
 * `--rebalance` with real replicas, of which one has workers: a new replica behind a balancer that picks at random gets
 * its share of the connections. No client lists again, and each sees every event once and in order. The server's
 * intervals are shortened.
 */
import { request } from 'node:https'
import { type ClientHttp2Session, connect } from 'node:http2'
import type { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { pod } from '../support/pod.js'
import { bundleWith, constant, needsNode } from '../support/program.js'
import { pause, until } from '../support/until.js'
import { startRebalancingFleet } from './rebalancing-fleet.js'

const CONNECTIONS = 240
const SOURCE = 'src/server/served/rebalance.ts'
const QUIET_MS = 3_000
const SHORTENED = [
  constant(SOURCE, 'QUIET_MS', QUIET_MS),
  constant(SOURCE, 'SHARE_PER_SECOND', 0.1),
  constant(SOURCE, 'REVIEW_MS', 12_000),
  constant(SOURCE, 'PAUSE_MS', 2_000),
  constant(SOURCE, 'DONE_MS', 4_000),
]

interface Line {
  readonly type: string
  readonly object: { readonly metadata: { readonly resourceVersion: string } }
}

/** A client with one connection, which resumes its watch wherever the balancer sends it. */
class Follower {
  readonly revisions: number[] = []
  problem: string | null = null
  resumes = -1
  #position: string
  #session: ClientHttp2Session | null = null
  #close: () => void = () => {}
  #isStopped = false

  constructor(
    private readonly url: string,
    private readonly isHttp2: boolean,
    position: number,
  ) {
    this.#position = String(position)
    this.#open()
  }

  stop(): void {
    this.#isStopped = true
    this.#close()
  }

  #open(): void {
    if (this.#isStopped) return
    this.resumes++
    const path = `/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion=${this.#position}`
    if (this.isHttp2) this.#openHttp2(path)
    else this.#openHttp1(path)
  }

  #openHttp2(path: string): void {
    if (this.#session === null || this.#session.closed || this.#session.destroyed) {
      const opened = connect(this.url, { rejectUnauthorized: false })
      opened.on('error', () => {})
      // As client-go: what runs on the connection goes on, and the next request opens another one.
      opened.on('goaway', () => opened.close())
      this.#session = opened
    }
    const session = this.#session
    const stream = session.request({ ':path': path })
    stream.on('response', ({ ':status': status }) => this.#check(status))
    this.#close = () => session.destroy()
    this.#read(stream)
  }

  #openHttp1(path: string): void {
    const sent = request(`${this.url}${path}`, { rejectUnauthorized: false, agent: false })
    const resume = (): void => this.#resume()
    // Without a response. Another replica answers the next request.
    sent.once('error', resume)
    sent.on('response', (answer) => {
      sent.off('error', resume)
      sent.on('error', () => {})
      this.#check(answer.statusCode)
      this.#read(answer)
    })
    this.#close = () => sent.destroy()
    sent.end()
  }

  #check(status: number | undefined): void {
    if (status !== 200) this.problem ??= `status ${status}`
  }

  #read(stream: Readable): void {
    let text = ''
    stream.setEncoding('utf8')
    stream.on('data', (more: string) => {
      const lines = (text + more).split('\n')
      text = lines.pop()!
      for (const line of lines) this.#take(JSON.parse(line) as Line)
    })
    stream.on('error', () => {})
    stream.once('close', () => this.#resume())
  }

  #take({ type, object }: Line): void {
    if (type === 'ERROR') {
      this.problem ??= JSON.stringify(object)
      return
    }
    this.#position = object.metadata.resourceVersion
    if (type !== 'BOOKMARK') this.revisions.push(Number(this.#position))
  }

  #resume(): void {
    setTimeout(() => this.#open(), Math.random() * 500)
  }
}

void t.test('a new replica gets its share of the connections', { skip: needsNode }, async (t: Test) => {
  const program = await bundleWith('rebalance', SHORTENED)
  const fleet = await startRebalancingFleet(t, { program, connections: CONNECTIONS, quietMs: QUIET_MS })
  const { writer, url } = fleet
  const first = await writer.put('/registry/pods/default/p', pod('p'))
  const followers = Array.from({ length: CONNECTIONS }, (_, i) => new Follower(url, i % 4 < 2, first))
  t.teardown(() => followers.forEach((one) => one.stop()))
  const written: number[] = []
  let isWriting = true
  t.teardown(() => (isWriting = false))
  const writing = (async () => {
    for (let n = 0; isWriting; n++) {
      written.push(await writer.put(`/registry/pods/default/p${n % 10}`, pod(`p${n % 10}`, { labels: { n: `${n}` } })))
      await pause(100)
    }
  })()
  await fleet.connected()
  await fleet.grow(90_000)
  await fleet.rollOut()

  isWriting = false
  await writing
  const isComplete = (): boolean => followers.every(({ revisions }) => revisions.at(-1) === written.at(-1))
  await until(isComplete, () => `the last event; ${followers.filter((one) => one.problem !== null).length} problems`)
  t.same(
    followers.flatMap(({ problem }) => problem ?? []),
    [],
    'no watch was refused, so none had to list',
  )
  for (const { revisions } of followers) if (String(revisions) !== String(written)) t.same(revisions, written)
  const resumed = followers.filter(({ resumes }) => resumes > 0).length
  t.ok(resumed >= CONNECTIONS / 4, `${resumed} resumed`)
})
