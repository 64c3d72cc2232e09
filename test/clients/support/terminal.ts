/** A program in a terminal of tmux: it gets keys, and its screen can be read. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

export interface Terminal {
  /** The lines of the screen, each with the sequences that set its colours. */
  screen(): readonly string[]
  /** Types this text. */
  type(text: string): void
  /** Presses keys by tmux's names: `Enter`, `C-d`. */
  press(...keys: readonly string[]): void
}

/** The pattern of a sequence that sets a colour. */
export const COLOUR = '\u001B\\[[\\d;:]*m'

const COLUMNS = 180
const LINES = 100

const SETTINGS = `
set -g status off
set -s escape-time 0
`

/** Every terminal has the same size. @param environment all that the program gets. */
export function startTerminal(
  t: Pick<Test, 'teardown'>,
  command: readonly string[],
  environment: Readonly<Record<string, string>>,
): Terminal {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-terminal-'))
  const settings = join(folder, 'settings')
  writeFileSync(settings, SETTINGS)
  const socket = join(folder, 'socket')
  const tmux = (...args: readonly string[]): string =>
    execFileSync('tmux', ['-u', '-S', socket, '-f', settings, ...args], { encoding: 'utf8' })
  const variables = Object.entries({ TERM: 'screen-256color', LANG: 'C.UTF-8', ...environment })
  const assignments = variables.map(([name, value]) => `${name}=${value}`)
  const size = ['-x', String(COLUMNS), '-y', String(LINES)]
  tmux('new-session', '-d', ...size, 'env', '-i', ...assignments, ...command)
  t.teardown(() => {
    // tmux has already ended if its program has.
    spawnSync('tmux', ['-S', socket, 'kill-server'])
    rmSync(folder, { recursive: true, force: true })
  })
  return {
    screen: () => tmux('capture-pane', '-p', '-e').split('\n'),
    type: (text) => void tmux('send-keys', '-l', text),
    press: (...keys) => void tmux('send-keys', ...keys),
  }
}
