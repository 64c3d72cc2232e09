/** Resets of streams on a connection whose client has read nothing for a while. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const program = fileURLToPath(new URL('blocked-reset.js', import.meta.url))

for (const what of ['late', 'broken']) {
  void t.test(`a ${what} response that is reset while its connection is blocked stops no server`, async (t) => {
    // It would take all the memory that it gets, within seconds.
    const command = 'ulimit -t 20; ulimit -v 8000000; exec "$0" "$@"'
    const child = spawn('sh', ['-c', command, process.execPath, program, what], { stdio: ['ignore', 'ignore', 'pipe'] })
    let log = ''
    child.stderr.on('data', (text: Buffer) => (log += text.toString()))
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
    t.same({ code, signal }, { code: 0, signal: null }, log)
  })
}
