import t from 'tap'
import { GO_FORMATS, goText } from '../../../src/kubernetes/codec/go-formats.js'
import { startApp } from '../../support/app.js'

/** How the types of k8s.io/apimachinery 0.37 read each text. */
const READABLE: Readonly<Record<string, readonly string[]>> = {
  quantity: [' 1Gi ', '1', '+.5', '1.', '1E', '1e3', '1E-3', '1k', '1Ki', '100m', '-0.5', '.', 'Ki'],
  time: [
    '2026-01-02T03:04:05Z',
    '2026-01-02T03:04:05.123Z',
    '2026-01-02T03:04:05,123Z',
    '2024-02-29T03:04:05Z',
    '0001-01-01T00:00:00Z',
    '2026-01-02T03:04:05+24:00',
    '2026-01-02T03:04:05-01:60',
  ],
  microtime: ['2026-01-02T03:04:05.123456Z', '2026-01-02T03:04:05,123456+01:00'],
  bytes: ['', 'aGVsbG8=', 'aG==', 'aGVs\nbG8=\n', 'aG=\n='],
}

const UNREADABLE: Readonly<Record<string, readonly string[]>> = {
  quantity: ['', ' ', '1e', '1K', '1.5e', '0x1', '--1', '1 Gi', '1.1.1'],
  time: [
    '',
    '2026-01-02t03:04:05Z',
    '2026-01-02T03:04:05z',
    '2026-02-30T03:04:05Z',
    '2026-02-29T03:04:05Z',
    '2026-13-01T00:00:00Z',
    '2026-01-00T00:00:00Z',
    '2026-01-02T24:00:00Z',
    '2026-01-02T23:59:60Z',
    '2026-01-02T03:04:05+25:00',
    '2026-01-02T03:04:05+01:61',
  ],
  microtime: [
    '2026-01-02T03:04:05Z',
    '2026-01-02T03:04:05.123Z',
    '2026-01-02T03:04:05.1234567Z',
    '2026-02-30T03:04:05.123456Z',
  ],
}

/** Go's message is `illegal base64 data at input byte N`. */
const ILLEGAL_BASE64 = [
  ['aGVs bG8=', 4],
  ['aGVsbG8==', 8],
  ['aGVsbG8=x', 8],
  ['aG=', 3],
  ['a', 0],
  ['aGV', 0],
  ['aGVsbG8', 4],
  ['====', 0],
  ['aG=x', 2],
  ['aGV=\nx', 5],
  ['-_-_', 0],
  ['aGVé', 3],
  ['aGVs\n\na', 6],
] as const

void t.test('a text is rejected exactly where the API server cannot read it', (t) => {
  for (const [format, texts] of Object.entries(READABLE))
    for (const text of texts) t.equal(GO_FORMATS[format]!(text), null, `${format} ${JSON.stringify(text)}`)
  for (const [format, texts] of Object.entries(UNREADABLE))
    for (const text of texts) t.type(GO_FORMATS[format]!(text), 'string', `${format} ${JSON.stringify(text)}`)
  for (const [text, at] of ILLEGAL_BASE64)
    t.equal(GO_FORMATS['bytes']!(text), `illegal base64 data at input byte ${at}`, JSON.stringify(text))
  t.end()
})

/** What Go writes after reading a text. */
const WRITTEN: readonly (readonly [format: string, text: string, written: string | null])[] = [
  ['time', '2026-01-02T03:04:05.9+24:60', '2026-01-01T02:04:05Z'],
  ['time', '0000-01-01T00:00:00+00:01', '-0001-12-31T23:59:00Z'],
  ['time', '0001-01-01T01:00:00.5+01:00', null],
  ['time', 'yesterday', 'yesterday'],
  ['microtime', '2026-01-02T03:04:05,000001-01:00', '2026-01-02T04:04:05.000001Z'],
  ['microtime', '0001-01-01T00:00:00.000000Z', null],
  ['microtime', '0001-01-01T00:00:00.000001Z', '0001-01-01T00:00:00.000001Z'],
  ['bytes', 'aG==\n', 'aA=='],
  ['bytes', 'a', 'a'],
  ['string', 'a\ud800', 'a\ufffd'],
]

void t.test('a text is written as Go would write it again', (t) => {
  for (const [format, text, written] of WRITTEN) {
    t.equal(goText(format, text), written, `${format} ${JSON.stringify(text)}`)
    if (written !== null) t.equal(goText(format, written), written, `${written} stays`)
  }
  t.end()
})

void t.test('a text that no Go client could read is not stored', async (t) => {
  const { url } = await startApp(t, { flags: ['--enable-writes'] })
  const post = async (path: string, members: object): Promise<object> => {
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ metadata: { name: 'a' }, ...members })
    return (await (await fetch(`${url}${path}`, { method: 'POST', headers, body })).json()) as object
  }
  t.match(await post('/api/v1/namespaces/default/configmaps', { binaryData: { x: 'not base64!' } }), {
    code: 400,
    message: 'ConfigMap in version "v1" cannot be handled as a ConfigMap: illegal base64 data at input byte 3',
  })
  const leases = '/apis/coordination.k8s.io/v1/namespaces/default/leases'
  t.match(await post(leases, { spec: { renewTime: '2026-01-01T00:00:00Z' } }), { code: 400, message: /parsing time/ })
  t.match(await post(leases, { spec: { renewTime: '2026-01-01T00:00:00.000000Z' } }), { kind: 'Lease' })
})

void t.test('a long text is read in linear time, whatever it contains', (t) => {
  // A quantity of this length took minutes with a regular expression that tried each point between its digits.
  for (const [format, read] of Object.entries(GO_FORMATS))
    for (const piece of ['1', '1.', 'a', '=', '2026-01-02T03:04:05.1'])
      t.type(read(`${piece.repeat(1_000_000 / piece.length)}!`), 'string', `${format} ${piece}`)
  t.end()
})
