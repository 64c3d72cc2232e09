/** Tests `top` as a user runs it, against a real server, and its arithmetic alone. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { quantileBetween, Scrape } from '../../src/cli/top/metrics-text.js'
import { linesOf, sampleOf } from '../../src/cli/top/view.js'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'
import { startServer } from '../support/server-process.js'
import { program, runCli, startCli } from './support/run-cli.js'

const app = await startApp(t, { objects: { 'pods/default/a': pod('a'), 'pods/default/b': pod('b') } })
const environment = { DISTRIBUTARY_SERVER: app.url }

void t.test('top in a pipe prints once: the server, its watchers and its caches', async (t) => {
  const watching = startCli(t, ['get', 'pods', '-A', '-w'], { environment })
  await until(() => app.watchers === 1, 'somebody watches')
  const { code, stdout, stderr } = await runCli(t, ['top', '--interval', '200ms'], { environment })
  t.match({ code, stderr }, { code: 0, stderr: '' })
  t.match(stdout, new RegExp(`^distributary 0\\.0\\.0-test at ${app.url}, up (\\d+[smhd])+\\n`))
  t.match(stdout, /^watchers 1 \(http1 1\) +events in /m)
  t.match(stdout, /^lag p99: .*event loop p99 \d+ ms$/m)
  t.match(stdout, /^memory [\d.]+ MiB .*CPU \d+ %$/m)
  t.match(stdout, /^RESOURCE +OBJECTS +REVISION +WATCHERS/m)
  t.match(stdout, /^pods +2 +\d+ +1 +0 /m, 'a watcher that waits for its first event does not lag')
  t.notMatch(stdout, /^secrets|^nodes /m, 'what is empty is left out')
  const all = await runCli(t, ['top', '--interval', '100ms', '--count', '2', '--all', '--sort', 'name'], {
    environment,
  })
  t.equal(all.stdout.match(/^nodes +0 /gm)?.length, 2, 'two looks, and what is empty')
  const json = await runCli(t, ['top', '-o', 'json', '--interval', '100ms', '--count', '2'], { environment })
  t.match({ code: json.code, stderr: json.stderr }, { code: 0, stderr: '' })
  const samples = json.stdout.trimEnd().split('\n')
  t.equal(samples.length, 2, 'one line for each sample')
  for (const sample of samples) {
    t.match(JSON.parse(sample), {
      server: app.url,
      version: '0.0.0-test',
      watchers: 1,
      watchersByTransport: { http1: 1 },
      residentBytes: Number,
      resources: [{ name: 'pods', objects: 2, watchers: 1, lagging: 0, isReady: true }],
    })
  }
  watching.child.kill('SIGINT')
  await until(() => app.watchers === 0, 'nobody watches')
})

const hasScript = spawnSync('script', ['--version']).status === 0
const terminalTest = { skip: hasScript ? false : 'needs script, of Debian’s bsdutils' }
void t.test('top on a terminal draws again and again, in its size, until Ctrl-C', terminalTest, async (t) => {
  const line = `stty rows 7 cols 60; exec ${process.execPath} ${program} top --interval 100ms --all`
  const env = { ...process.env, ...environment, TERM: 'xterm', SHELL: '/bin/sh', NODE_OPTIONS: '' }
  const child = spawn('script', ['-qec', line, '/dev/null'], { env, stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  let stdout = ''
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
  const closed = once(child, 'close')
  await until(() => stdout.split('RESOURCE').length > 3, 'it draws')
  child.stdin.write('\u0003')
  t.equal((await closed)[0], 130)
  const [, drawn = ''] = stdout.split('\u001b[H\u001b[J')
  const lines = drawn.trimEnd().split('\r\n')
  t.equal(lines.length, 6)
  t.same(
    lines.filter((one) => one.length > 60),
    [],
  )
})

void t.test('Ctrl-C ends top quietly while the server does not answer', terminalTest, async (t) => {
  const metrics = await (await fetch(`${app.url}/metrics`)).text()
  let asked = 0
  const server = http.createServer((_request, response) => {
    if (asked++ === 0) response.end(metrics)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const line = `exec ${process.execPath} ${program} top --interval 100ms`
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const env = { ...process.env, DISTRIBUTARY_SERVER: url, TERM: 'xterm', SHELL: '/bin/sh', NODE_OPTIONS: '' }
  const child = spawn('script', ['-qec', line, '/dev/null'], { env, stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  let printed = ''
  child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  const closed = once(child, 'close')
  await until(() => asked === 2, 'it waits for the second answer')
  child.stdin.write('\u0003')
  t.equal((await closed)[0], 130)
  t.same(printed.replaceAll('^C', '').trim(), '')
})

void t.test('top shows all processes of a server with --workers as one', async (t) => {
  const server = await startServer(t, { flags: ['--workers', '2', '--log-level', 'info'] })
  // The server is ready as soon as its first worker is.
  await until(
    async () => /^distributary_workers 2$/m.test(await (await fetch(`${server.url}/metrics`)).text()),
    'both workers',
  )
  const { stdout } = await runCli(t, ['top', '-s', server.url, '--interval', '200ms'])
  t.match(stdout, /, 2 workers$/m)
  const first = /^pods +(\d+) +(\d+) /m.exec(stdout)
  const list = (await (await fetch(`${server.url}/api/v1/pods?resourceVersion=0`)).json()) as { items: unknown[] }
  t.ok(Math.abs(Number(first?.[1]) - list.items.length) <= 3, 'objects are not counted once for each process')
})

void t.test('top says when the server is not a distributary', async (t) => {
  const other = http.createServer((_request, response) => response.end('up 1\n')).listen(0, '127.0.0.1')
  t.teardown(() => {
    other.closeAllConnections()
    other.close()
  })
  await new Promise((resolve) => other.once('listening', resolve))
  const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
  t.match(await runCli(t, ['top', '-s', url]), { code: 1, stderr: /does not come from a distributary/ })
})

void t.test('rates, lag and order are those between two scrapes', async (t) => {
  const at = (out: number, slow: number, stale: number): string => `# HELP x
distributary_build_info{version="1.2.3"} 1
distributary_cache_objects{group="",resource="pods"} 7
distributary_cache_objects{group="apps",resource="deployments"} 3
distributary_cache_ready{group="",resource="pods"} 1
distributary_cache_ready{group="apps",resource="deployments"} 1
distributary_cache_staleness_seconds{group="apps",resource="deployments"} ${stale}
distributary_broadcast_events_sent_total{group="",resource="pods"} ${out}
distributary_broadcast_watchers{group="apps",resource="deployments",transport="sse",state="lagging"} 2
distributary_broadcast_delay_seconds_bucket{le="0.001",segment="cache-to-socket"} 100
distributary_broadcast_delay_seconds_bucket{le="0.01",segment="cache-to-socket"} ${100 + slow}
distributary_broadcast_delay_seconds_bucket{le="+Inf",segment="cache-to-socket"} ${100 + slow}
`
  const before = Scrape.parse(at(100, 0, 0), 1_000)
  const after = Scrape.parse(at(350, 4, 2.5), 3_500)
  t.equal(after.sum('distributary_broadcast_events_sent_total', { resource: 'pods' }), 350)
  t.equal(quantileBetween(before, after, 'distributary_broadcast_delay_seconds', 'cache-to-socket', 0.99), 0.01)
  t.equal(quantileBetween(before, before, 'distributary_broadcast_delay_seconds', 'cache-to-socket', 0.99), null)
  const view = (sort: 'lag' | 'objects'): readonly string[] =>
    linesOf(sampleOf(before, after, { server: 'http://x', sort, withIdle: false }))
  t.match(view('lag')[6], /^deployments\.apps +3 +0 +2 +2 +0\.0 +0\.0 +0 B +2\.5s$/)
  t.match(view('objects')[6], /^pods +7 +0 +0 +0 +0\.0 +100 +0 B +-$/)
})
