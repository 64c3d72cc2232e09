import t from 'tap'
import { bytesCodec } from '../../../src/client/reflector/bytes-codec.js'
import { jsonWire, sseWire, type EventWire } from '../../../src/client/reflector/event-stream.js'
import { WatchFailure } from '../../../src/client/reflector/watch-failure.js'
import type { DecodedEvent, ObjectCodec } from '../../../src/client/reflector/object-codec.js'
import { type KubeObject, treeCodec } from '../../../src/client/reflector/tree-codec.js'

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)
const bytes = (value: string): Uint8Array => new TextEncoder().encode(value)

const awkward =
  '{"metadata" : {"name":"a\\"b","namespace":"ñ","annotations":{"x":"}]{\\\\"},"resourceVersion":"7"},"n":12345678901234567890,"n":1}'
const lines =
  `{"type":"ADDED","object":${awkward}}\n` +
  `{"object":{"metadata":{"resourceVersion":"8","annotations":{"k8s.io/initial-events-end":"true"}}},"type":"BOOKMARK"}\n` +
  `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n`
const messages =
  `event: ADDED\ndata: ${awkward}\n\n` +
  `: a comment\nretry: 5\n\nevent: BOOKMARK\nid: 8\ndata: {"metadata":{"resourceVersion":"8","annotations":{"k8s.io/initial-events-end":"true"}}}\n\n` +
  `event: ERROR\nid\ndata: {"kind":"Status","code":410,"reason":"Expired"}\n\n`

function read<T>(
  wire: EventWire,
  codec: ObjectCodec<T>,
  stream: string,
  step: number,
): [DecodedEvent<T>, boolean | null][] {
  const seen: [DecodedEvent<T>, boolean | null][] = []
  const events = wire.open(codec, (event, endsRevision) => seen.push([event, endsRevision]))
  const all = bytes(stream)
  for (let at = 0; at < all.length; at += step) events.push(all.slice(at, at + step))
  return seen
}

void t.test('both formats and both codecs yield the same, however the bytes were cut', async (t) => {
  for (const step of [1, 2, 7, 64, 10_000]) {
    for (const [wire, stream, ends] of [
      [jsonWire, lines, [null, null, null]],
      [sseWire, messages, [false, true, false]],
    ] as const) {
      const asTrees = read(wire, treeCodec<KubeObject>(), stream, step)
      const asBytes = read(wire, bytesCodec, stream, step)
      const name = `${wire.accept} in steps of ${step}`
      t.match(
        asTrees.map(([event]) => event),
        [
          { type: 'ADDED', key: 'ñ/a"b', resourceVersion: '7', object: { metadata: { namespace: 'ñ' } } },
          { type: 'BOOKMARK', resourceVersion: '8', endsInitialEvents: true },
          { type: 'ERROR', status: { code: 410 } },
        ],
        name,
      )
      t.match(
        asBytes.map(([event]) => event),
        [
          { type: 'ADDED', key: 'ñ/a"b', resourceVersion: '7' },
          { type: 'BOOKMARK', resourceVersion: '8', endsInitialEvents: true },
          { type: 'ERROR', status: { code: 410 } },
        ],
        name,
      )
      const [added] = asBytes[0] ?? []
      t.equal(added?.type === 'ADDED' ? text(added.object.bytes) : '', awkward, 'not a byte is changed')
      t.same(
        asBytes.map(([, end]) => end),
        ends,
        'where a revision ends',
      )
    }
  }
})

void t.test('a list is read with its continue token and its revision', async (t) => {
  const list = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"more"},"items":[${awkward}, {"metadata":{"name":"b","resourceVersion":"2"}}]}`
  const trees = treeCodec<KubeObject>().decodeList(bytes(list))
  t.match(trees, {
    resourceVersion: '9',
    continueToken: 'more',
    items: [{ kind: 'Pod', apiVersion: 'v1' }, { metadata: { name: 'b' } }],
  })
  const raw = bytesCodec.decodeList(bytes(list))
  t.match(raw, { resourceVersion: '9', continueToken: 'more' })
  t.same(
    raw.items.map((item) => text(item.bytes)),
    [awkward, '{"metadata":{"name":"b","resourceVersion":"2"}}'],
  )
  for (const codec of [treeCodec<KubeObject>(), bytesCodec]) {
    t.same(codec.decodeList(bytes('{"metadata":{"resourceVersion":"1"},"items":null}')).items, [])
  }
})

void t.test('the events before a malformed one in the same chunk are not lost', async (t) => {
  const seen: DecodedEvent<KubeObject>[] = []
  const stream = jsonWire.open(treeCodec<KubeObject>(), (event) => seen.push(event))
  const good = (name: string): string =>
    `{"type":"ADDED","object":{"metadata":{"name":"${name}","resourceVersion":"1"}}}\n`
  const arrival = bytes(`${good('a')}${good('b')}{"type":"ADDED",\n${good('c')}`)
  t.throws(() => stream.push(arrival), { name: 'WatchFailure', kind: 'malformed' })
  t.same(
    seen.map((event) => 'key' in event && event.key),
    ['a', 'b'],
  )
})

void t.test('input that violates the protocol is malformed and reported', async (t) => {
  const cases = [
    '',
    '[',
    'null',
    '{}',
    '{"type":"ADDED"}',
    '{"type":"ADDED","object":{"metadata":{"name":"a"}}}',
    '{"type":"WHAT","object":{"metadata":{"name":"a","resourceVersion":"1"}}}',
    '{"type":"ADDED","object":{"metadata":{"name":"a',
  ]
  for (const codec of [treeCodec<KubeObject>(), bytesCodec]) {
    for (const line of cases) {
      t.throws(() => codec.decodeEvent(bytes(line)), { name: 'WatchFailure', kind: 'malformed' }, line)
    }
    t.throws(() => codec.decodeList(bytes('{"items":[]}')), { name: 'WatchFailure', kind: 'malformed' })
  }
})

void t.test('each answer of a server decides the next step', async (t) => {
  const cases: readonly [object, number, string | null, string, number | null][] = [
    [{ reason: 'Expired' }, 410, null, 'expired', null],
    [{ reason: 'Gone' }, 200, null, 'expired', null],
    [{ reason: 'Expired', details: { causes: [{ reason: 'ResourceVersionTooLarge' }] } }, 410, null, 'too-large', null],
    [
      { reason: 'Timeout', details: { causes: [{ reason: 'ResourceVersionTooLarge' }], retryAfterSeconds: 1 } },
      504,
      null,
      'too-large',
      1_000,
    ],
    [
      { reason: 'Timeout', message: 'Timeout: Too large resource version: 9, current: 1' },
      504,
      null,
      'too-large',
      null,
    ],
    [{}, 429, '3', 'too-many-requests', 3_000],
    [{}, 503, null, 'server-error', null],
    [{ reason: 'Timeout' }, 504, null, 'server-error', null],
    [{}, 422, null, 'unsupported', null],
    [{}, 403, null, 'refused', null],
    [{}, 404, null, 'refused', null],
    [{}, 302, null, 'malformed', null],
  ]
  for (const [status, code, retryAfter, kind, retryAfterMs] of cases) {
    const failure = WatchFailure.fromStatus(status, code, retryAfter)
    t.match(
      { kind: failure.kind, ms: failure.retryAfterMs },
      { kind, ms: retryAfterMs },
      JSON.stringify([status, code]),
    )
  }
})
