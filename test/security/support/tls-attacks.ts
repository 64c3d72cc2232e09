/** Bytes sent to a TLS port that are not a handshake, or only half of one. */
import { type Random, randomInteger } from '../../../src/support/random.js'

const bytes = (random: Random, length: number): Buffer =>
  Buffer.from(Array.from({ length }, () => randomInteger(random, 0, 255)))

const record = (type: number, version: number, payload: Buffer, length = payload.length): Buffer => {
  const head = Buffer.alloc(5)
  head[0] = type
  head.writeUInt16BE(version, 1)
  head.writeUInt16BE(length, 3)
  return Buffer.concat([head, payload])
}

/** A ClientHello that offers TLS 1.2 with one cipher, without extensions. @param version of the hello itself. */
export function clientHello(random: Random, version = 0x0303): Buffer {
  const body = Buffer.concat([
    Buffer.from([version >> 8, version & 0xff]),
    bytes(random, 32),
    Buffer.from([0, 0, 2, 0xc0, 0x2b, 1, 0]),
  ])
  const head = Buffer.from([1, 0, body.length >> 8, body.length & 0xff])
  return record(22, 0x0301, Buffer.concat([head, body]))
}

export function tlsAttacks(random: Random, count: number): readonly (readonly [name: string, bytes: Buffer])[] {
  const hello = clientHello(random)
  const broken = Array.from({ length: count }, (_, i): readonly [string, Buffer] => {
    const copy = Buffer.from(hello)
    for (let n = randomInteger(random, 1, 5); n > 0; n--) {
      copy[randomInteger(random, 0, copy.length - 1)] = randomInteger(random, 0, 255)
    }
    return [`TLS: a broken hello ${i}`, copy]
  })
  return [
    ['TLS: noise', bytes(random, 4_000)],
    ['TLS: zeros', Buffer.alloc(70_000)],
    ['TLS: plain HTTP', Buffer.from('GET /api/v1/namespaces/closed/pods HTTP/1.1\r\nHost: a\r\n\r\n')],
    ['TLS: the HTTP/2 preface', Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')],
    ['TLS: a record longer than allowed', record(22, 0x0303, Buffer.alloc(1_000), 65_535)],
    ['TLS: empty records', Buffer.concat(Array.from({ length: 5_000 }, () => record(22, 0x0303, Buffer.alloc(0))))],
    ['TLS: data before the handshake', record(23, 0x0303, bytes(random, 500))],
    ['TLS: alerts', Buffer.concat(Array.from({ length: 1_000 }, () => record(21, 0x0303, Buffer.from([1, 90]))))],
    ['TLS: a heartbeat that asks for more than it is', record(24, 0x0303, Buffer.from([1, 0x40, 0, 1, 2, 3]))],
    ['TLS: 1.0', clientHello(random, 0x0301)],
    ['TLS: 1.1', clientHello(random, 0x0302)],
    ['TLS: an unknown version', clientHello(random, 0x0909)],
    ['TLS: SSL 2', Buffer.from('802e0100020015000000100100800200800300800400800500800600400700c0', 'hex')],
    ['TLS: two hellos', Buffer.concat([hello, hello])],
    ['TLS: a hello byte by record', Buffer.concat([...hello.subarray(5)].map((byte) => record(22, 0x0303, Buffer.from([byte]))))], // prettier-ignore
    ['TLS: a hello that says it is 16 MB', record(22, 0x0303, Buffer.from([1, 0xff, 0xff, 0xff, 3, 3, 1, 2]))],
    ...broken,
  ]
}
