/**
 * Every parser that recurses on input, with bodies that nest and grow: it accepts them or refuses them, also when it is
 * called with a third of the stack in use. A `RangeError` is no refusal: at the end of the stack V8 may abort the process
 * instead of throwing one.
 */
import t, { type Test } from 'tap'
import { cborToJson } from '../../src/kubernetes/codec/cbor/cbor-to-json.js'
import { parseExactJson } from '../../src/kubernetes/codec/exact-json.js'
import { indentJson } from '../../src/kubernetes/codec/json-indent.js'
import { scanObject } from '../../src/kubernetes/codec/json-scan.js'
import { jsonToYaml } from '../../src/kubernetes/codec/json-to-yaml.js'
import { encodeJsonTree } from '../../src/kubernetes/codec/json-tree.js'
import { parseParts } from '../../src/kubernetes/codec/json-path/parse.js'
import { CodecError } from '../../src/kubernetes/codec/protobuf/codec-error.js'
import { decodeObject } from '../../src/kubernetes/codec/protobuf/decode.js'
import { openStored } from '../../src/kubernetes/codec/protobuf/resource-version-splice.js'
import { kubernetesSchema } from '../../src/kubernetes/codec/protobuf/schema.js'
import { unknownFields } from '../../src/kubernetes/codec/protobuf/unknown-fields.js'
import { readDefinition } from '../../src/kubernetes/dialect/crd.js'
import { parseFieldSelector } from '../../src/kubernetes/dialect/field-selector.js'
import { parseLabelSelector } from '../../src/kubernetes/dialect/label-selector.js'
import { parseProjection } from '../../src/kubernetes/dialect/projection.js'
import { parseShardSelector } from '../../src/kubernetes/dialect/shard-selector.js'
import { parseEncryptionConfiguration } from '../../src/kubernetes/encryption/configuration.js'
import { FieldSet } from '../../src/kubernetes/writes/field-set.js'
import { compilePattern } from '../../src/kubernetes/writes/pattern.js'
import { patched, readPatch } from '../../src/kubernetes/writes/patch.js'
import { readObject } from '../../src/kubernetes/writes/object-body.js'
import { ANY } from '../../src/kubernetes/writes/shape.js'
import { parsePolicy } from '../../src/server/auth/authz/policy.js'
import { loadKubeconfig } from '../../src/server/auth/kubeconfig.js'
import { parseYamlFile } from '../../src/server/config/yaml-file.js'
import { bombs } from './bombs.js'

const schema = kubernetesSchema()

/** Calls `then` with at least a third of the stack in use, far more than our own callers take. */
function deepDown(then: () => void): void {
  const fill = (left: number): void => (left === 0 ? then() : fill(left - 1))
  let frames = 0
  const count = (): void => {
    frames++
    count()
  }
  try {
    count()
  } catch {
    fill(Math.floor(frames / 2.5))
  }
}

/** Returns whether it is accepted. Fails when it runs out of stack. */
function isAccepted(t: Test, name: string, parse: () => unknown): boolean {
  let accepted = false
  deepDown(() => {
    try {
      parse()
      accepted = true
    } catch (error) {
      // Refusals may carry it as their cause.
      for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
        if (/call stack/.test(cause.message)) t.fail(`${name}: ${cause.message}`)
      }
    }
  })
  return accepted
}

const PATCHED = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'b' } }

/** Takes a body through what a write does with it before it is stored, and what reads do with it afterwards. */
function throughBody(contentType: string, body: Buffer): void {
  if (contentType === 'application/cbor') return void cborToJson(body)
  if (contentType.includes('patch')) {
    const patch = readPatch(contentType, body, true)
    if (!contentType.includes('apply')) patched(structuredClone(PATCHED), patch, ANY)
    return
  }
  const { value } = readObject(contentType, body, schema)
  FieldSet.fromJson(value['data'])
  readDefinition(value, '/registry')
  const json = encodeJsonTree(value)
  if (scanObject(json) === null) return
  for (const read of [parseExactJson, indentJson, jsonToYaml]) read(json)
}

void t.test('bombs - bodies of every type', async (t) => {
  const accepted: string[] = []
  for (const { name, contentType, body } of bombs()) {
    if (isAccepted(t, `${contentType}: ${name}`, () => throughBody(contentType, body)))
      accepted.push(`${contentType}: ${name}`)
  }
  for (const name of ['application/json: lists, 510 deep', 'application/yaml: lists, 255 deep']) {
    t.ok(accepted.includes(name), `${name}: the bound itself is within what the stack holds`)
  }
  t.ok(accepted.includes('application/yaml: brackets in a text, 6000 deep'), 'and texts do not count')
  const tooDeep = accepted.filter((name) => /: (lists|maps|flow maps|indentation), (513|6000) deep$/.test(name))
  t.same(tooDeep, [], 'no deeper')
})

const FILES: Readonly<Record<string, (text: string) => unknown>> = {
  'a configuration': (text) => {
    const { problems } = parseYamlFile('config.yaml', text)
    if (problems.length > 0) throw new Error(problems[0])
  },
  'a policy': parsePolicy,
  'an encryption configuration': (text) => parseEncryptionConfiguration(Buffer.from(text)),
  'a kubeconfig': (text) => loadKubeconfig('kubeconfig', () => Buffer.from(text)),
}

for (const [what, parse] of Object.entries(FILES)) {
  void t.test(`bombs - ${what}`, async (t) => {
    for (const { name, body } of bombs()) {
      // A file is read once, and its time may grow in any way.
      if (body.length > 50_000) continue
      t.notOk(
        isAccepted(t, name, () => parse(body.toString('latin1'))) && !/^(nothing|null|empty lines)$/.test(name),
        `${name} is refused`,
      )
    }
  })
}

const TEXTS: Readonly<Record<string, readonly [parse: (text: string) => unknown, pieces: readonly string[]]>> = {
  'a label selector': [parseLabelSelector, ['a in (', '(', ',', '!', 'a=b,']],
  'a field selector': [parseFieldSelector, ['a=', '\\', ',', '(']],
  'a shard selector': [parseShardSelector, ['(', 'shardRange(', '||', '!', '[', 'a.', 'a(']],
  'a projection': [parseProjection, ['a.', '(', '[', 'a(']],
  'a JSONPath': [parseParts, ['{', '[', '[?(', '[?(@.a', '..', '{range ', '[a,', "'"]],
  'a pattern': [compilePattern, ['(', '(?:', '[', '(a{1,9}', 'a|', '(a*)*', '(?i']],
  protobuf: [
    (text) => {
      const bytes = Buffer.from(`k8s\0${text}`, 'latin1')
      for (const read of [
        openStored,
        (value: Buffer) => unknownFields(value, schema),
        (value: Buffer) => decodeObject(value, schema),
      ]) {
        try {
          read(bytes)
        } catch (error) {
          if (!(error instanceof CodecError)) throw error
        }
      }
    },
    ['\x0a', '\x0b', '\x12\xff\xff\xff\x7f', '\x1b'],
  ],
}

for (const [what, [parse, pieces]] of Object.entries(TEXTS)) {
  void t.test(`bombs - ${what}`, async (t) => {
    for (const piece of pieces) {
      for (const times of [100, 600, 4_000]) {
        isAccepted(t, `${JSON.stringify(piece)} × ${times}`, () => parse(piece.repeat(times)))
        isAccepted(t, `${times} × ${JSON.stringify(piece)}, closed`, () =>
          parse(`${piece.repeat(times)}a${')'.repeat(times)}`),
        )
      }
    }
    t.pass('none runs out of stack')
  })
}
