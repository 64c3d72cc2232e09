/**
 * etcdctl, with every read and watch command, against etcd and against us: the same output and the same exit code, but
 * for member ids, terms and addresses. `ETCDCTL_BIN` names the program, else `etcdctl` from PATH.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import t from 'tap'
import { endsWithUs } from '../../support/ends-with-us.js'
import { until } from '../../support/until.js'
import { type EtcdApiHarness, startEtcdApi } from '../support/harness.js'

const program = process.env['ETCDCTL_BIN'] ?? 'etcdctl'
const environment = { ...process.env, ETCDCTL_API: '3' }

interface Outcome {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

function run(endpoint: string, command: readonly string[], input = ''): Promise<Outcome> {
  return new Promise((resolve) => {
    const child = execFile(program, ['--endpoints', endpoint, ...command], { env: environment }, (error, out, err) => {
      const code = error === null ? 0 : Number((error as { code?: unknown }).code)
      resolve({ code, stdout: comparable(out), stderr: comparable(err, endpoint) })
    })
    // A command that reads no input may end before it is written.
    child.stdin?.on('error', () => {}).end(input)
  })
}

/** Leaves out what may differ, and log lines, which carry times. */
function comparable(output: string, endpoint = ''): string {
  return output
    .split('\n')
    .filter((line) => !line.startsWith('{"level"'))
    .join('\n')
    .replaceAll(/,?"(member_id|raft_term)":\d+/g, '')
    .replaceAll(/"(MemberID|RaftTerm)" : \d+/g, '')
    .replaceAll(endpoint === '' ? '\0' : endpoint, 'ENDPOINT')
}

async function fill({ theirs }: EtcdApiHarness): Promise<void> {
  for (const [key, value] of [
    ['a', 'one'],
    ['b', '{ "x": 1 }'],
    ['c/d', 'three\nlines\n'],
    ['c/e', ''],
    ['ü', 'ö'],
    ['a', 'two'],
  ] as const)
    await theirs.put(`/flags/${key}`, value)
  await theirs.put('/other/x', 'elsewhere')
  // The last event is one of the prefix, so that a serializable read has the newest revision with any etcd.
  await theirs.put('/flags/gone', 'x')
  await theirs.delete('/flags/gone')
}

const ALL = ['get', '--prefix', '/flags/']
const READS: readonly (readonly string[])[] = [
  ['get', '/flags/a'],
  ['get', '/flags/nothing'],
  ['get', '/flags/a', '/flags/c/e'],
  ['get', ''],
  ['get', '--prefix', ''],
  ['get', '--from-key', '/flags/b'],
  ALL,
  [...ALL, '--consistency=s'],
  [...ALL, '--limit=2'],
  [...ALL, '--keys-only'],
  [...ALL, '--print-value-only'],
  [...ALL, '--rev=4'],
  [...ALL, '--rev=1000'],
  [...ALL, '--count-only', '-w', 'fields'],
  ...['KEY', 'VERSION', 'CREATE', 'MODIFY', 'VALUE'].flatMap((by) => [
    [...ALL, `--sort-by=${by}`],
    [...ALL, `--sort-by=${by}`, '--order=DESCEND', '--limit=3'],
  ]),
  ['get', '/other/x'],
]

void t.test('every get prints the same', async (t) => {
  const harness = await startEtcdApi(t)
  await fill(harness)
  const [ours, theirs] = [harness.app.url, harness.etcd.url]
  for (const command of READS) {
    for (const form of ['simple', 'json', 'fields']) {
      const whole = command.includes('-w') ? command : [...command, '-w', form]
      const [own, etcds] = await Promise.all([run(ours, whole), run(theirs, whole)])
      t.same(own, etcds, whole.join(' '))
    }
  }
  const txn = 'value("/flags/a") = "two"\n\nget /flags/b\n\nget --prefix /flags/\n\n'
  t.same(await run(ours, ['txn', '-w', 'json'], txn), await run(theirs, ['txn', '-w', 'json'], txn))
  // etcdctl 3.4 sends a whole URL as the authority of these requests, which HTTP/2 does not allow.
  const address = ours.replace('http://', '')
  const health = await run(address, ['endpoint', 'health'])
  t.equal(health.code, 0)
  t.match(`${health.stdout}${health.stderr}`, /is healthy/)
  const status = await run(address, ['endpoint', 'status'])
  t.match(status.stdout, /, true, /, 'it is the leader')
  t.match((await run(ours, ['member', 'list'])).stdout, `, started, distributary, , ${ours}`)
})

function watch(endpoint: string, command: readonly string[]): { readonly child: ChildProcess; lines(): string[] } {
  const child = spawn(program, ['--endpoints', endpoint, 'watch', ...command], { env: environment })
  endsWithUs(child)
  let output = ''
  child.stdout?.on('data', (bytes: Buffer) => (output += bytes.toString()))
  return { child, lines: () => comparable(output).split('\n') }
}

void t.test('every watch prints the same', async (t) => {
  const harness = await startEtcdApi(t)
  await fill(harness)
  const commands: readonly (readonly string[])[] = [
    ['--prefix', '/flags/', '--rev=1'],
    ['--prefix', '/flags/', '--rev=1', '--prev-kv'],
    ['--prefix', '/flags/', '--rev=5', '-w', 'json'],
    ['/flags/a', '--rev=1'],
    ['/flags/a', '/flags/c', '--rev=1'],
    ['/other/x', '--rev=1'],
  ]
  for (const command of commands) {
    const both = [harness.app.url, harness.etcd.url].map((endpoint) => watch(endpoint, command))
    t.teardown(() => both.forEach(({ child }) => child.kill()))
    const [own, etcds] = both
    await until(() => etcds!.lines().length > 3 || command.includes('json'), 'etcd has printed something')
    // The same events may come in one message or in several, each with its header.
    const events = (lines: readonly string[]): unknown[] =>
      command.includes('json')
        ? lines.flatMap((line) => (line === '' ? [] : ((JSON.parse(line) as { Events?: unknown[] }).Events ?? [])))
        : [...lines]
    let last = -1
    await until(
      () => {
        const count = events(etcds!.lines()).length
        const isSettled = count === last && events(own!.lines()).length === count
        last = count
        return count > 0 && isSettled
      },
      `both have printed the same number of lines: ${command.join(' ')}`,
    )
    t.same(events(own!.lines()), events(etcds!.lines()), command.join(' '))
    for (const { child } of both) child.kill()
  }
})

void t.test('writes, leases, locks and elections work', async (t) => {
  const { app } = await startEtcdApi(t, { flags: ['--enable-writes'] })
  const ok = async (command: readonly string[], input = ''): Promise<string> => {
    const { code, stdout, stderr } = await run(app.url, command, input)
    t.equal(code, 0, `${command.join(' ')}: ${stderr}`)
    return stdout
  }
  t.equal(await ok(['put', '/flags/a', 'one']), 'OK\n')
  t.equal(await ok(['put', '/flags/a', 'two', '--prev-kv']), 'OK\n/flags/a\none\n')
  t.equal(await ok(['get', '/flags/a', '--print-value-only']), 'two\n')
  t.match(await ok(['txn'], 'value("/flags/a") = "two"\n\nput /flags/b x\n\n\n'), /SUCCESS/)
  const lease = /lease (\w+) granted/.exec(await ok(['lease', 'grant', '60']))?.[1] ?? ''
  await ok(['put', '/flags/leased', 'x', `--lease=${lease}`])
  t.match(await ok(['lease', 'keep-alive', '--once', lease]), /keepalived with TTL\(60\)/)
  t.match(await ok(['lease', 'timetolive', lease, '--keys']), '/flags/leased')
  await ok(['lease', 'revoke', lease])
  t.equal(await ok(['get', '/flags/leased']), '')
  t.match(await ok(['lock', '/flags/lock', 'echo', 'held']), /held/)
  t.equal(await ok(['get', '--prefix', '/flags/lock']), '', 'the lock is released')
  t.equal(await ok(['del', '--prefix', '/flags/']), '2\n')
})
