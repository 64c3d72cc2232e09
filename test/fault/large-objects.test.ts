/** Large objects that fill the memory must not keep clients away from the small resources. */
import t from 'tap'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { LightWatcher } from '../support/light-watcher.js'
import { startServer } from '../support/server-process.js'
import { pause } from '../support/until.js'

const MIB = 2 ** 20
const OBJECTS = 16
const READERS = 6
/** How often all of them are rewritten: at most so often, and at least so often once the memory is full. */
const MAX_ROUNDS = 40
const ROUNDS = 2
/** A client that is refused comes back a few times. */
const ATTEMPTS = 4

interface Answer {
  readonly code: number
  readonly text: string
  readonly position: string
}

const GONE: Answer = { code: 0, text: '', position: '' }

/** Returns null if the connection ended: while memory is short, the server closes those that have waited for 2 s. */
async function request(url: string): Promise<Answer | null> {
  try {
    const answer = await fetch(url)
    const position = answer.headers.get('x-distributary-position') ?? ''
    return { code: answer.status, text: await answer.text(), position }
  } catch (error) {
    if (error instanceof TypeError && error.message === 'fetch failed') return null
    throw error
  }
}

void t.test('a small prefix is listed and polled while 16 MB of large objects are rewritten', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const rewrite = async (round: number): Promise<number> => {
    let last = 0
    for (let i = 0; i < OBJECTS; i++) {
      last = await writer.put(`/large/${i}`, `${round} `.padEnd(MIB, String.fromCharCode(97 + i)))
    }
    return last
  }
  await writer.put('/small/a', 'at the start')
  const first = await rewrite(0)
  const server = await startServer(t, {
    flags: ['--etcd-servers', etcd.url, '--resource=large=/large/,small=/small/', '--memory-target=256Mi'],
    // The target of one process.
    isSurrounded: false,
  })
  const api = `${server.url}/apis/distributary.io/v1`
  const watchers = Array.from({ length: 4 }, () => new LightWatcher(`${api}/large?watch=1&resourceVersion=${first}`))
  t.teardown(() => watchers.forEach((watcher) => watcher.destroy()))
  await Promise.all(watchers.map((watcher) => watcher.until(({ status }) => status === 200)))

  let refused = 0
  let asked = 0
  const ask = async (query: string): Promise<Answer> => {
    for (let attempt = 1; ; attempt++) {
      const answer = await request(`${api}/small?${query}`)
      asked++
      if ((answer !== null && answer.code !== 429) || attempt === ATTEMPTS) return answer ?? GONE
      refused++
      await pause(250)
    }
  }
  let rewritten = 0
  let roundsFull = 0
  let isOver = false
  const codes = new Map<number, number>()
  const isFull = (): boolean => codes.has(429)
  const rewriting = (async () => {
    while (!isOver && roundsFull < ROUNDS && rewritten < MAX_ROUNDS) {
      await rewrite(++rewritten)
      if (isFull()) roundsFull++
    }
    isOver = true
  })()
  const readAll = async (): Promise<void> => {
    while (!isOver) {
      const { code } = (await request(`${api}/large`)) ?? GONE
      codes.set(code, (codes.get(code) ?? 0) + 1)
      await pause(50)
    }
  }
  const reading = Promise.all(Array.from({ length: READERS }, readAll))
  for (let round = 0; !isOver; round++) {
    const list = await ask('history=')
    t.equal(list.code, 200, `list ${round}`)
    if (list.code !== 200) break
    const { metadata } = JSON.parse(list.text) as { readonly metadata: { readonly resourceVersion: string } }
    const value = `in round ${round}`
    const poll = ask(`watch=1&resourceVersion=${metadata.resourceVersion}&wait=20s&history=${list.position}`)
    await writer.put('/small/a', value)
    const { code, text } = await poll
    t.equal(code, 200, `poll ${round}`)
    t.ok(text.includes(`"${value}"`), 'the poll has the change')
    t.equal((await ask('resourceVersion=0')).code, 200, `cached list ${round}`)
  }
  isOver = true
  await Promise.all([rewriting, reading])
  t.ok(isFull(), 'the lists of large objects are refused meanwhile')
  t.ok(
    watchers.every(({ end }) => end === 'open'),
    'and their watches go on',
  )
  const { now, peak } = server.memory()
  t.comment(
    `${Math.round(now / MIB)} MiB, ${Math.round(peak / MIB)} at the most; ${refused} of ${asked} requests refused at first; ` +
      `large lists: ${[...codes].map(([code, count]) => `${count} × ${code}`).join(', ')}`,
  )
})
