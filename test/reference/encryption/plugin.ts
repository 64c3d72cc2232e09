/** The KMS plugin of `test/kubernetes/encryption/kms-plugin`, a process of its own that reads its keys from a file. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { endsWithUs } from '../../support/ends-with-us.js'
import { buildGoProgram } from '../../support/go-program.js'

const source = fileURLToPath(new URL('../../../../test/kubernetes/encryption/kms-plugin/', import.meta.url))

/** @throws NoProgramError */
export function buildPlugin(deadlineMs: number): string {
  return buildGoProgram({ source: source.replace(/\/$/, '') }, deadlineMs)
}

export class Plugin {
  readonly socket: string
  readonly #file: string
  readonly #program: string
  #child: ChildProcess | null = null

  constructor(folder: string, program: string) {
    this.socket = `${folder}/kms.sock`
    this.#file = `${folder}/kms.json`
    this.#program = program
  }

  /** @param keys the names of those that it has; new values are encrypted with the first. */
  configure(...keys: string[]): void {
    const all = keys.map((name) => [name, createHash('sha256').update(`a plugin's key: ${name}`).digest('hex')])
    writeFileSync(this.#file, JSON.stringify({ current: keys[0], keys: Object.fromEntries(all), healthz: 'ok' }))
  }

  async start(): Promise<void> {
    this.#child = spawn(this.#program, [this.socket, this.#file], { stdio: ['ignore', 'pipe', 'inherit'] })
    const child = this.#child
    endsWithUs(child)
    await once(child.stdout!, 'data')
  }

  async stop(): Promise<void> {
    if (this.#child === null || this.#child.exitCode !== null) return
    this.#child.kill('SIGTERM')
    await once(this.#child, 'exit')
  }
}
