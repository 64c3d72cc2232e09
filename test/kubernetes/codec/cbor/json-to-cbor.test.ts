import t from 'tap'
import { cborToJson } from '../../../../src/kubernetes/codec/cbor/cbor-to-json.js'
import { cborSteps, CborWriter, encodeCbor } from '../../../../src/kubernetes/codec/cbor/json-to-cbor.js'
import { MAX_JSON_DEPTH } from '../../../../src/kubernetes/codec/json-scan.js'

const LIMIT = 16 * 1024 * 1024
const hex = (json: string): string => encodeCbor(Buffer.from(json)).toString('hex')

void t.test('values are written as the encoder of an API server writes them', (t) => {
  const cases: [json: string, hex: string][] = [
    ['"a"', '4161'],
    ['""', '40'],
    [`"${'x'.repeat(24)}"`, `5818${'78'.repeat(24)}`],
    ['"\\u00fc\\n"', '43c3bc0a'],
    ['"\\ud800"', '43efbfbd'],
    ['null', 'f6'],
    ['[true,false]', '82f5f4'],
    ['{"b":1,"a":{}}', 'a24162014161a0'],
    ['{"a":1,"b":2,"a":3}', 'a2416103416202'],
    ['{"__proto__":1}', 'a1495f5f70726f746f5f5f01'],
    ['23', '17'],
    ['24', '1818'],
    ['256', '190100'],
    ['65536', '1a00010000'],
    ['4294967296', '1b0000000100000000'],
    ['-1', '20'],
    ['-25', '3818'],
    ['9007199254740993', '1b0020000000000001'],
    ['9223372036854775807', '1b7fffffffffffffff'],
    ['-9223372036854775808', '3b7fffffffffffffff'],
    // Too large for 64 bits with a sign: a float, as in Go's unstructured objects.
    ['9223372036854775808', 'fa5f000000'],
    ['-9223372036854775809', 'fadf000000'],
    ['0', '00'],
    ['-0', '00'],
    ['-0.0', 'f98000'],
    ['1.0', 'f93c00'],
    ['1e3', 'f963d0'],
    ['1.5', 'f93e00'],
    ['100000.5', 'fa47c35040'],
    ['0.1', 'fb3fb999999999999a'],
    ['1e+21', 'fb444b1ae4d6e2ef50'],
    // Beyond all floats: no decoder of Kubernetes takes an infinity, and it refuses the whole document.
    ['[1e400,-1e400]', '82453165343030462d3165343030'],
    [`1${'0'.repeat(309)}`, `59013631${'30'.repeat(309)}`],
    ['1e-400', 'f90000'],
    ['{"a":[{"b":1,"\\u0062":[2]}],"c":3}', 'a2416181a141628102416303'],
  ]
  for (const [json, expected] of cases) t.equal(hex(json), `d9d9f7${expected}`, json)
  t.end()
})

void t.test('what is read back is the same', (t) => {
  const strings = ['', 'a'.repeat(255), 'ä'.repeat(200), '\0\u001f"\\</>', '😀'.repeat(20_000)]
  const json = JSON.stringify({ list: strings, numbers: [0, 1.25, -7, 1e300, 2 ** 40], nested: { a: [{}, [], null] } })
  const back = cborToJson(encodeCbor(Buffer.from(json)), LIMIT).toString()
  t.same(JSON.parse(back), JSON.parse(json))
  const deep = '['.repeat(MAX_JSON_DEPTH) + ']'.repeat(MAX_JSON_DEPTH)
  const row = Buffer.from(`{"type":"ADDED","object":{"rows":[{"object":${deep}}]}}`)
  t.doesNotThrow(() => encodeCbor(row), 'an object of the greatest depth in a row of a Table')
  t.end()
})

void t.test('large values are encoded in short steps', (t) => {
  const spec = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`key-${i}`, { list: [i, `v${i}`] }]))
  const json = Buffer.from(JSON.stringify({ spec, status: spec }))
  const steps = cborSteps(json)
  let count = 0
  for (let step = steps.next(); ; step = steps.next(), count++) {
    if (step.done) {
      t.same(JSON.parse(cborToJson(step.value, LIMIT).toString()), JSON.parse(json.toString()))
      break
    }
  }
  t.ok(count > json.length / 32_768, `${count} steps for ${json.length} bytes`)
  t.end()
})

void t.test('a list in parts is the same document, wherever it is cut between items', (t) => {
  const items = Array.from({ length: 30 }, (_, i) => JSON.stringify({ metadata: { name: `a${i}` }, list: [i, '],{'] }))
  const written = (parts: readonly string[]): Buffer => {
    const writer = new CborWriter()
    return Buffer.concat(
      parts.map((part) => {
        const steps = writer.push(Buffer.from(part))
        for (let step = steps.next(); ; step = steps.next()) if (step.done) return step.value
      }),
    )
  }
  const head = '{"kind":"Table","metadata":{"resourceVersion":"7"},"columnDefinitions":[{"name":"[,]"}],"rows":['
  for (const count of [0, 1, 23, 24, 30]) {
    const some = items.slice(0, count)
    const whole = `${head}${some.join()}]}`
    const read = (cbor: Buffer): unknown => JSON.parse(cborToJson(cbor, LIMIT).toString())
    t.same(read(written([whole])), JSON.parse(whole), `${count} in one part`)
    const separate = some.map((item, index) => (index === 0 ? item : `,${item}`))
    t.same(read(written([head, ...separate, ']}'])), JSON.parse(whole), `${count} one by one`)
  }
  t.end()
})
