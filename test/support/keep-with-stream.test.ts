/**
 * Half of the trailers of a request or a response, and malformed requests, with which a peer can end any process that
 * speaks HTTP/2 on Node 20 to 26.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'

async function run(
  program: URL,
  ...args: readonly string[]
): Promise<{ code: number | null; signal: string | null; log: string }> {
  const child = spawn(process.execPath, ['--expose-gc', fileURLToPath(program), ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let log = ''
  child.stderr.on('data', (text: Buffer) => (log += text.toString()))
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  return { code, signal, log }
}

const ends = { failed: 'fails', destroyed: 'is destroyed', reset: 'is reset' }
// Written out, so that the runner sees which programs the test needs.
const sides = {
  server: new URL('half-request-trailers.js', import.meta.url),
  'client of etcd': new URL('half-answer-trailers.js', import.meta.url),
}
for (const [side, program] of Object.entries(sides)) {
  for (const [end, how] of Object.entries(ends)) {
    void t.test(
      `a connection that ${how} after half of the trailers ends no ${side}, and stays in no memory`,
      async (t) => {
        const { code, signal, log } = await run(program, 'ours', end)
        t.same({ code, signal }, { code: 0, signal: null }, log)
      },
    )
  }

  void t.test(`Node still has the fault, as a ${side}`, async (t) => {
    const { signal, log } = await run(program, 'bare', 'failed')
    t.equal(signal, 'SIGABRT', 'when this fails, see whether keep-with-stream.ts is still needed')
    t.match(log, 'current_nghttp2_memory_')
  })
}

const malformed = new URL('malformed-requests.js', import.meta.url)

void t.test('malformed requests, on connections that end, end no server', async (t) => {
  const { code, signal, log } = await run(malformed, 'ours')
  t.same({ code, signal }, { code: 0, signal: null }, log)
})

void t.test('Node still has the fault, for malformed requests', async (t) => {
  const { signal, log } = await run(malformed, 'bare')
  t.equal(signal, 'SIGABRT', 'when this fails, see whether keepUntilClosed is still needed')
  t.match(log, 'current_nghttp2_memory_')
})
