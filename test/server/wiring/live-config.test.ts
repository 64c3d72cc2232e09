/** Which options of a running server can change, and which changes are rejected. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { request } from 'node:http'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { load } from '../../../src/server/config/load.js'
import { options } from '../../../src/server/config/options.js'
import { RELOADABLE } from '../../../src/server/config/reload.js'
import { Metrics } from '../../../src/server/metrics/metrics.js'
import { LiveConfig } from '../../../src/server/wiring/live-config.js'
import { startEtcd } from '../../support/etcd-process.js'
import { EtcdWriter } from '../../support/etcd-writer.js'
import { startServer } from '../../support/server-process.js'
import { until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'

function scene(t: Test, yaml: string) {
  const file = join(t.testdir(), 'config.yaml')
  const write = (text: string | Buffer): void => writeFileSync(file, text)
  write(yaml)
  const read = () => {
    const loaded = load(['--config', file, '--port=0'], {}, (path) => readFileSync(path, 'utf8'))
    if (loaded.kind !== 'run') throw new Error('it must run')
    return loaded
  }
  const lines: { readonly message: string; readonly fields: Readonly<Record<string, unknown>> }[] = []
  const levels: string[] = []
  const note = (fields: object, message: string): void => void lines.push({ message, fields: { ...fields } })
  const clock = new VirtualClock()
  const metrics = new Metrics('0')
  const live = new LiveConfig({
    ...read(),
    reread: read,
    onLogLevel: (level) => levels.push(level),
    metrics: metrics.process,
    clock,
    logger: { debug: note, info: note, warn: note, error: note },
  })
  t.teardown(() => live.close())
  const sample = async (name: string): Promise<string | undefined> =>
    new RegExp(`^distributary_config_${name} (.*)$`, 'm').exec((await metrics.expose()).text)?.[1]
  return { write, live, lines, levels, clock, sample }
}

void t.test('limits, hosts and the log level change, which is logged and counted', async (t) => {
  const { write, live, lines, levels, sample } = scene(t, 'maxWatchers: 10\n')
  t.equal(live.current.maxWatchers, 10)
  write('maxWatchers: 20\nallowedHosts: [a.example]\nlogLevel: debug\nrequestsPerSecond: 5\n')
  live.reload()
  t.match(live.current, { maxWatchers: 20, allowedHosts: ['a.example'], requestsPerSecond: 5 })
  t.same(levels, ['debug'])
  const { message, fields } = lines[0]!
  t.equal(message, 'configuration reloaded')
  t.same((fields['changed'] as string[]).toSorted(), [
    '--allowed-hosts',
    '--log-level',
    '--max-watchers',
    '--requests-per-second',
  ])
  t.equal(await sample('last_reload_successful'), '1')
})

void t.test('a change that needs a restart is rejected as a whole, with the name of its flag', async (t) => {
  const { write, live, lines, levels, sample } = scene(t, 'maxWatchers: 10\n')
  write('maxWatchers: 20\nwatchCacheSizes: [pods#0]\nbookmarkInterval: 7s\n')
  live.reload()
  t.equal(live.current.maxWatchers, 10, 'not even what could change is taken')
  t.same(levels, [])
  t.match(lines, [
    {
      message: 'configuration not reloaded; the previous one stays in use',
      fields: {
        problems: [
          '--watch-cache-sizes cannot change without a restart',
          '--bookmark-interval cannot change without a restart',
        ],
      },
    },
  ])
  t.equal(await sample('last_reload_successful'), '0')
  write('maxWatchers: 30\n')
  live.reload()
  t.equal(live.current.maxWatchers, 30)
  t.equal(await sample('last_reload_successful'), '1')
})

void t.test('omitted resources stay omitted until a restart, and all others are served', (t) => {
  const { write, live, lines } = scene(t, 'resources: [{ name: -events }]\n')
  t.same(live.current.leftOut, ['events', 'events.events.k8s.io'])
  write('maxWatchers: 10\nresources: [{ name: -leases }]\n')
  live.reload()
  t.match(JSON.stringify(lines.at(-1)), 'what --resource leaves out cannot change without a restart')
  t.same(live.current.leftOut, ['events', 'events.events.k8s.io'])
  write('maxWatchers: 10\nresources: [{ name: -events }, { name: secrets }]\n')
  live.reload()
  t.equal(live.current.maxWatchers, 10)
  t.end()
})

void t.test('a file with mistakes is rejected, with every one of them', async (t) => {
  const { write, live, lines } = scene(t, 'maxWatchers: 10\n')
  write('maxWatchers: many\nallowedHots: [a]\n')
  live.reload()
  t.equal(live.current.maxWatchers, 10)
  t.match(lines.at(-1)?.fields['problems'], [
    /unknown option "allowedHots"; did you mean allowedHosts/,
    /"many" is not a whole number/,
  ])
})

void t.test('a changed file is found without a signal', async (t) => {
  const { write, live, clock } = scene(t, 'maxWatchers: 10\n')
  write('maxWatchers: 20\n')
  clock.advance(5_000)
  t.equal(live.current.maxWatchers, 20)
})

void t.test('the adopted file is the one of the configuration in use, and a rejected one never is', async (t) => {
  const { write, live, clock } = scene(t, 'maxWatchers: 10\n')
  t.equal(live.file?.text, 'maxWatchers: 10\n')
  write('maxWatchers: many\n')
  clock.advance(5_000)
  t.equal(live.file?.text, 'maxWatchers: 10\n')
  write('maxWatchers: 20\n')
  clock.advance(5_000)
  t.equal(live.file?.text, 'maxWatchers: 20\n')
})

void t.test('what SIGHUP has taken is no change any more, and what was before it is one', async (t) => {
  const { write, live, clock, lines } = scene(t, 'maxWatchers: 10\n')
  write('maxWatchers: 20\n')
  live.reload()
  t.equal(live.current.maxWatchers, 20)
  clock.advance(5_000)
  t.equal(lines.filter(({ message }) => message === 'configuration reloaded').length, 1)
  write('maxWatchers: 30\n')
  live.reload()
  write('maxWatchers: 20\n')
  clock.advance(5_000)
  t.equal(live.current.maxWatchers, 20, 'the file as it was before the signal is taken without one')
})

void t.test('a configuration that lacks only a file is tried again until the file is there', async (t) => {
  const tokens = join(mkdtempSync(join(tmpdir(), 'distributary-tokens-')), 'tokens.csv')
  t.teardown(() => rmSync(dirname(tokens), { recursive: true }))
  writeFileSync(tokens, 'secret,ann,1\n')
  const yaml = (max: number): string => `maxWatchers: ${max}\ntokenAuthFile: ${tokens}\nauthorizationMode: [RBAC]\n`
  const { write, live, clock, lines } = scene(t, yaml(10))
  rmSync(tokens)
  write(yaml(20))
  clock.advance(5_000)
  t.equal(live.current.maxWatchers, 10)
  clock.advance(60_000)
  t.equal(lines.filter(({ message }) => message.startsWith('configuration not reloaded')).length, 1, 'it is said once')
  writeFileSync(tokens, 'secret,ann,1\n')
  clock.advance(5_000)
  t.equal(live.current.maxWatchers, 20)
  const { length } = lines
  clock.advance(60_000)
  t.equal(lines.length, length, 'it is not tried again after that')
})

void t.test('bytes that are not UTF-8 are no change, and a rollback after a rejected signal is one', async (t) => {
  const { write, live, clock, lines, sample } = scene(t, 'maxWatchers: 10\n')
  write(Buffer.from('maxWatchers: 20 # f\xfcr\n', 'latin1'))
  clock.advance(60_000)
  t.equal(live.current.maxWatchers, 20)
  t.equal(lines.filter(({ message }) => message === 'configuration reloaded').length, 1)
  write('maxWatchers: many\n')
  live.reload()
  t.equal(await sample('last_reload_successful'), '0')
  write(Buffer.from('maxWatchers: 20 # f\xfcr\n', 'latin1'))
  clock.advance(5_000)
  t.equal(await sample('last_reload_successful'), '1')
})

void t.test('a worker that is replaced after a rejected change has the configuration of the others', async (t) => {
  const file = join(t.testdir(), 'config.yaml')
  writeFileSync(file, 'allowedHosts: [a.example]\n')
  const server = await startServer(t, { flags: [`--config=${file}`, '--workers=2'] })
  const serving = async (): Promise<boolean> => (await server.metrics()).get('distributary_workers') === 2
  await until(serving, 'both workers serve')
  const isRejected = (times: number): boolean => server.log().split('configuration not reloaded').length > times
  writeFileSync(file, 'allowedHosts: [b.example]\nbindAddress: nowhere\n')
  await until(() => isRejected(3), 'all three processes reject the file')
  const before = server.pids().slice(1)
  for (const pid of before) {
    process.kill(pid, 'SIGKILL')
    await until(async () => !server.pids().slice(1).includes(pid) && (await serving()), 'a worker in its place serves')
  }
  t.strictSame(
    server
      .pids()
      .slice(1)
      .filter((pid) => before.includes(pid)),
    [],
  )
  await until(() => isRejected(5), 'both say that they do not use the file as it is')
  writeFileSync(file, 'allowedHosts: [c.example]\n')
  await until(() => server.log().split('configuration reloaded').length > 3, 'all three take the next file')
})

void t.test(
  'a declared prefix is served as the changed file declares it, including objects of the old kind',
  async (t) => {
    const file = join(t.testdir(), 'config.yaml')
    const declared = (kind: string): string => `resources: [{ name: flags, prefix: /config/flags/, kind: ${kind} }]\n`
    writeFileSync(file, declared('Flag'))
    const server = await startServer(t, { flags: ['--config', file] })
    const kinds = async (): Promise<readonly string[]> => {
      const answer = await fetch(`${server.url}/apis/distributary.io/v1/flags`)
      const { items = [] } = (await answer.json()) as { items?: readonly { readonly kind: string }[] }
      return [...new Set(items.map(({ kind }) => kind))]
    }
    t.same(await kinds(), ['Flag'])
    writeFileSync(file, declared('Toggle'))
    process.kill(server.pid, 'SIGHUP')
    await until(async () => (await kinds()).join(' ') === 'Toggle', 'every flag is a Toggle')
  },
)

for (const size of [1_000, 0]) {
  void t.test(`watches of a name that gets another prefix must list again, with a history of ${size}`, async (t) => {
    const file = join(t.testdir(), 'config.yaml')
    const declared = (prefix: string): string => `resources: [{ name: flags, prefix: ${prefix} }]\n`
    writeFileSync(file, declared('/one/'))
    const etcd = await startEtcd(t)
    const put = async (key: string): Promise<void> =>
      void (await etcd.call('kv/put', { key: btoa(key), value: btoa('v') }))
    await put('/one/a')
    const flags = ['--config', file, '--etcd-servers', etcd.url, `--watch-cache-sizes=flags.distributary.io#${size}`]
    const server = await startServer(t, { flags })
    const path = `${server.url}/apis/distributary.io/v1/flags`
    const list = async (): Promise<{ names: string; version: string }> => {
      const answer = await fetch(path)
      const { items = [], metadata } = (await answer.json()) as {
        items?: readonly { readonly metadata: { readonly name: string } }[]
        metadata: { readonly resourceVersion: string }
      }
      return { names: items.map((item) => item.metadata.name).join(' '), version: metadata.resourceVersion }
    }
    const { names, version } = await list()
    t.equal(names, 'a')
    const watch = await fetch(`${path}?watch=1&resourceVersion=${version}`)
    // The history of the other prefix covers the version, and has an object that the client never hears of.
    await put('/two/b')
    writeFileSync(file, declared('/two/'))
    process.kill(server.pid, 'SIGHUP')
    const events = await watch.text()
    t.match(events, '"code":410')
    await until(async () => (await list()).names === 'b', 'the other prefix is served')
    const { version: later } = await list()
    const again = await fetch(`${path}?watch=1&resourceVersion=${later}&timeoutSeconds=2`)
    await put('/two/c')
    t.match(await again.text(), '"name":"c"')
  })
}

void t.test('a running server adopts a new limit and new hosts on SIGHUP', async (t) => {
  const file = join(t.testdir(), 'config.yaml')
  writeFileSync(file, 'maxWatchers: 1\n')
  const server = await startServer(t, { flags: ['--config', file] })
  const hostIsAllowed = async (): Promise<boolean> => {
    const asked = request(`${server.url}/version`, { headers: { host: 'a.example' }, agent: false }).end()
    const [answer] = (await once(asked, 'response')) as [{ statusCode: number; resume(): void }]
    answer.resume()
    return answer.statusCode === 200
  }
  t.notOk(await hostIsAllowed())
  writeFileSync(file, 'maxWatchers: 1\nallowedHosts: [a.example]\n')
  process.kill(server.pid, 'SIGHUP')
  await until(hostIsAllowed, 'the new host is allowed')
  await until(() => server.log().includes('configuration reloaded'), 'the change is logged')
  writeFileSync(file, 'maxWatchers: 1\nbindAddress: 127.0.0.2\n')
  process.kill(server.pid, 'SIGHUP')
  await until(() => server.log().includes('--bind-address cannot change without a restart'), 'it is refused')
  t.ok(await hostIsAllowed(), 'and what was in force stays')
  t.equal((await server.metrics()).get('distributary_config_last_reload_successful'), 0)
})

void t.test('an inconsistent combination is rejected: a memory target below the caches', (t) => {
  const { write, live, lines } = scene(t, 'memoryTarget: 1GiB\n')
  write('memoryTarget: 256MiB\nwatchCacheBytes: 512MiB\n')
  live.reload()
  t.match(lines.at(-1)?.fields['problems'], [/--memory-target is less than listCacheBytes and --watch-cache-bytes/])
  t.match(live.current, { memoryTarget: 2 ** 30, watchCacheBytes: 64 * 2 ** 20 })
  t.end()
})

const MiB = 2 ** 20
const RING = 'distributary_cache_ring_bytes{group="",resource="configmaps"}'

for (const workers of [1, 2]) {
  void t.test(`memory limits go down and up while a server with --workers=${workers} runs`, async (t) => {
    const file = join(t.testdir(), 'config.yaml')
    let accepted = 0
    const apply = async (yaml: string): Promise<void> => {
      writeFileSync(file, yaml)
      process.kill(server.pid, 'SIGHUP')
      accepted += processes
      await until(() => server.log().split('"changed":["').length > accepted, 'every process has read it')
    }
    const processes = workers > 1 ? workers + 1 : 1
    writeFileSync(file, '')
    const etcd = await startEtcd(t)
    const server = await startServer(t, {
      flags: [
        `--config=${file}`,
        `--workers=${workers}`,
        `--etcd-servers=${etcd.url}`,
        '--resource=configmaps',
        '--requests-per-second=100000',
      ],
    })
    const isServing = async (): Promise<boolean> =>
      (await server.metrics()).get('distributary_workers') === (workers > 1 ? workers : 0)
    await until(isServing, 'every worker serves')
    const writer = new EtcdWriter([etcd])
    const write = async (count: number): Promise<void> => {
      for (let i = 0; i < count; i++) {
        const metadata = { name: `c${i % 4}`, namespace: 'default' }
        const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { a: 'x'.repeat(100_000) } }
        await writer.put(`/registry/configmaps/default/c${i % 4}`, body)
      }
    }
    const paths = '/api/v1/namespaces/default/configmaps'
    const list = async (): Promise<{ status: number; version: string }> => {
      const answer = await fetch(`${server.url}${paths}`, { headers: { connection: 'close' } })
      const body = (await answer.json()) as { metadata: { resourceVersion?: string } }
      return { status: answer.status, version: body.metadata.resourceVersion ?? '' }
    }
    const watchFrom = async (version: string): Promise<string> => {
      const from = `watch=1&timeoutSeconds=1&resourceVersion=${version}`
      const answer = await fetch(`${server.url}${paths}?${from}`, { headers: { connection: 'close' } })
      return await answer.text()
    }
    /** The largest of all processes. */
    const ring = async (): Promise<number> => (await server.metrics()).get(RING) ?? 0

    const { version: before } = await list()
    await write(50)
    await until(async () => (await ring()) > 4 * MiB, 'the history is larger than the bound that comes')
    t.match(await watchFrom(before), /"type":"(ADDED|MODIFIED)"/)

    await apply('watchCacheBytes: 1MiB\n')
    t.ok((await ring()) <= workers * MiB, 'it is within its bound at once')
    t.match(await watchFrom(before), '"code":410', 'what is gone is said to be gone')
    const { version: recent } = await list()
    await write(5)
    await until(async () => (await list()).version !== recent, 'the writes are there')
    t.match(await watchFrom(recent), '"type":"MODIFIED"', 'and what is kept can be resumed from')
    t.ok((await ring()) <= workers * MiB, 'it stays within its bound')

    await apply('watchCacheBytes: 16MiB\n')
    await write(50)
    await until(async () => (await ring()) > 4 * MiB, 'a higher bound keeps more')

    // The held data makes every process larger than the smallest target.
    for (let i = 0; i < 50; i++) {
      const metadata = { name: `big${i}`, namespace: 'other' }
      const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { a: 'x'.repeat(1_000_000) } }
      await writer.put(`/registry/configmaps/other/big${i}`, body)
    }
    // The caches are as small as allowed, because they have to fit into the target.
    const small = `watchCacheBytes: 1MiB\nlistCacheBytes: 0\nmemoryTarget: ${processes * 128}MiB\n`
    const resident = server.memory().now
    await apply(small)
    if (workers === 1) t.ok(resident > 128 * MiB, 'the process is larger than the least target')
    await until(async () => (await list()).status === 429, 'a list is refused beyond the target')
    t.equal((await fetch(`${server.url}/readyz`)).status, 200)
    await apply('memoryTarget: 16GiB\n')
    t.equal((await list()).status, 200, 'and answered under a higher one')
    await apply('')
    t.equal((await server.metrics()).get('distributary_config_last_reload_successful'), 1)
  })
}

void t.test('the operations guide names every option that a running server reloads', (t) => {
  const guide = readFileSync(new URL('../../../../docs/guide/operations.md', import.meta.url), 'utf8')
  const section = /## Change the configuration\n([^]*?)\n## /.exec(guide)?.[1] ?? ''
  const takes = /These options take\s+effect at once:([^]*?)unless with/.exec(section)?.[1] ?? ''
  const named = [...takes.matchAll(/`(--[a-z-]+|[a-z]+[A-Z]\w+)`/g)].map(([, flag]) => flag ?? '')
  t.same(named.toSorted(), RELOADABLE.map((name) => options[name].flag).toSorted())
  t.end()
})

/** The responses of all processes for a path: connections are spread over the workers. */
async function answers(url: string, path: string): Promise<ReadonlySet<number>> {
  const codes = new Set<number>()
  for (let ask = 0; ask < 12; ask++) {
    const asked = request(url + path, { agent: false }).end()
    const [answer] = (await once(asked, 'response')) as [{ statusCode: number; resume(): void }]
    answer.resume()
    codes.add(answer.statusCode)
  }
  return codes
}

void t.test(
  'every worker serves the resources that a changed file names, and drops those that it no longer names',
  async (t) => {
    const etcd = await startEtcd(t)
    const writer = new EtcdWriter([etcd])
    await writer.put('/flags/dark', 'on')
    await writer.put('/routes/home', '/')
    const file = join(t.testdir(), 'config.yaml')
    const flags = 'resources:\n- name: flags\n  prefix: /flags/\n'
    const routes = 'resources:\n- name: routes\n  prefix: /routes/\n'
    const pathOf = (plural: string): string => `/apis/distributary.io/v1/${plural}`
    const isSaid = async (plural: string, code: number): Promise<boolean> => {
      const codes = await answers(server.url, pathOf(plural))
      return codes.size === 1 && codes.has(code)
    }
    writeFileSync(file, flags)
    const server = await startServer(t, {
      flags: ['--config', file, '--workers', '2', `--etcd-servers=${etcd.url}`, '--resource=pods'],
    })
    t.ok(await isSaid('flags', 200))
    t.ok(await isSaid('routes', 404))
    /** The processes that have logged it, by the number of the worker; the primary has none. */
    const logged = (message: string): ReadonlySet<number | undefined> =>
      new Set(
        server
          .log()
          .split('\n')
          .filter((line) => line.includes(message))
          .map((line) => (JSON.parse(line) as { worker?: number }).worker),
      )
    const watch = await fetch(`${server.url}${pathOf('flags')}?watch=1`)
    const reader = watch.body!.getReader()
    const first = await reader.read()
    t.match(Buffer.from(first.value ?? []).toString(), '"name":"dark"')

    writeFileSync(file, routes)
    process.kill(server.pid, 'SIGHUP')
    await until(async () => await isSaid('routes', 200), 'all serve the new one')
    await until(async () => await isSaid('flags', 404), 'none serves the old one')
    for (let next = first; !next.done;) next = await reader.read()
    t.pass('its watch has ended')
    const listed = await (await fetch(server.url + pathOf('routes'))).text()
    t.match(listed, '"name":"home"')
    t.equal((await fetch(`${server.url}/readyz`)).status, 200)

    await until(() => logged('configuration reloaded').size === 3, 'the primary and both workers have loaded it')
    writeFileSync(file, 'resources: 5\n')
    process.kill(server.pid, 'SIGHUP')
    await until(() => logged('configuration not reloaded').size === 3, 'all three refuse it')
    t.same([...(await answers(server.url, pathOf('routes')))], [200], 'what was in force stays')
  },
)
