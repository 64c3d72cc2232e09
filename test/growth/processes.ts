/** Processes with a probe, as subjects of measurements. */
import { mkdtempSync, rmSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { needsNode } from '../support/program.js'
import type { ServerProcess } from '../support/server-process.js'
import type { Subject } from './activity.js'
import type { Counts } from './probe.js'

let folder: string | null = null

/** The folder of the probes' sockets. Paths of sockets are short. */
export function socketsFolder(): string {
  folder ??= ((): string => {
    const made = mkdtempSync(join(tmpdir(), 'growth-'))
    process.once('exit', () => rmSync(made, { recursive: true, force: true }))
    return made
  })()
  return folder
}

/** Asks the probe of a process. */
export async function ask(pid: number, request: string): Promise<unknown> {
  return await new Promise((resolve, reject) => {
    let text = ''
    const socket = net.connect(join(socketsFolder(), String(pid)), () => socket.write(`${request}\n`))
    socket.on('data', (bytes) => (text += bytes.toString()))
    socket.on('error', reject)
    socket.on('close', () => {
      if (text === '') return reject(new Error(`the process ended while it was asked: ${request}`))
      const { value, error } = JSON.parse(text) as { value?: unknown; error?: string }
      if (error === undefined) resolve(value)
      else reject(new Error(error))
    })
  })
}

/** Adds up what several processes hold. */
export function ofProcesses(pids: () => readonly number[]): Subject {
  return {
    async count() {
      const sums: Record<string, number> = {}
      for (const pid of pids()) {
        for (const [kind, count] of Object.entries((await ask(pid, 'count')) as Counts)) {
          sums[kind] = (sums[kind] ?? 0) + count
        }
      }
      return sums
    },
    snapshot: needsNode === false ? async (path) => void (await ask(pids()[0]!, `snapshot ${path}`)) : null,
  }
}

/** The processes of a server, and the lines of its metrics, which come from `--metrics-bind-address`. */
export function measured(server: ServerProcess, pids = (): readonly number[] => server.pids()): Subject {
  const processes = ofProcesses(pids)
  return {
    ...processes,
    async count() {
      const counts: Record<string, number> = { ...(await processes.count()) }
      const response = await fetch(`${server.metricsUrl}/metrics`, { headers: { connection: 'close' } })
      for (const line of (await response.text()).split('\n')) {
        const [name] = /^[a-z_]+/.exec(line) ?? []
        if (name !== undefined) counts[`lines of ${name}`] = (counts[`lines of ${name}`] ?? 0) + 1
      }
      return counts
    },
  }
}
