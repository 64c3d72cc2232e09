/**
 * Bodies that nest, repeat or grow until a careless parser runs out of stack, memory or time. Each is one byte string
 * with the media type under which a client would send it.
 */

export interface Bomb {
  readonly name: string
  readonly contentType: string
  readonly body: Buffer
}

const JSON_TYPE = 'application/json'
const YAML_TYPE = 'application/yaml'
const APPLY_TYPE = 'application/apply-patch+yaml'
const PROTOBUF_TYPE = 'application/vnd.kubernetes.protobuf'
const CBOR_TYPE = 'application/cbor'

/** The deepest that is accepted in YAML and in other types, one more, and what the stack does not hold. */
const LEVELS = [255, 510, 513, 6_000]

const HEAD = '"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}'

function jsonWith(member: string): string {
  return `{${HEAD},${member}}`
}

/** A protobuf field of bytes. */
function field(number: number, body: Buffer): Buffer {
  const length: number[] = []
  for (let left = body.length; ; left >>>= 7) {
    length.push(left > 0x7f ? (left & 0x7f) | 0x80 : left)
    if (left <= 0x7f) break
  }
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length]), body])
}

function protobuf(levels: number): Buffer {
  let inner: Buffer = Buffer.alloc(0)
  // JSONSchemaProps within itself (`not`, field 24 needs two bytes; `items` does it in one), and unknown fields alike.
  for (let i = 0; i < Math.min(levels, 6_000); i++) inner = field(1 + (i % 3), inner)
  const type = Buffer.concat([field(1, Buffer.from('v1')), field(2, Buffer.from('ConfigMap'))])
  return Buffer.concat([Buffer.from('k8s\0'), field(1, type), field(2, inner)])
}

function nested(levels: number): readonly Bomb[] {
  const lists = `${'['.repeat(levels)}${']'.repeat(levels)}`
  const maps = `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`
  const schema = `${'{"type":"object","properties":{"a":'.repeat(levels)}{}${'}}'.repeat(levels)}`
  const definition = (spec: string): string =>
    `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"bs.b.io"},"spec":{"group":"b.io","scope":"Namespaced","names":{"plural":"bs","singular":"b","kind":"B"},"versions":[{"name":"v1","served":true,"storage":true,${spec}}]}}`
  const key = JSON.stringify(`k:{"a":${lists}}`)
  return [
    ...(
      [
        [JSON_TYPE, 'lists', jsonWith(`"data":${lists}`)],
        [JSON_TYPE, 'maps', jsonWith(`"data":${maps}`)],
        [JSON_TYPE, 'lists that are never closed', jsonWith(`"data":${'['.repeat(levels)}`)],
        [JSON_TYPE, 'managed fields', jsonWith(`"x":{"managedFields":[{"fieldsV1":${maps}}]}`)],
        [JSON_TYPE, 'keys of managed fields', `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","managedFields":[{"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{${key}:{}}}}]}}`],
        [JSON_TYPE, 'a schema', definition(`"schema":{"openAPIV3Schema":${schema}}`)],
        [JSON_TYPE, 'a pattern', definition(`"schema":{"openAPIV3Schema":{"type":"object","properties":{"a":{"type":"string","pattern":"${'('.repeat(levels)}${')'.repeat(levels)}"}}}}`)],
        [JSON_TYPE, 'a repeated pattern', definition(`"schema":{"openAPIV3Schema":{"type":"object","properties":{"a":{"type":"string","pattern":"${'(a{1,9}'.repeat(Math.min(levels, 300))}${')'.repeat(Math.min(levels, 300))}"}}}}`)],
        [JSON_TYPE, 'a JSONPath', definition(`"schema":{"openAPIV3Schema":{"type":"object"}},"additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":".a${'[?(@.a'.repeat(levels)}${')]'.repeat(levels)}"}]`)],
        [JSON_TYPE, 'a JSONPath of brackets', definition(`"schema":{"openAPIV3Schema":{"type":"object"}},"additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":"${'{range .a}'.repeat(levels)}${'{end}'.repeat(levels)}"}]`)],
        [JSON_TYPE, 'rules in CEL', definition(`"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-validations":[{"rule":"${'('.repeat(levels)}${')'.repeat(levels)}"}]}}`)],
        [JSON_TYPE, 'a review', `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":${maps}}}`],
        [YAML_TYPE, 'lists', `data: ${lists}`],
        [YAML_TYPE, 'lists that are never closed', `data: ${'['.repeat(levels)}`],
        [YAML_TYPE, 'explicit keys in lists', `data: ${'[?'.repeat(levels)}`],
        [YAML_TYPE, 'flow maps', `data: ${'{a: '.repeat(levels)}`],
        [YAML_TYPE, 'block lists', `${'- '.repeat(levels)}x`],
        [YAML_TYPE, 'explicit keys', `${'? '.repeat(levels)}x`],
        [YAML_TYPE, 'indentation', Array.from({ length: Math.min(levels, 1_500) }, (_, i) => `${' '.repeat(i)}a:`).join('\n')],
        [YAML_TYPE, 'a chain of aliases', `a0: &a0 x\n${Array.from({ length: Math.min(levels, 6_000) }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}]\n`).join('')}`],
        [YAML_TYPE, 'an alias within itself', `a: &a [${'*a,'.repeat(Math.min(levels, 6_000))}*a]`],
        [YAML_TYPE, 'merge keys', `a0: &a0 {}\n${Array.from({ length: Math.min(levels, 6_000) }, (_, i) => `a${i + 1}: &a${i + 1} {<<: *a${i}}\n`).join('')}`],
        [YAML_TYPE, 'tags', `a: ${'!a '.repeat(levels)}`],
        [YAML_TYPE, 'brackets in a text', `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {a: "${'[{? '.repeat(levels)}"}\n`],
        [APPLY_TYPE, 'lists', `data: ${'['.repeat(levels)}`],
        ['application/json-patch+json', 'a value', `[{"op":"add","path":"/data","value":${lists}}]`],
        ['application/json-patch+json', 'a path', `[{"op":"test","path":"${'/a'.repeat(levels)}","value":1}]`],
        ['application/json-patch+json', 'copies into itself', `[${Array.from({ length: Math.min(levels, 600) }, () => '{"op":"copy","from":"/metadata","path":"/metadata/labels"}').join(',')}]`],
        ['application/merge-patch+json', 'maps', `{"data":${maps}}`],
        ['application/strategic-merge-patch+json', 'maps', `{"metadata":{"labels":${maps}}}`],
        ['application/strategic-merge-patch+json', 'directives', `{"metadata":${'{"$patch":"merge","a":'.repeat(levels)}1${'}'.repeat(levels)}}`],
      ] as const
    ).map(([contentType, name, text]) => ({ contentType, name: `${name}, ${levels} deep`, body: Buffer.from(text) })),
    { contentType: PROTOBUF_TYPE, name: `messages, ${levels} deep`, body: protobuf(levels) },
    ...[0x81, 0x9f, 0xbf, 0xc1].map((byte) => ({
      contentType: CBOR_TYPE,
      name: `items of the type ${byte.toString(16)}, ${levels} deep`,
      body: Buffer.alloc(levels, byte),
    })),
  ] // prettier-ignore
}

/** Much of one thing, beside one another. */
const LARGE: readonly (readonly [contentType: string, name: string, text: string])[] = [
  [JSON_TYPE, 'empty maps', jsonWith(`"data":[${'{},'.repeat(500_000)}{}]`)],
  [JSON_TYPE, 'a long number', jsonWith(`"data":${'1'.repeat(1_000_000)}`)],
  [JSON_TYPE, 'a large exponent', jsonWith('"data":1e999999999')],
  [JSON_TYPE, 'members', jsonWith(Array.from({ length: 60_000 }, (_, i) => `"m${i}":1`).join(','))],
  [JSON_TYPE, 'a member again and again', jsonWith(Array<string>(60_000).fill('"a":1').join(','))],
  [JSON_TYPE, 'inherited names', jsonWith('"__proto__":{"a":1},"constructor":{"prototype":{"a":1}}')],
  [JSON_TYPE, 'surrogates', jsonWith(`"data":{"a":"${'\\ud800'.repeat(100_000)}"}`)],
  [JSON_TYPE, 'nothing', ''],
  [JSON_TYPE, 'null', 'null'],
  [YAML_TYPE, 'empty lines', '\n'.repeat(500_000)],
  [YAML_TYPE, 'documents', '---\n'.repeat(50_000)],
  [CBOR_TYPE, 'a length of 2^64', '\x9b\xff\xff\xff\xff\xff\xff\xff\xff'],
  [PROTOBUF_TYPE, 'a length of 2^31', 'k8s\0\x0a\xff\xff\xff\xff\x07'],
]

export function bombs(levels: readonly number[] = LEVELS): readonly Bomb[] {
  const large = LARGE.map(([contentType, name, text]) => ({ contentType, name, body: Buffer.from(text, 'latin1') }))
  return [...levels.flatMap(nested), ...large]
}
