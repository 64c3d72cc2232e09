/** Server-sent events: the bytes, what an EventSource receives when something fails, and a real one in a browser. */
import { type IncomingMessage, get } from 'node:http'
import t from 'tap'
import { createEmbeddedUpstream } from '../../../support/faulty-store.js'
import { type AppHarness, startApp } from '../../../support/app.js'
import { pod } from '../../../support/pod.js'
import { pause, until } from '../../../support/until.js'
import { openPage } from '../../../support/chromium.js'
import { EventReader } from '../../../support/event-reader.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

const PODS = '/api/v1/pods'

interface Block {
  readonly event?: string
  readonly id?: string
  readonly data?: {
    readonly kind: string
    readonly metadata: Record<string, string | undefined>
    readonly code?: number
  }
  readonly retry?: string
}

class EventStream {
  readonly blocks: Block[] = []
  ended = false
  #text = ''

  constructor(readonly response: IncomingMessage) {
    response.setEncoding('utf8')
    response.on('data', (text: string) => {
      this.#text += text
      const blocks = this.#text.split('\n\n')
      this.#text = blocks.pop()!
      this.blocks.push(...blocks.map(parse))
    })
    response.on('close', () => (this.ended = true))
  }

  async has(count: number): Promise<readonly Block[]> {
    await until(() => this.blocks.length >= count, `${count} blocks, of ${JSON.stringify(this.blocks)}`)
    return this.blocks
  }

  async all(): Promise<readonly Block[]> {
    await until(() => this.ended, 'the end')
    return this.blocks
  }
}

function parse(block: string): Block {
  const fields = block.split('\n').map((line) => /^(\w+):? ?(.*)$/.exec(line)!.slice(1) as [string, string])
  const parsed = Object.fromEntries(fields)
  return 'data' in parsed ? { ...parsed, data: JSON.parse(parsed['data']!) as NonNullable<Block['data']> } : parsed
}

async function open(h: AppHarness, query: string, headers: Record<string, string> = {}): Promise<EventStream> {
  const all = { accept: 'text/event-stream', ...headers }
  return await new Promise((resolve, reject) => {
    get(`${h.url}${PODS}?watch=1${query}`, { agent: false, headers: all }, (response) =>
      resolve(new EventStream(response)),
    ).on('error', reject)
  })
}

const brief = ({ event, id, data }: Block): string => `${event ?? '-'} ${data?.metadata['name'] ?? '-'} id=${id ?? '-'}`

void t.test('events carry their type, their object, and an id only where a revision is whole', async (t) => {
  const h = await startApp(t, { objects: { 'pods/default/a': pod('a'), 'pods/default/b': pod('b') } })
  const stream = await open(h, '')
  t.match(stream.response.headers, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache, private',
    incremental: '?1',
    'x-accel-buffering': 'no',
  })
  await stream.has(4)
  const three = h.commit({ 'pods/default/c': pod('c'), 'pods/default/d': pod('d'), 'pods/default/a': null })
  const one = h.put('pods/default/e', pod('e'))
  t.same((await stream.has(8)).map(brief), [
    '- - id=-',
    'ADDED a id=-',
    'ADDED b id=-',
    // The state is complete; a client that asked for no bookmarks gets no event for that.
    '- - id=3',
    'ADDED c id=-',
    'ADDED d id=-',
    `DELETED a id=${three}`,
    `ADDED e id=${one}`,
  ])
  t.match(stream.blocks[1]?.data, { kind: 'Pod', metadata: { name: 'a', resourceVersion: '2' } })
  stream.response.destroy()
  await until(() => h.watchers === 0, 'forgotten')
})

void t.test(
  'each stream has its own delay for the next attempt, so that a restart brings nobody back together',
  async (t) => {
    const h = await startApp(t)
    const delays = new Set<number>()
    for (let i = 0; i < 8; i++) {
      const stream = await open(h, '&resourceVersion=1')
      delays.add(Number((await stream.has(1))[0]!.retry))
      stream.response.destroy()
    }
    t.ok(delays.size > 1, [...delays].join())
    t.ok(Math.min(...delays) >= 1_000 && Math.max(...delays) <= 5_000)
  },
)

void t.test('a requested bookmark is an event, and marks the end of the state', async (t) => {
  const h = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const stream = await open(h, '&allowWatchBookmarks=true')
  const [, , bookmark] = await stream.has(3)
  t.match(bookmark, {
    event: 'BOOKMARK',
    id: '2',
    data: { metadata: { resourceVersion: '2', annotations: { 'k8s.io/initial-events-end': 'true' } } },
  })
  stream.response.destroy()
})

void t.test('Last-Event-ID takes precedence over the resourceVersion of the URL, in this framing only', async (t) => {
  const h = await startApp(t)
  const revisions = ['a', 'b', 'c'].map((name) => h.put(`pods/default/${name}`, pod(name)))
  const headers = { 'last-event-id': String(revisions[1]) }
  const stream = await open(h, '&resourceVersion=1', headers)
  t.same((await stream.has(2)).map(brief), ['- - id=-', `ADDED c id=${revisions[2]}`])
  stream.response.destroy()
  const lines = await new Promise<IncomingMessage>((resolve, reject) => {
    get(`${h.url}${PODS}?watch=1&resourceVersion=1&timeoutSeconds=1`, { agent: false, headers }, resolve).on(
      'error',
      reject,
    )
  })
  t.equal((await new EventReader(lines).all()).length, 3, 'a JSON watch goes by its URL')
})

void t.test('a position that is gone is answered with an ERROR, and cleared by an empty id', async (t) => {
  const objects = Object.fromEntries(['a', 'b', 'c'].map((name) => [`pods/default/${name}`, pod(name)]))
  const h = await startApp(t, { flags: ['--backfill-revisions', '0'], objects })
  const stream = await open(h, '', { 'last-event-id': '2' })
  const [, error, after] = await stream.all()
  t.match(error, { event: 'ERROR', data: { kind: 'Status', code: 410, reason: 'Expired' } })
  t.equal(error?.id, undefined)
  t.equal(after?.id, '')
})

void t.test(
  'an error that a retry can fix is an ERROR event with the time to wait; any other is an ordinary answer',
  async (t) => {
    void t.test('watchers beyond the limit get 429', async (t) => {
      const h = await startApp(t, { flags: ['--max-watchers', '1'] })
      const first = await open(h, '&resourceVersion=1')
      const second = await open(h, '&resourceVersion=1')
      t.equal(second.response.statusCode, 200)
      const [, error, after] = await second.all()
      t.match(error, { event: 'ERROR', data: { code: 429, reason: 'TooManyRequests' } })
      t.match(after?.retry, /^[1-9]\d*000$/)
      first.response.destroy()
    })
    void t.test('a draining server tells clients to wait', async (t) => {
      const h = await startApp(t, { flags: ['--shutdown-watch-termination-grace-period', '0s'] })
      await h.app.drain()
      const stream = await open(h, '')
      t.equal(stream.response.statusCode, 200)
      t.match(await stream.all(), [{}, { event: 'ERROR', data: { code: 503 } }, { retry: '1000' }])
    })
    void t.test('a resource that is not listed yet tells clients to wait', async (t) => {
      const upstream = createEmbeddedUpstream()
      upstream.setUnavailable(true)
      const h = await startApp(t, { upstream, ready: false })
      const stream = await open(h, '')
      t.equal(stream.response.statusCode, 200)
      t.match(await stream.all(), [{}, { event: 'ERROR', data: { code: 429 } }, { retry: /000$/ }])
    })
    void t.test('a wrong request is rejected with an ordinary answer', async (t) => {
      const h = await startApp(t)
      t.equal((await open(h, '&resourceVersion=x')).response.statusCode, 400)
      t.equal((await open(h, '&labelSelector=!!')).response.statusCode, 400)
    })
  },
)

void t.test('a quiet stream sends its position without an event', async (t) => {
  const clock = new VirtualClock()
  const h = await startApp(t, { clock, objects: { 'pods/default/a': pod('a') } })
  const stream = await open(h, '')
  await stream.has(3)
  const elsewhere = h.put('configmaps/default/x', { kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'x' } })
  // The upstream's progress comes every few seconds; the next mark carries a revision without an event for pods.
  for (let i = 0; i < 200 && stream.blocks.at(-1)?.id !== String(elsewhere); i++) {
    await clock.advanceInTurns(500, 100)
  }
  t.equal(stream.blocks.at(-1)?.id, String(elsewhere))
  t.ok(stream.blocks.every(({ event }) => event === undefined || event === 'ADDED'))
  stream.response.destroy()
})

void t.test('pages of other origins read it only where the operator named them', async (t) => {
  const h = await startApp(t, { flags: ['--cors-allowed-origins', 'https://app.example.org'] })
  const named = await open(h, '', { origin: 'https://app.example.org' })
  t.equal(named.response.headers['access-control-allow-origin'], 'https://app.example.org')
  t.match(named.response.headers['vary'], 'Origin')
  const other = await open(h, '', { origin: 'https://app.example.org.evil.example' })
  t.equal(other.response.headers['access-control-allow-origin'], undefined)
  named.response.destroy()
  other.response.destroy()
  const silent = await startApp(t)
  const none = await open(silent, '', { origin: 'https://app.example.org' })
  t.equal(none.response.headers['access-control-allow-origin'], undefined)
  none.response.destroy()
})

void t.test("a browser's EventSource", async (t) => {
  void t.test('an EventSource continues after a lost connection where it was', async (t) => {
    const h = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
    const page = await openPage(t, `${h.url}/livez`)
    await page.evaluate(watchInPage, `${PODS}?watch=1&timeoutSeconds=1`)
    const seen = (): Promise<readonly string[]> => page.evaluate(seenInPage)
    await until(async () => (await seen()).includes('ADDED a'), 'the page sees it')
    await until(() => h.watchers === 0, 'the first connection has ended')
    h.put('pods/default/b', pod('b'))
    await until(async () => (await seen()).some((line) => line.startsWith('ADDED b')), 'the page sees it')
    h.delete('pods/default/a')
    await until(async () => (await seen()).some((line) => line.startsWith('DELETED a')), 'the page sees it')
    t.same(await seen(), ['ADDED a', 'ADDED b', 'DELETED a'], 'nothing twice, nothing missing')
  })
  void t.test('an EventSource starts over after its position is gone', async (t) => {
    const h = await startApp(t, {
      config: { watchCacheAge: 1 },
      objects: { 'pods/default/a': pod('a') },
    })
    const page = await openPage(t, `${h.url}/livez`)
    await page.evaluate(watchInPage, `${PODS}?watch=1&timeoutSeconds=1`)
    const seen = (): Promise<readonly string[]> => page.evaluate(seenInPage)
    await until(async () => (await seen()).includes('ADDED a'), 'the page sees it')
    await until(() => h.watchers === 0, 'the first connection has ended')
    for (let i = 0; i < 200; i++) h.put('pods/default/b', pod('b', { labels: { i: String(i) } }))
    // All these events may fall within one millisecond; the history is trimmed at the next event.
    await pause(20)
    h.put('pods/default/b', pod('b', { labels: { i: 'last' } }))
    await until(async () => (await seen()).length >= 4, 'the page sees it')
    t.same((await seen()).slice(0, 4), ['ADDED a', 'ERROR', 'ADDED a', 'ADDED b'])
  })
  void t.test('an EventSource returns to a server that had no room', async (t) => {
    const h = await startApp(t, { flags: ['--max-watchers', '1'], objects: { 'pods/default/a': pod('a') } })
    const first = await open(h, '')
    const page = await openPage(t, `${h.url}/livez`)
    await page.evaluate(watchInPage, `${PODS}?watch=1`)
    await until(async () => (await page.evaluate(seenInPage)).includes('ERROR'), 'the page sees it')
    first.response.destroy()
    await until(async () => (await page.evaluate(seenInPage)).includes('ADDED a'), 'the page sees it')
    t.same(await page.evaluate(seenInPage), ['ERROR', 'ADDED a'])
  })
})

// These functions run in the browser.

interface PageWindow {
  seen: string[]
  EventSource: new (url: string) => {
    addEventListener(type: string, listener: (event: { data: string }) => void): void
  }
}

function watchInPage(url: string): void {
  const page = globalThis as unknown as PageWindow
  page.seen = []
  const source = new page.EventSource(url)
  for (const type of ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR']) {
    source.addEventListener(type, ({ data }) => {
      const { metadata } = JSON.parse(data) as { metadata: { name?: string } }
      page.seen.push(metadata.name === undefined ? type : `${type} ${metadata.name}`)
    })
  }
}

function seenInPage(): string[] {
  return (globalThis as unknown as PageWindow).seen
}
