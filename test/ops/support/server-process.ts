/** The server as its own process, started with the command line of a container, a unit or a package. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { programFile, serverRuntime } from '../../support/program.js'

export const root = fileURLToPath(new URL('../../../../', import.meta.url))
export const builtMain = fileURLToPath(new URL('../../../src/main.js', import.meta.url))

export interface ServerProcess {
  readonly url: string
  readonly pid: number
  /** Sends SIGTERM. Returns the exit code. */
  stop(): Promise<number | null>
}

export interface ServerProcessOptions {
  readonly command?: readonly string[]
  readonly args?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** The scheme of the port that it names. */
  readonly scheme?: 'http' | 'https'
}

/** Returns when it is ready. @throws Error with its output when it exits before that. */
export async function startServerProcess(t: Test, options: ServerProcessOptions = {}): Promise<ServerProcess> {
  const [program, ...before] = options.command ?? [serverRuntime(), programFile('main')]
  const { child, output } = run(program!, [...before, ...(options.args ?? ['--port', '0'])], options)
  t.teardown(() => child.kill('SIGKILL'))
  const named = options.scheme === 'https' ? /"securePort":(\d+)[,}]/ : /"port":(\d+)[,}]/
  const port = await new Promise<number>((resolve, reject) => {
    const look = (): void => {
      const match = named.exec(output.text)
      if (match) resolve(Number(match[1]))
    }
    child.stdout!.on('data', look)
    child.once('close', (code) => reject(new Error(`it ended with ${code}: ${output.text}`)))
  })
  const url = `${options.scheme ?? 'http'}://127.0.0.1:${port}`
  while ((await statusOf(`${url}/readyz`)) !== 200) {
    if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}: ${output.text}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return {
    url,
    pid: child.pid!,
    stop: async () => {
      const closed = once(child, 'close') as Promise<[number | null]>
      child.kill('SIGTERM')
      return (await closed)[0]
    },
  }
}

/** Returns the status of a request like a kubelet's, which checks no certificates; 0 if there is no response. */
function statusOf(url: string): Promise<number> {
  return new Promise((resolve) => {
    const send = url.startsWith('https:') ? httpsRequest : httpRequest
    send(url, { rejectUnauthorized: false, agent: false }, (response) => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
      .once('error', () => resolve(0))
      .end()
  })
}

/** Runs the server until it exits. */
export async function runToEnd(
  command: readonly string[],
  options: Omit<ServerProcessOptions, 'command' | 'args'> = {},
): Promise<{ code: number | null; output: string }> {
  const [program, ...args] = command
  const { child, output } = run(program!, args, options)
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, output: output.text }
}

function run(
  program: string,
  args: readonly string[],
  { environment = {}, cwd = root }: Omit<ServerProcessOptions, 'command' | 'args'>,
): { child: ChildProcess; output: { text: string } } {
  // The environment without this machine's settings.
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith('DISTRIBUTARY_')),
  )
  const child = spawn(program, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], env: { ...inherited, ...environment } })
  const output = { text: '' }
  const keep = (chunk: Buffer): void => {
    output.text = (output.text + chunk.toString()).slice(-100_000)
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  child.once('error', (error) => (output.text += error.message))
  return { child, output }
}
