/**
 * Signed data can be read only by holders of the key, and only with the kind and at the place with which it was signed.
 */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { Envelope, parseSigningKeys, type Sealed } from '../../../src/fleet/stream/signed-envelope.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const [a, b, c] = [randomBytes(32), randomBytes(32), randomBytes(48)] as const

function envelope(keys: readonly Buffer[], subject = 'distributary.test.things.log') {
  const clock = new VirtualClock()
  const lines: string[] = []
  let refused = 0
  const log = (_fields: object, message: string): void => void lines.push(message)
  const made = new Envelope({
    keys: { value: keys, onChange: () => () => {} },
    subject,
    clock,
    logger: { debug: log, info: log, warn: log, error: log },
    onRefused: () => refused++,
  })
  return { envelope: made, clock, lines, refused: () => refused }
}

const data = Buffer.from('a put of x')
const signed = envelope([a]).envelope.seal('message', 7, data)

const rows: readonly (readonly [name: string, keys: readonly Buffer[], bytes: Buffer, isRead: boolean])[] = [
  ['with the same key', [a], signed, true],
  ['with the key as the second', [b, a], signed, true],
  ['with another key', [b], signed, false],
  ['with two other keys', [b, c], signed, false],
  ['what nobody signed', [a], data, false],
  ['nothing', [a], Buffer.alloc(0), false],
  ['a signature alone, cut short', [a], signed.subarray(0, 30), false],
  ['a longer one', [a], Buffer.concat([signed, Buffer.from('!')]), false],
  ['nothing that is signed', [a], envelope([a]).envelope.seal('message', 7, Buffer.alloc(0)), true],
]
for (const [name, keys, bytes, isRead] of rows) {
  void t.test(`${isRead ? 'is read' : 'is refused, counted and logged'}: ${name}`, async (t) => {
    const h = envelope(keys)
    const opened = h.envelope.open('message', 7, bytes)
    t.equal(opened !== null, isRead)
    t.equal(h.refused(), isRead ? 0 : 1)
    t.equal(h.lines.length, isRead ? 0 : 1)
  })
}

void t.test('a signature is valid only for its kind, its resource and its place, to the last bit', async (t) => {
  const others: readonly (readonly [Sealed, string | number, string?])[] = [
    ['status', 7],
    ['message', 8],
    ['message', '7 '],
    ['message', 7, 'distributary.other.things.log'],
  ]
  for (const [kind, place, subject] of others) {
    t.equal(envelope([a], subject).envelope.open(kind, place, signed), null, `${kind} ${place} ${subject ?? ''}`)
  }
  for (let bit = 0; bit < signed.length * 8; bit++) {
    const changed = Buffer.from(signed)
    changed[bit >> 3]! ^= 1 << (bit & 7)
    if (envelope([a]).envelope.open('message', 7, changed) !== null) t.fail(`bit ${bit}`)
  }
})

void t.test('pieces are signed like the whole', async (t) => {
  const pieces = envelope([a]).envelope.sealChunks('snapshot', 's/1-2', [Buffer.from('a put'), Buffer.from(' of x')])
  t.same(envelope([a]).envelope.open('snapshot', 's/1-2', Buffer.concat(pieces)), data)
})

void t.test('without keys no signature is added', async (t) => {
  const { envelope: open } = envelope([])
  t.equal(open.overheadBytes, 0)
  t.equal(open.seal('message', 7, data), data)
  t.equal(open.open('message', 7, data), data)
})

void t.test('a forger cannot fill the log', async (t) => {
  const h = envelope([a])
  for (let i = 0; i < 1_000; i++) h.envelope.open('message', i, data)
  t.equal(h.lines.length, 1)
  h.clock.advance(3_600_000)
  h.envelope.open('message', 7, data)
  t.equal(h.lines.length, 2)
  t.equal(h.refused(), 1_001)
})

const line = (key: Buffer): string => key.toString('base64')
void t.test('a key file has one or two lines of base64', async (t) => {
  t.same(parseSigningKeys(Buffer.from(line(a))), [a])
  t.same(parseSigningKeys(Buffer.from(`# the new one\n\n${line(c)}\r\n${line(b)}\n`)), [c, b])
  for (const wrong of ['', '# only words', `${line(a)}\n${line(b)}\n${line(c)}`, line(a).slice(0, 20), 'pass word']) {
    t.throws(() => parseSigningKeys(Buffer.from(wrong)), /--nats-signing-key-file/, wrong)
  }
})
