/**
 * A watch on a WebSocket: `ws` has done the handshake, reads what the client sends, and answers pings and closes;
 * events bypass the library and go to the socket as complete frames. The library's frames and the events never
 * interleave, because each frame is written in one synchronous step.
 */
import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import type { WatchOutput } from '../../../engine/broadcast/cursor.js'
import type { Status } from '../../../engine/model/status.js'
import { DirectOutput } from '../watch/output.js'

const NORMAL = 1000
const SERVER_ERROR = 1011
const TRY_AGAIN_LATER = 1013
/** `ws.readyState` */
const OPEN = 1

export class WebSocketOutput extends DirectOutput<Socket> implements WatchOutput {
  readonly #webSocket: WebSocket

  constructor(webSocket: WebSocket, socket: Socket) {
    super(socket, webSocket)
    this.#webSocket = webSocket
    // The event `close` follows every error of the client or of the connection.
    webSocket.on('error', () => {})
  }

  override write(bytes: Buffer): boolean {
    // Nothing may follow a close frame; the cursor is notified when the connection closes.
    if (this.#webSocket.readyState !== OPEN) return false
    return super.write(bytes)
  }

  end(bytes: Buffer | null, error: Status | null): void {
    if (bytes !== null) this.write(bytes)
    this.detach()
    if (error === null) this.#webSocket.close(NORMAL)
    else this.#webSocket.close(error.code === 429 || error.code === 503 ? TRY_AGAIN_LATER : SERVER_ERROR, error.reason)
  }

  destroy(): void {
    this.detach()
    this.#webSocket.terminate()
  }
}
