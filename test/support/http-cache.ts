/** nginx and Varnish with the configurations of `deploy/edge/`, on ports and in folders of a test. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { freePort } from './free-port.js'
import { until } from './until.js'

export interface HttpCache {
  readonly name: 'nginx' | 'varnish'
  readonly url: string
  readonly pid: number
  /** Kills it, and starts it with an empty cache. */
  restart(): Promise<void>
  /** Returns its access log; Varnish has none. */
  log(): string
}

const DEPLOYED = fileURLToPath(new URL('../../../deploy/edge/', import.meta.url))

/** @param origin the port of the server behind it. */
export async function startHttpCache(
  t: Pick<Test, 'teardown'>,
  name: HttpCache['name'],
  origin: number,
): Promise<HttpCache> {
  const folder = mkdtempSync(join(tmpdir(), `${name}-`))
  // Varnish runs as users of its own.
  chmodSync(folder, 0o755)
  const port = await freePort()
  const start = name === 'nginx' ? nginx(folder, port, origin) : varnish(folder, port, origin)
  let child: ChildProcess | null = null
  const stop = async (): Promise<void> => {
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    // nginx and Varnish have child processes, which a SIGKILL would leave running.
    child.kill('SIGTERM')
    await exited
  }
  const open = async (): Promise<void> => {
    const started = start()
    child = started
    let said = ''
    for (const stream of [started.stdout, started.stderr])
      stream?.on('data', (text: Buffer) => (said += text.toString()))
    await until(() => {
      if (started.exitCode !== null) throw new Error(`${name}: ${said}`)
      return isOpen(port)
    }, `${name} listens`)
  }
  t.teardown(async () => {
    await stop()
    rmSync(folder, { recursive: true, force: true })
  })
  await open()
  return {
    name,
    url: `http://127.0.0.1:${port}`,
    get pid() {
      return child?.pid ?? 0
    },
    async restart() {
      await stop()
      rmSync(join(folder, 'cache'), { recursive: true, force: true })
      await open()
    },
    log: () => (name === 'nginx' ? readFileSync(join(folder, 'access.log'), 'utf8') : ''),
  }
}

function nginx(folder: string, port: number, origin: number): () => ChildProcess {
  const text = readFileSync(join(DEPLOYED, 'nginx.conf'), 'utf8')
    .replace('127.0.0.1:8001', `127.0.0.1:${origin}`)
    .replace('127.0.0.1:8090', `127.0.0.1:${port}`)
    .replace('/run/distributary-nginx.pid', join(folder, 'pid'))
    .replaceAll('/var/log/nginx', folder)
    .replace('/var/cache/distributary', join(folder, 'cache'))
    // Debian's folders belong to root.
    .replace(
      'http {',
      `http {\n${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((one) => `${one}_temp_path ${folder}/${one};`).join('\n')}`,
    )
  writeFileSync(join(folder, 'nginx.conf'), `daemon off;\n${process.getuid?.() === 0 ? 'user root;\n' : ''}${text}`)
  const args = ['-e', join(folder, 'error.log'), '-c', join(folder, 'nginx.conf')]
  return () => spawn('nginx', args, { stdio: ['ignore', 'pipe', 'pipe'] })
}

function varnish(folder: string, port: number, origin: number): () => ChildProcess {
  const text = readFileSync(join(DEPLOYED, 'varnish.vcl'), 'utf8').replace('"8001"', `"${origin}"`)
  writeFileSync(join(folder, 'varnish.vcl'), text)
  // prettier-ignore
  const args = [
    '-F', '-n', join(folder, 'work'), '-a', `127.0.0.1:${port}`, '-f', join(folder, 'varnish.vcl'), '-s', 'malloc,64m', '-j', 'none',
    ...(/^#   varnishd .*/m.exec(text)?.[0].match(/-p \S+/g) ?? []).flatMap((parameter) => parameter.split(' ')),
  ]
  mkdirSync(join(folder, 'work'), { recursive: true })
  return () => spawn('varnishd', args, { stdio: ['ignore', 'pipe', 'pipe'] })
}

function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}
