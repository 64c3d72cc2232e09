/**
 * The certificate and the access-log file change under a running server with several workers. No watch is dropped, and
 * no line is lost or mixed with another.
 */
import { copyFileSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { Agent, get } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import t from 'tap'
import { createAuthority } from '../support/certificates.js'
import { startServer } from '../support/server-process.js'

const REQUESTS = 400

void t.test('two workers under load adopt a renewed certificate and a moved audit log', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-reload-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const path = (name: string): string => join(directory, name)
  const authority = createAuthority(t)
  const [first, second] = [authority.server(), authority.server()]
  const put = ({ cert, key }: typeof first): void => {
    copyFileSync(cert, path('tls.crt'))
    copyFileSync(key, path('tls.key'))
  }
  put(first)
  writeFileSync(path('tokens.csv'), 'PLANTED-TOKEN,ann,1\n')
  const audit = path('audit.jsonl')
  const server = await startServer(t, {
    // prettier-ignore
    flags: [
      '--workers', '2', '--secure-port', '0', '--tls-cert-file', path('tls.crt'), '--tls-private-key-file', path('tls.key'),
      '--token-auth-file', path('tokens.csv'), '--authorization-mode', 'AlwaysAllow', '--audit-log-path', audit, '--requests-per-second', '100000',
    ],
  })
  const ca = readFileSync(authority.ca)
  const options = (of: string, userAgent = 'x') => ({
    host: '127.0.0.1',
    port: server.securePort,
    path: of,
    ca,
    headers: { authorization: 'Bearer PLANTED-TOKEN', 'user-agent': userAgent },
  })

  // Watches on several connections, so that both workers have some.
  const watches = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const state = { events: 0, hasEnded: false }
      const request = get({ ...options('/api/v1/pods?watch=1&resourceVersion=0'), agent: false })
      t.teardown(() => request.destroy())
      request.on('error', () => (state.hasEnded = true))
      const [response] = (await once(request, 'response')) as [import('node:http').IncomingMessage]
      response.on('data', (bytes: Buffer) => (state.events += bytes.toString().split('\n').length - 1))
      response.on('close', () => (state.hasEnded = true))
      return state
    }),
  )
  const serial = async (): Promise<string> => {
    const socket = connect({ host: '127.0.0.1', port: server.securePort, ca })
    socket.on('error', () => {})
    await once(socket, 'secureConnect')
    const { serialNumber } = socket.getPeerCertificate()
    socket.destroy()
    return serialNumber
  }
  const before = await serial()
  put(second)
  // New connections go to any worker, so many consecutive ones must see the new certificate.
  const end = performance.now() + 30_000
  for (let inARow = 0; inARow < 12;) {
    if (performance.now() > end) throw new Error('the new certificate is not served')
    inARow = (await serial()) === before ? 0 : inARow + 1
    if (inARow === 0) await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const seen = watches.map(({ events }) => events)

  const agent = new Agent({ keepAlive: true, maxSockets: 12 })
  t.teardown(() => agent.destroy())
  let sent = 0
  const lane = async (): Promise<void> => {
    while (sent < REQUESTS) {
      const n = sent++
      if (n % 100 === 50) {
        renameSync(audit, path(`audit.${n}.jsonl`))
        process.kill(server.pid, 'SIGHUP')
      }
      // Lines of many lengths, up to the longest.
      const request = get({ ...options('/version', `request-${n} ${'y'.repeat(1 + ((n * 37) % 3_000))}`), agent })
      const [response] = (await once(request, 'response')) as [import('node:http').IncomingMessage]
      response.resume()
      await once(response, 'end')
    }
  }
  await Promise.all(Array.from({ length: 12 }, lane))
  const files = [audit, ...[50, 150, 250, 350].map((n) => path(`audit.${n}.jsonl`))]
  const numbers = (): string[] =>
    files
      .filter((file) => existsSync(file))
      // Leave out the last line, which may be half written.
      .flatMap((file) => readFileSync(file, 'utf8').split('\n').slice(0, -1))
      .map((line) => (JSON.parse(line) as { userAgent?: string }).userAgent ?? '')
      .flatMap((agent) => /^request-(\d+) /.exec(agent)?.[1] ?? [])
  const until = performance.now() + 20_000
  while (numbers().length < REQUESTS && performance.now() < until)
    await new Promise((resolve) => setTimeout(resolve, 20))
  t.equal(numbers().length, REQUESTS, 'every line is there, whole')
  t.equal(new Set(numbers()).size, REQUESTS, 'and once')
  t.ok(files.filter((file) => existsSync(file) && readFileSync(file).length > 0).length >= 4, 'in several files')

  while (watches.some(({ events }, i) => events <= seen[i]!) && performance.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  t.same(
    watches.filter(({ hasEnded }) => hasEnded),
    [],
    'no watch was dropped',
  )
  t.ok(
    watches.every(({ events }, i) => events > seen[i]!),
    'and every watch continues',
  )
  for (const file of files) {
    if (existsSync(file)) t.notMatch(readFileSync(file, 'utf8'), 'PLANTED-TOKEN')
  }
  t.notMatch(`${server.log()}${server.printed()}`, 'PLANTED-TOKEN')
})
