/**
 * `npm run judge -- etcd-api [--build-seconds N]`: two of Kubernetes' own API servers with their etcd behind us. Their
 * prefix is declared and served in etcd's own API, and we restart in the middle of their work. What each of them lists
 * must equal the other's and etcd's, and no watch may miss or repeat an event. The API server and etcd 3.7 are built the
 * first time; without Go a line says what is skipped. The last line is `N passed, N failed`.
 */
import { parseArgs } from 'node:util'
import { buildEtcd } from '../etcd/versions.js'
import { ask, type Server } from '../reference/ask.js'
import { type ApiServer, startApiServer } from '../reference/control-plane.js'
import { buildKubernetes } from '../reference/programs.js'
import { NoProgramError } from '../support/go-program.js'
import { bundlePrograms } from '../support/program.js'
import { runMain } from '../support/run-main.js'
import { startServer } from '../support/server-process.js'
import { until } from '../support/until.js'
import { print, verdict } from '../support/verdict.js'
import { withTeardown } from '../support/with-teardown.js'
import { freePort } from '../support/free-port.js'
import { servedFlags } from './support/served-flags.js'

const CONFIG_MAPS = '/api/v1/namespaces/default/configmaps'
const ROUNDS = 3
const WRITES = 40

let passed = 0
let failed = 0

function check(isOk: boolean, what: string): void {
  if (isOk) passed++
  else failed++
  print(`${isOk ? 'ok' : 'not ok'} - ${what}`)
}

async function main(): Promise<number> {
  const { values } = parseArgs({ options: { 'build-seconds': { type: 'string', default: '1800' } } })
  const deadlineMs = performance.now() + Number(values['build-seconds']) * 1_000
  let program: string
  try {
    process.env['ETCD_BIN'] = buildEtcd('3.7', deadlineMs)
    program = buildKubernetes('kube-apiserver', deadlineMs)
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    print(`skipped: ${error.message}`)
    return verdict({ passed: 0, failed: 0 })
  }
  await bundlePrograms()
  // It reads ETCD_BIN when it is loaded.
  const { startEtcd } = await import('../support/etcd-process.js')
  await withTeardown(async (t) => {
    const etcd = await startEtcd(t)
    const port = await freePort()
    const flags = [`--port=${port}`, ...servedFlags(etcd.url, 'k2')]
    let ours = await startServer(t, { flags })
    const watchersOf = async (): Promise<number> => (await etcd.metrics()).get('etcd_debugging_mvcc_watcher_total') ?? 0
    // With writes, the server itself watches Kubernetes' own resources.
    const own = await watchersOf()
    const prefix = ['--etcd-prefix=/k2']
    const servers = [
      await startApiServer(t, ours.url, program, prefix),
      await startApiServer(t, ours.url, program, prefix),
    ] as const
    check(true, 'both API servers are ready over etcd-api')
    const watches = servers.map(({ server }) => watch(server))
    await until(() => watches.every((each) => each.isOpen()), 'both watches are open')
    for (let round = 0; round < ROUNDS; round++) {
      await churn(servers, round)
      await ours.kill('SIGTERM')
      ours = await startServer(t, { flags })
      await until(async () => (await list(servers[0].server)).length > 0, 'the API server answers again')
    }
    await churn(servers, ROUNDS)
    const [one, other] = [await list(servers[0].server), await list(servers[1].server)]
    check(JSON.stringify(one) === JSON.stringify(other), 'both API servers list the same')
    const stored = await etcd.call('kv/range', {
      key: Buffer.from('/k2/configmaps/default/').toString('base64'),
      range_end: Buffer.from('/k2/configmaps/default0').toString('base64'),
    })
    check(Number(stored['count']) === one.length, `etcd has as many: ${String(stored['count'])} and ${one.length}`)
    const last = Math.max(...one.map(({ version }) => version))
    for (const { events } of watches) {
      await until(() => (events.at(-1)?.version ?? 0) >= last, 'the watch has the last event', 30_000).catch(() => {})
      const versions = events.map(({ version }) => version)
      check(
        versions.every((version, i) => i === 0 || version > versions[i - 1]!),
        'a watch through the API server is in order, without repeats',
      )
      const state = new Map<string, number>()
      for (const { name, version, type } of events) {
        if (type === 'DELETED') state.delete(name)
        else state.set(name, version)
      }
      const isSame = one.every(({ name, version }) => state.get(name) === version) && state.size === one.length
      check(isSame, `a watch through the API server has the whole state: ${state.size} and ${one.length}`)
    }
    for (const each of watches) each.stop()
    const watchers = await watchersOf()
    check(watchers <= own + 4, `etcd has few watchers more than without API servers: ${watchers} and ${own}`)
  })
  return verdict({ passed, failed })
}

interface Item {
  readonly name: string
  readonly version: number
}

interface Event extends Item {
  readonly type: string
}

interface Stored {
  readonly metadata: { readonly name: string; readonly resourceVersion: string }
}

function itemOf({ metadata: { name, resourceVersion } }: Stored): Item {
  return { name, version: Number(resourceVersion) }
}

async function list(server: Server): Promise<readonly Item[]> {
  const { code, body } = await ask(server, { method: 'GET', path: CONFIG_MAPS, headers: {} })
  if (code !== 200) throw new Error(`a list has code ${code}: ${body.toString()}`)
  return (JSON.parse(body.toString()) as { readonly items: readonly Stored[] }).items.map(itemOf)
}

/** Creates, replaces and deletes through both servers in turn. */
async function churn(servers: readonly ApiServer[], round: number): Promise<void> {
  for (let i = 0; i < WRITES; i++) {
    const { server } = servers[i % servers.length]!
    const name = `c${i}`
    const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: { round: String(round) } }
    const headers = { 'content-type': 'application/json' }
    const send = async (method: string, path: string, sent?: object): Promise<number> => {
      const body = sent === undefined ? undefined : Buffer.from(JSON.stringify(sent))
      return (await ask(server, { method, path, headers: sent === undefined ? {} : headers }, body)).code
    }
    const isThere = (await send('PUT', `${CONFIG_MAPS}/${name}`, object)) === 200
    if (!isThere && (await send('POST', CONFIG_MAPS, object)) !== 201) throw new Error(`${name} cannot be written`)
    if (i % 5 === 4) await send('DELETE', `${CONFIG_MAPS}/${name}`)
  }
}

/** Watches through an API server, and resumes from its last event when the watch ends. */
function watch(server: Server): { readonly events: readonly Event[]; isOpen(): boolean; stop(): void } {
  const events: Event[] = []
  let after: number | null = null
  let isStopped = false
  const follow = async (): Promise<void> => {
    while (!isStopped) {
      if (after === null) {
        const { body } = await ask(server, { method: 'GET', path: CONFIG_MAPS, headers: {} })
        after = Number((JSON.parse(body.toString()) as Stored).metadata.resourceVersion)
      }
      const path = `${CONFIG_MAPS}?watch=1&timeoutSeconds=5&resourceVersion=${after}`
      const answer = await ask(server, { method: 'GET', path, headers: {} }).catch(() => null)
      for (const line of answer?.code === 200 ? answer.body.toString().split('\n') : []) {
        if (line === '') continue
        const { type, object } = JSON.parse(line) as { readonly type: string; readonly object: Stored }
        if (type === 'ERROR' || type === 'BOOKMARK') continue
        events.push({ type, ...itemOf(object) })
        after = Number(object.metadata.resourceVersion)
      }
    }
  }
  void follow()
  return { events, isOpen: () => after !== null, stop: () => (isStopped = true) }
}

await runMain(import.meta.url, main)
