/** deploy/examples/, each against a real server, with the failures that it claims to survive. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { startHttpFaults } from '../client/reflector/http-faults.js'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'
import { openPage } from '../support/chromium.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const example = (name: string): string => join(root, 'deploy/examples', name)

function folderFor(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-example-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

void t.test('the controller brings its files into the desired state, and keeps them there', async (t) => {
  const on = (node: string): object => ({ spec: { nodeName: node } })
  const app = await startApp(t, {
    objects: { 'pods/default/a': pod('a', on('n1')), 'pods/default/b': pod('b', on('n1')) },
  })
  const folder = folderFor(t)
  const script = join(folder, 'controller.mjs')
  const client = new URL('../../src/client/index.js', import.meta.url).href
  writeFileSync(script, readFileSync(example('controller.js'), 'utf8').replace('distributary/client', client))
  t.ok(
    readFileSync(example('controller.js'), 'utf8')
      .split('\n')
      .filter((line) => /\S/.test(line)).length <= 34,
    'short',
  )
  const child = spawn(process.execPath, [script, app.url, folder], { stdio: 'inherit' })
  t.teardown(() => child.kill('SIGKILL'))
  const file = (node: string): string | null => {
    const path = join(folder, `${node}.txt`)
    return existsSync(path) ? readFileSync(path, 'utf8') : null
  }
  await until(() => file('n1') === 'default/a\ndefault/b\n', 'the first state', 20_000)
  app.commit({ 'pods/default/b': pod('b', on('n2')), 'pods/default/c': pod('c', on('n1')) })
  await until(() => file('n1') === 'default/a\ndefault/c\n' && file('n2') === 'default/b\n', 'a move')
  app.delete('pods/default/b')
  await until(() => file('n2') === '', 'a deletion')
  const exited = once(child, 'exit')
  child.kill('SIGINT')
  t.same(await exited, [0, null], 'it ends cleanly')
})

void t.test('the shell loop resumes after a cut and relists after a 410', async (t) => {
  const app = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const faults = await startHttpFaults(t, app.port)
  const child = spawn('sh', [example('watch.sh'), `${faults.url}/api/v1/pods`], {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  t.teardown(() => process.kill(-child.pid!, 'SIGKILL'))
  let out = ''
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
  let errors = ''
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()))
  const seen = (): string[] =>
    out
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as { type: string; object?: { metadata: { name: string } } })
      .map(({ type, object }) => `${type} ${object?.metadata.name ?? ''}`)
  const watches = (): number => faults.requests.filter(({ isWatch }) => isWatch).length
  await until(() => app.watchers === 1, 'it watches', 20_000)
  t.same(seen(), ['RELIST '])
  app.put('pods/default/b', pod('b'))
  await until(() => seen().length === 2, 'an event')
  faults.cut()
  app.put('pods/default/c', pod('c'))
  await until(() => seen().length === 3, 'what happened in the meantime', 20_000)
  const before = watches()
  faults.fault = ({ isWatch }) =>
    isWatch ? { status: 410, body: '{"kind":"Status","code":410,"reason":"Expired"}\n' } : null
  faults.cut()
  await until(() => errors.includes('410') && watches() > before, 'it is refused', 20_000)
  faults.fault = () => null
  await until(() => app.watchers === 1 && seen().at(-1) === 'RELIST ', 'it lists and watches again', 20_000)
  app.delete('pods/default/c')
  await until(() => seen().length === 5, 'and continues')
  t.same(seen(), ['RELIST ', 'ADDED b', 'ADDED c', 'RELIST ', 'DELETED c'])
  t.ok(watches() < 20, `${watches()} watches: no hot loop`)
})

void t.test('the page shows what exists, follows it, and reconnects by itself', async (t) => {
  const page = http.createServer((_request, response) => {
    response.setHeader('content-type', 'text/html').end(readFileSync(example('pods.html')))
  })
  await new Promise<void>((resolve) => page.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    page.closeAllConnections()
    page.close()
  })
  const origin = `http://127.0.0.1:${(page.address() as AddressInfo).port}`
  const app = await startApp(t, {
    flags: ['--cors-allowed-origins', origin],
    objects: { 'pods/default/a': pod('a'), 'pods/default/b': pod('b') },
  })
  const faults = await startHttpFaults(t, app.port)
  const browser = await openPage(t, `${origin}/?server=${faults.url}`)
  const shows = async (expected: RegExp, what: string): Promise<void> => {
    let text = ''
    for (const end = performance.now() + 20_000; performance.now() < end;) {
      text = await browser.innerText('table')
      if (expected.test(text)) break
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    t.match(text, expected, what)
  }
  await shows(/a\s+Running\s+default\s+b\s+Running/, 'both')
  app.put('pods/default/b', pod('b', { status: { phase: 'Failed' } }))
  await shows(/b\s+Failed/, 'a change')
  app.delete('pods/default/a')
  await shows(/^(?![^]*\ta\t)/, 'a deletion')
  faults.cut()
  app.put('pods/default/c', pod('c'))
  await shows(/\tc\t/, 'what happened while it was away')
})
