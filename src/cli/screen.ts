/** Uses a terminal's screen and restores its content afterwards. */
import type { Output } from './output.js'

const ENTER = '\u001b[?1049h\u001b[?25l'
const LEAVE = '\u001b[?25h\u001b[?1049l'

export interface Screen {
  draw(lines: readonly string[]): Promise<void>
  leave(): Promise<void>
}

/** @param onKey called for each key. Ctrl-C is still a signal. */
export async function enterScreen(out: Output, onKey: (key: string) => void): Promise<Screen> {
  const { stdin } = process
  const onData = (chunk: Buffer): void => {
    const key = chunk.toString('utf8')
    // In raw mode the terminal does not turn this key into a signal.
    if (key === '\u0003') process.kill(process.pid, 'SIGINT')
    else onKey(key)
  }
  if (stdin.isTTY) {
    stdin.setRawMode(true)
    stdin.on('data', onData)
    stdin.resume()
  }
  await out.write(ENTER)
  return {
    // Each line is cleared to its end, and the rest below the last line: clearing everything first would flicker.
    draw: async (lines) => await out.write(`\u001b[H${lines.map((line) => `${line}\u001b[K\r\n`).join('')}\u001b[J`),
    leave: async () => {
      if (stdin.isTTY) {
        stdin.setRawMode(false)
        stdin.off('data', onData)
        stdin.pause()
      }
      await out.write(LEAVE)
    },
  }
}
