/** Writes HTTP/2 by hand: frames of RFC 9113, and header blocks of literals without indexing (RFC 7541, 6.2.2). */

export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')

export const TYPE = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  push: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const

export const FLAG = { endStream: 1, ack: 1, endHeaders: 4, padded: 8 } as const

export function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

export type Headers = readonly (readonly [name: string, value: string])[]

export function headerBlock(headers: Headers): Buffer {
  return Buffer.concat(headers.flatMap(([name, value]) => [Buffer.from([0]), literal(name), literal(value)]))
}

/** A GET request, complete in one frame. */
export function request(stream: number, path: string, more: Headers = [], flags: number = FLAG.endStream): Buffer {
  const pseudo: Headers = [
    [':method', 'GET'],
    [':scheme', 'https'],
    [':authority', 'localhost'],
    [':path', path],
  ]
  return frame(TYPE.headers, flags | FLAG.endHeaders, stream, headerBlock([...pseudo, ...more]))
}

export function settings(...pairs: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.alloc(pairs.length * 6)
  pairs.forEach(([id, value], i) => {
    payload.writeUInt16BE(id, i * 6)
    payload.writeUInt32BE(value, i * 6 + 2)
  })
  return frame(TYPE.settings, 0, 0, payload)
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

export interface Frame {
  readonly type: number
  readonly flags: number
  readonly stream: number
  readonly payload: Buffer
}

export function parseFrames(bytes: Buffer): Frame[] {
  const frames: Frame[] = []
  for (let at = 0; at + 9 <= bytes.length;) {
    const length = bytes.readUIntBE(at, 3)
    frames.push({
      type: bytes[at + 3]!,
      flags: bytes[at + 4]!,
      stream: bytes.readUInt32BE(at + 5),
      payload: bytes.subarray(at + 9, at + 9 + length),
    })
    at += 9 + length
  }
  return frames
}

/** Streams answered with 200: the first byte of the block, from the static table. */
export function answered(bytes: Buffer): number[] {
  return parseFrames(bytes)
    .filter(({ type, payload }) => type === TYPE.headers && payload[0] === 0x88)
    .map(({ stream }) => stream)
}

/** Whether the stream has its answer or was reset, or the connection is ended: nothing more can answer its request. */
export function isSettled(bytes: Buffer, stream: number): boolean {
  return parseFrames(bytes).some(
    (frame) =>
      frame.payload.length > 0 &&
      (frame.type === TYPE.goaway ||
        (frame.stream === stream && (frame.type === TYPE.headers || frame.type === TYPE.reset))),
  )
}

/** A length-prefixed string; lengths from 127 on take further bytes. */
function literal(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1')
  return Buffer.concat([integer(bytes.length), bytes])
}

function integer(value: number): Buffer {
  if (value < 127) return Buffer.from([value])
  const bytes = [127]
  let rest = value - 127
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128)
  bytes.push(rest)
  return Buffer.from(bytes)
}
