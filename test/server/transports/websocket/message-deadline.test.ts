/** The time limit for one message on a WebSocket: frames as clients mask them, cut at every byte. */
import t from 'tap'
import { MessageDeadline } from '../../../../src/server/transports/websocket/message-deadline.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

const FIN = 0x80
const [CONTINUATION, TEXT, PING] = [0, 1, 9]
const MANY = 1_000_000

function frame(first: number, length: number): Buffer {
  const head =
    length < 126
      ? Buffer.from([first, 0x80 | length])
      : length < 65_536
        ? Buffer.from([first, 0xfe, length >> 8, length & 255])
        : Buffer.from([first, 0xff, 0, 0, 0, 0, length >>> 24, (length >> 16) & 255, (length >> 8) & 255, length & 255])
  return Buffer.concat([head, Buffer.from('mask'), Buffer.alloc(length, 0xff)])
}

function setUp(): { clock: VirtualClock; deadline: MessageDeadline; late: () => number } {
  const clock = new VirtualClock()
  let late = 0
  const deadline = new MessageDeadline({ clock, ms: 30_000, onLate: () => void late++ })
  return { clock, deadline, late: () => late }
}

const whole = Buffer.concat([
  frame(FIN | TEXT, 0),
  frame(TEXT, 3),
  frame(FIN | PING, 5),
  frame(CONTINUATION, 0),
  frame(FIN | CONTINUATION, 125),
  frame(FIN | TEXT, 126),
  frame(FIN | PING, 0),
  frame(FIN | TEXT, 65_536),
])

void t.test('message deadline - whole messages have no deadline, however they are split', (t) => {
  for (const size of [1, 2, 3, 7, 100, 4_096, whole.length]) {
    const { clock, deadline, late } = setUp()
    for (let at = 0; at < whole.length; at += size) deadline.read(whole.subarray(at, at + size), MANY)
    t.equal(clock.pending, 0, `in parts of ${size} bytes`)
    clock.advance(60_000)
    t.equal(late(), 0)
  }
  t.end()
})

void t.test('message deadline - an unfinished message has one, at whatever byte it stops', (t) => {
  const message = Buffer.concat([frame(TEXT, 3), frame(FIN | PING, 5), frame(FIN | CONTINUATION, 126)])
  for (let end = 1; end < message.length; end++) {
    const { clock, deadline, late } = setUp()
    deadline.read(Buffer.concat([whole, message.subarray(0, end)]), MANY)
    clock.advance(29_999)
    if (late() !== 0) t.fail(`too early, after ${end} bytes`)
    clock.advance(1)
    if (late() !== 1) t.fail(`never, after ${end} bytes`)
  }
  t.end()
})

void t.test('message deadline - neither pings nor further fragments extend it', (t) => {
  const { clock, deadline, late } = setUp()
  deadline.read(frame(TEXT, 1), MANY)
  for (let i = 0; i < 10; i++) {
    clock.advance(2_999)
    deadline.read(Buffer.concat([frame(FIN | PING, 5), frame(CONTINUATION, 1)]), MANY)
  }
  t.equal(late(), 0)
  clock.advance(10)
  t.equal(late(), 1)
  t.end()
})

void t.test('message deadline - each message has its own', (t) => {
  const { clock, deadline, late } = setUp()
  for (let i = 0; i < 10; i++) {
    const message = frame(FIN | TEXT, 10)
    deadline.read(message.subarray(0, 5), MANY)
    clock.advance(20_000)
    deadline.read(Buffer.concat([message.subarray(5), message.subarray(0, 5)]), MANY)
    clock.advance(20_000)
    deadline.read(message.subarray(5), MANY)
  }
  t.equal(late(), 0)
  t.equal(clock.pending, 0)
  t.end()
})

void t.test('message deadline - frames beyond the allowed number are not read', (t) => {
  const { deadline } = setUp()
  const ping = frame(FIN | PING, 0)
  t.ok(deadline.read(Buffer.concat([ping, ping, ping.subarray(0, 1)]), 3))
  t.ok(deadline.read(Buffer.concat([ping.subarray(1), ping, ping]), 2), 'the first of them began in the read before')
  let last = -1
  const get = (bytes: Buffer, at: string | symbol): unknown => {
    if (typeof at === 'string' && /^\d+$/.test(at)) last = Number(at)
    return Reflect.get(bytes, at)
  }
  const watched = new Proxy(Buffer.concat(Array.from({ length: 100 }, () => ping)), { get })
  t.notOk(deadline.read(watched, 2))
  t.equal(last, 2 * ping.length - 1)
  t.end()
})
