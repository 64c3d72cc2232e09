/**
 * A watch on a WebSocket: `ws` has done the handshake, reads what the client sends, and answers pings and closes;
 * events bypass the library and go to the socket as complete frames. The library's frames and the events never
 * interleave, because each frame is written in one synchronous step.
 */
import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import type { WatchOutput } from '../../../engine/broadcast/cursor.js'
import { statusOf } from '../../../kubernetes/model/status-of.js'
import { DirectOutput } from '../watch/watch-output.js'

const NORMAL = 1000
const SERVER_ERROR = 1011
const TRY_AGAIN_LATER = 1013
/** `ws.readyState` */
const OPEN = 1

export class WebSocketOutput extends DirectOutput<Socket> implements WatchOutput {
  constructor(
    private readonly webSocket: WebSocket,
    socket: Socket,
  ) {
    super(socket, webSocket)
    // The event `close` follows every error of the client or of the connection.
    webSocket.on('error', () => {})
  }

  override write(bytes: Buffer): boolean {
    // Nothing may follow a close frame; the cursor is notified when the connection closes.
    if (this.webSocket.readyState !== OPEN) return false
    return super.write(bytes)
  }

  end(bytes: Buffer | null, error: Error | null): void {
    if (bytes !== null) this.write(bytes)
    this.detach()
    if (error === null) return this.webSocket.close(NORMAL)
    const { code, reason } = statusOf(error)
    this.webSocket.close(code === 429 || code === 503 ? TRY_AGAIN_LATER : SERVER_ERROR, reason)
  }

  destroy(): void {
    this.detach()
    this.webSocket.terminate()
  }
}
