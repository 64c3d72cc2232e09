/**
 * Tests whole processes over a real etcd: every worker reads what any of them has written, and a kill leaves no partial
 * write.
 */
import { Agent, request as httpRequest } from 'node:http'
import t, { type Test } from 'tap'
import { startEtcd } from '../../../support/etcd-process.js'
import { startServer } from '../../../support/server-process.js'

interface Answer {
  readonly code: number
  readonly body: { readonly metadata: { readonly resourceVersion: string }; readonly data: Record<string, string> }
}

/** Uses a new connection for each request, unless an agent keeps one, so that the kernel chooses the worker. */
function ask(url: string, method: string, path: string, body?: object, agent: Agent | false = false): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json' }
    const request = httpRequest(`${url}${path}`, { method, headers, agent }, (response) => {
      const pieces: Buffer[] = []
      response.on('data', (piece: Buffer) => pieces.push(piece))
      response.on('error', reject)
      response.on('end', () => {
        try {
          resolve({
            code: response.statusCode ?? 0,
            body: JSON.parse(Buffer.concat(pieces).toString()) as Answer['body'],
          })
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)))
        }
      })
    })
    request.on('error', reject)
    request.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

const MAPS = '/api/v1/namespaces/default/configmaps'
const FLAGS = ['--enable-writes', '--workers', '2'] as const

async function start(t: Test) {
  const etcd = await startEtcd(t)
  const server = await startServer(t, { flags: ['--etcd-servers', etcd.url, ...FLAGS], ready: false })
  const isUp = async (): Promise<boolean> => (await ask(server.url, 'GET', MAPS).catch(() => null))?.code === 200
  for (const end = Date.now() + 30_000; !(await isUp());) if (Date.now() > end) throw new Error('the server is not up')
  return { etcd, server }
}

void t.test('every worker sees a write at once', async (t) => {
  const { server } = await start(t)
  const { code } = await ask(server.url, 'POST', MAPS, { metadata: { name: 'own' }, data: { n: '0' } })
  t.equal(code, 201)
  for (let n = 1; n <= 60; n++) {
    const { body: written } = await ask(server.url, 'PATCH', `${MAPS}/own`, { data: { n: String(n) } })
    const reads = [1, 2, 3].map(() => ask(server.url, 'GET', n % 2 === 0 ? `${MAPS}/own` : `${MAPS}?limit=10`))
    for (const { body } of await Promise.all(reads)) {
      const own = 'items' in body ? (body as unknown as { items: Answer['body'][] }).items[0]! : body
      if (own.data['n'] !== String(n)) t.fail(`${own.data['n']} was read after ${n} was written`)
      if (own.metadata.resourceVersion !== written.metadata.resourceVersion) t.fail('another version was read')
    }
  }
  t.pass('60 writes, each read three times')
})

void t.test('kill -9 in the middle of writes leaves no half write', async (t) => {
  const { etcd, server } = await start(t)
  const names = Array.from({ length: 16 }, (_, i) => `m${i}`)
  const filler = 'x'.repeat(20_000)
  const acknowledged = new Map<string, number>()
  const asked = new Map<string, number>()
  const valueOf = (n: number): Record<string, string> => ({ first: String(n), filler, last: String(n) })
  for (const name of names) await ask(server.url, 'POST', MAPS, { metadata: { name }, data: valueOf(0) })
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  t.teardown(() => agent.destroy())
  let acks = 0
  const writing = names.map(async (name) => {
    for (let n = 1; ; n++) {
      asked.set(name, n)
      const answer = await ask(
        server.url,
        'PUT',
        `${MAPS}/${name}`,
        { metadata: { name }, data: valueOf(n) },
        agent,
      ).catch(() => null)
      if (answer?.code !== 200) return
      acknowledged.set(name, n)
      if (++acks === 300) process.kill(server.pid, 'SIGKILL')
    }
  })
  await Promise.all(writing)
  await server.exited
  const base64 = (text: string): string => Buffer.from(text).toString('base64')
  const prefix = '/registry/configmaps/default'
  const { kvs } = (await etcd.call('kv/range', { key: base64(`${prefix}/`), range_end: base64(`${prefix}0`) })) as {
    kvs: { key: string; value: string }[]
  }
  t.equal(kvs.length, names.length)
  for (const { key, value } of kvs) {
    const name = Buffer.from(key, 'base64')
      .toString()
      .slice(prefix.length + 1)
    const { data } = JSON.parse(Buffer.from(value, 'base64').toString()) as { data: Record<string, string> }
    t.equal(data['first'], data['last'], `${name} is whole`)
    const n = Number(data['last'])
    t.ok(
      n >= (acknowledged.get(name) ?? 0) && n <= (asked.get(name) ?? 0),
      `${name}: ${n} is the last acknowledged or asked for`,
    )
  }
})
