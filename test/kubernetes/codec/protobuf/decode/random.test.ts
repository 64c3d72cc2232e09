import t from 'tap'

import { CodecError } from '../../../../../src/kubernetes/codec/protobuf/codec-error.js'
import { decodeObject } from '../../../../../src/kubernetes/codec/protobuf/decode.js'
import { kubernetesSchema } from '../../../../../src/kubernetes/codec/protobuf/schema.js'
import { readPackageFile } from '../../../../../src/support/package-file.js'
import { kindsIn } from '../schema/history.js'
import { sampleObject, seededRandom, sortMembers } from '../../../../support/protobuf-sample.js'

const schema = kubernetesSchema()
const kinds = kindsIn(readPackageFile('src/kubernetes/codec/protobuf/kubernetes-schema.txt').toString())
const SAMPLES_PER_KIND = 8

void t.test('random objects of every kind decode as a plain reading of the schema says', (t) => {
  t.ok(kinds.length > 240, `${kinds.length} kinds`)
  for (const [index, [apiVersion, kind]] of kinds.entries()) {
    for (let sample = 0; sample < SAMPLES_PER_KIND; sample++) {
      const seed = index * 1000 + sample
      const { bytes, json } = sampleObject(schema, apiVersion, kind, seededRandom(seed))
      const decoded = decodeObject(bytes, schema, { keepResourceVersion: true, withoutDefaults: true })
      const got = sortMembers(decoded.bytes.toString())
      if (got !== json || decoded.unknownFields !== 0) t.equal(got, json, `${apiVersion} ${kind}, seed ${seed}`)
    }
  }
  t.end()
})

void t.test('damaged objects end in a CodecError or in JSON', (t) => {
  const random = seededRandom(20)
  let refused = 0
  for (let round = 0; round < 6_000; round++) {
    const [apiVersion, kind] = kinds[Math.floor(random() * kinds.length)]!
    const bytes = Buffer.from(sampleObject(schema, apiVersion, kind, seededRandom(round)).bytes)
    for (let hits = 1 + Math.floor(random() * 4); hits > 0; hits--) {
      bytes[4 + Math.floor(random() * (bytes.length - 4))] = Math.floor(random() * 256)
    }
    try {
      JSON.parse(decodeObject(bytes, schema).bytes.toString())
    } catch (error) {
      if (!(error instanceof CodecError)) {
        t.fail(`round ${round}: ${String(error)}`)
        break
      }
      refused++
    }
  }
  t.ok(refused > 500, `${refused} were refused`)
  t.end()
})
