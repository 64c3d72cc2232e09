/** With `--workers`, limits hold for the whole server, whichever worker accepts a connection. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, get, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { until } from '../support/until.js'
import { type ServerProcess, startServer } from '../support/server-process.js'

const WORKERS = 3

async function start(t: Test, flags: readonly string[]): Promise<ServerProcess> {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-limits-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const tokens = join(directory, 'tokens.csv')
  writeFileSync(tokens, 't-ann,ann,1\nt-bob,bob,2\nt-carl,carl,3\nt-probe,probe,4\n')
  const server = await startServer(t, {
    flags: ['--workers', String(WORKERS), '--token-auth-file', tokens, '--authorization-mode', 'AlwaysAllow', ...flags],
    ready: false,
  })
  await until(async () => (await sample(server, 'distributary_workers')) === WORKERS, 'all workers serve')
  return server
}

async function sample({ url }: ServerProcess, name: string): Promise<number> {
  const answer = await fetch(`${url}/metrics`, { headers: { authorization: 'Bearer t-probe' } })
  const line = (await answer.text()).split('\n').find((text) => text.startsWith(`${name} `))
  return Number(line?.slice(name.length + 1))
}

/** Sends a request on a new connection. */
function ask(t: Test, server: ServerProcess, path: string, token: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const agent = new Agent()
    const request = get(`${server.url}${path}`, { agent, headers: { authorization: `Bearer ${token}` } }, (answer) => {
      answer.on('error', () => {})
      answer.resume()
      resolve(answer)
    })
    request.on('error', reject)
    t.teardown(() => {
      request.destroy()
      agent.destroy()
    })
  })
}

async function watches(t: Test, server: ServerProcess, token: string, count: number): Promise<IncomingMessage[]> {
  const answers: IncomingMessage[] = []
  for (let i = 0; i < count; i++) answers.push(await ask(t, server, '/api/v1/pods?watch=true', token))
  return answers.filter(({ statusCode }) => statusCode === 200)
}

function workersOf({ pid }: ServerProcess): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
}

void t.test(
  'watchers are counted over all workers, in total and per client, even when a worker is killed',
  async (t) => {
    const server = await start(t, ['--max-watchers', '30', '--max-watchers-per-client', '20'])
    const ofAnn = await watches(t, server, 't-ann', 40)
    t.equal(ofAnn.length, 20, 'of one client')
    const ofBob = await watches(t, server, 't-bob', 20)
    t.equal(ofBob.length, 10, 'in all')
    t.equal(await sample(server, 'distributary_http_rejected_total{limit="watchers-per-client"}'), 20)
    t.equal(await sample(server, 'distributary_http_rejected_total{limit="watchers"}'), 10)

    let ended = 0
    for (const watch of [...ofAnn, ...ofBob]) watch.once('close', () => ended++)
    // The system may have given all connections to some of the workers.
    for (const worker of workersOf(server)) {
      if (ended > 0) break
      process.kill(worker, 'SIGKILL')
      await until(() => !workersOf(server).includes(worker), 'it has ended')
      await until(async () => (await sample(server, 'distributary_workers')) === WORKERS, 'another takes its place')
    }
    t.ok(ended > 0, 'its watches have ended')
    const again = await watches(t, server, 't-carl', 40)
    t.equal(again.length, Math.min(20, ended), 'the places of the killed worker are free, and no other')
  },
)

void t.test('requests of one identity are counted over all workers', async (t) => {
  const server = await start(t, ['--requests-per-second', '2'])
  const startedMs = performance.now()
  const answers = await Promise.all(Array.from({ length: 120 }, () => ask(t, server, '/api/v1/pods?limit=1', 't-ann')))
  const seconds = (performance.now() - startedMs) / 1_000
  const passed = answers.filter(({ statusCode }) => statusCode === 200).length
  t.ok(passed <= 20 + Math.ceil(2 * seconds), `${passed} passed in ${seconds} s`)
  t.ok(passed >= 20 - WORKERS, `${passed} passed: a slow worker reserves almost none for later requests`)
  t.equal((await ask(t, server, '/api/v1/pods?limit=1', 't-bob')).statusCode, 200, 'another identity has its own')
})

void t.test('writes are answered, and lists, through slots of the whole server', async (t) => {
  const server = await start(t, ['--max-initial-states', '1'])
  const lists = await Promise.all(Array.from({ length: 30 }, () => ask(t, server, '/api/v1/pods', 't-ann')))
  t.same([...new Set(lists.map(({ statusCode }) => statusCode))], [200], 'they wait for each other')
})
