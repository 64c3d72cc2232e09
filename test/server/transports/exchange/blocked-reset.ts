/**
 * A server that resets a response while its connection is blocked, because the client of another large response reads
 * nothing until then. If the stream is only closed, Node loops forever.
 *
 * Argument: `late`, a response that its client has not read in time, or `broken`, one that fails in the middle.
 */
import { once } from 'node:events'
import type { ServerHttp2Stream } from 'node:http2'
import { type AddressInfo, connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { boundResponse, breakOff } from '../../../../src/server/transports/exchange/linger.js'
import { createPlainListener } from '../../../../src/server/transports/server/listeners.js'
import { PREFACE, TYPE, frame, request, settings, uint32 } from '../../../security/support/http2-frames.js'

const WINDOW = 2 ** 31 - 1
/** More than the kernel buffers for a peer that reads nothing. */
const LARGE = Buffer.alloc(16 * 1024 * 1024)
const AFTER_MS = 200

let reset = null as ServerHttp2Stream | null
const server = createPlainListener(
  (message, response) => {
    // Only a request that was read to its end lets Node destroy the stream by itself.
    message.resume()
    if (message.url === '/large') return void response.end(LARGE)
    setTimeout(() => {
      reset = (response as unknown as { readonly stream: ServerHttp2Stream }).stream
      if (process.argv[2] === 'late') boundResponse(response.end('late'), () => AFTER_MS)
      else {
        response.write('broken')
        setTimeout(() => breakOff(response), AFTER_MS)
      }
    }, 50)
  },
  { maxStreams: 10 },
)
await once(server.listen(0, '127.0.0.1'), 'listening')
const client = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => {})
let received = 0
client.pause().on('data', (bytes: Buffer) => (received += bytes.length))
client.write(
  Buffer.concat([
    PREFACE,
    settings([4, WINDOW]),
    frame(TYPE.windowUpdate, 0, 0, uint32(WINDOW - 65_535)),
    request(1, '/large'),
    request(3, '/small'),
  ]),
)
while (reset?.closed !== true) await pause(10)
client.resume()
while (received < LARGE.length) await pause(10)
process.exit(0)
