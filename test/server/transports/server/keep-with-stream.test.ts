/** Half of a request's trailers, with which a peer can end any HTTP/2 server of Node 20 to 26. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const program = fileURLToPath(new URL('half-trailers.js', import.meta.url))

async function run(...args: readonly string[]): Promise<{ code: number | null; signal: string | null; log: string }> {
  const child = spawn(process.execPath, ['--expose-gc', program, ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
  let log = ''
  child.stderr.on('data', (text: Buffer) => (log += text.toString()))
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  return { code, signal, log }
}

const ends = { failed: 'fails', destroyed: 'is destroyed', reset: 'is reset' }
for (const [end, how] of Object.entries(ends)) {
  void t.test(
    `a connection that ${how} after half of the trailers ends no server, and stays in no memory`,
    async (t) => {
      const { code, signal, log } = await run('ours', end)
      t.same({ code, signal }, { code: 0, signal: null }, log)
    },
  )
}

void t.test('Node still has the fault', async (t) => {
  const { signal, log } = await run('bare', 'failed')
  t.equal(signal, 'SIGABRT', 'when this fails, see whether keep-with-stream.ts is still needed')
  t.match(log, 'current_nghttp2_memory_')
})
