import { create, toBinary } from '@bufbuild/protobuf'
import {
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
  FileDescriptorSetSchema,
} from '@bufbuild/protobuf/wkt'
import t from 'tap'

import { CodecError } from '../../../../src/kubernetes/codec/protobuf/codec-error.js'
import { decodeObject } from '../../../../src/kubernetes/codec/protobuf/decode.js'
import { loadDescriptors } from '../../../../src/kubernetes/codec/protobuf/descriptors.js'
import { isPackageOf, kubernetesSchema, Schema } from '../../../../src/kubernetes/codec/protobuf/schema.js'
import { apiTestData, kubernetesDescriptors } from '../../../support/protobuf-data.js'
import { lengthDelimited, varint } from '../../../support/protobuf-sample.js'

const META = 'k8s.io.apimachinery.pkg.apis.meta.v1'

const field = (
  number: number,
  name: string,
  type: Type,
  options: { typeName?: string; isRepeated?: boolean; jsonName?: string } = {},
): object => ({
  number,
  name,
  type,
  label: options.isRepeated === true ? Label.REPEATED : Label.OPTIONAL,
  typeName: options.typeName ?? '',
  jsonName: options.jsonName ?? '',
})

function ownDescriptors(packageName: string): Buffer {
  const set = create(FileDescriptorSetSchema, {
    file: [
      {
        name: 'cache.proto',
        package: packageName,
        enumType: [
          {
            name: 'Mode',
            value: [
              { name: 'Cold', number: 0 },
              { name: 'Hot', number: 1 },
            ],
          },
        ],
        messageType: [
          {
            name: 'Cache',
            field: [
              field(1, 'metadata', Type.MESSAGE, { typeName: `.${META}.ObjectMeta` }),
              field(2, 'max_size', Type.INT64),
              field(3, 'mode', Type.ENUM, { typeName: `.${packageName}.Mode` }),
              field(4, 'weights', Type.SINT32, { isRepeated: true }),
              field(5, 'by_number', Type.MESSAGE, {
                typeName: `.${packageName}.Cache.ByNumberEntry`,
                isRepeated: true,
              }),
              field(6, 'expires', Type.MESSAGE, { typeName: `.${META}.Time` }),
              field(7, 'note', Type.STRING, { jsonName: 'remark' }),
              field(8, 'ratio', Type.FLOAT),
              field(9, 'hash', Type.FIXED64),
            ],
            nestedType: [
              {
                name: 'ByNumberEntry',
                options: { mapEntry: true },
                field: [field(1, 'key', Type.INT32), field(2, 'value', Type.STRING)],
              },
            ],
          },
        ],
      },
    ],
  } as unknown as Parameters<typeof create<typeof FileDescriptorSetSchema>>[1])
  return Buffer.from(toBinary(FileDescriptorSetSchema, set))
}

function cacheValue(): Buffer {
  const entry = (key: bigint, value: string): Buffer =>
    lengthDelimited(
      5,
      Buffer.concat([Buffer.from([0x08]), varint(BigInt.asUintN(64, key)), lengthDelimited(2, Buffer.from(value))]),
    )
  const float = Buffer.alloc(5)
  float[0] = 0x45
  float.writeFloatLE(0.1, 1)
  const raw = Buffer.concat([
    lengthDelimited(1, lengthDelimited(1, Buffer.from('c'))),
    Buffer.concat([Buffer.from([0x10]), varint(9_007_199_254_740_993n)]),
    Buffer.from([0x18, 1]),
    lengthDelimited(4, Buffer.from([1, 2, 3])), // packed: -1, 1, -2
    Buffer.from([0x20, 4]), // and one that is not: 2
    entry(10n, 'ten'),
    entry(-1n, 'minus one'),
    lengthDelimited(6, Buffer.from([0x08, 0x00])),
    lengthDelimited(7, Buffer.from('n')),
    float,
    Buffer.concat([Buffer.from([0x49]), Buffer.alloc(8, 0xff)]),
  ])
  const typeMeta = Buffer.concat([
    lengthDelimited(1, Buffer.from('edge.example.com/v1')),
    lengthDelimited(2, Buffer.from('Cache')),
  ])
  return Buffer.concat([Buffer.from('k8s\0', 'latin1'), lengthDelimited(1, typeMeta), lengthDelimited(2, raw)])
}

const CACHE_JSON =
  '{"kind":"Cache","apiVersion":"edge.example.com/v1","metadata":{"name":"c"},' +
  '"maxSize":9007199254740993,"mode":"Hot","weights":[-1,1,-2,2],"byNumber":{"-1":"minus one","10":"ten"},' +
  '"expires":"1970-01-01T00:00:00Z","remark":"n","ratio":0.1,"hash":18446744073709551615}'

void t.test('custom kinds have JSON for every protobuf type', (t) => {
  const schema = loadDescriptors(ownDescriptors('edge.example.com.v1'), kubernetesSchema())
  t.equal(decodeObject(cacheValue(), schema).bytes.toString(), CACHE_JSON)
  t.throws(
    () => decodeObject(cacheValue(), kubernetesSchema()),
    { code: 'unknown-kind' },
    'the base schema is as it was',
  )
  t.end()
})

void t.test('a package that follows no convention needs a list of its kinds', (t) => {
  const bytes = ownDescriptors('acme.storage')
  t.throws(() => decodeObject(cacheValue(), loadDescriptors(bytes, kubernetesSchema())), { code: 'unknown-kind' })
  const kinds = new Map([['edge.example.com/v1/Cache', 'acme.storage.Cache']])
  const schema = loadDescriptors(bytes, kubernetesSchema(), kinds)
  t.equal(decodeObject(cacheValue(), schema).bytes.toString(), CACHE_JSON)
  const wrong = new Map([['edge.example.com/v1/Cache', 'acme.storage.Nothing']])
  t.throws(() => loadDescriptors(bytes, kubernetesSchema(), wrong), CodecError)
  t.end()
})

void t.test('an apiVersion is derived from the name of its package', (t) => {
  for (const [packageName, apiVersion, expected] of [
    ['edge.example.com.v1', 'edge.example.com/v1', true],
    ['com.example.edge.v1', 'edge.example.com/v1', true],
    ['k8s.io.api.rbac.v1', 'rbac.authorization.k8s.io/v1', true],
    ['k8s.io.api.core.v1', 'v1', true],
    ['my_group.v1', 'my-group/v1', true],
    ['edge.example.com.v1', 'edge.example.com/v2', false],
    ['knowledge.v1', 'edge.example.com/v1', false],
    ['k8s.io.api.apps.v1', 'v1', false],
    ['v1', 'v1', false],
  ] as const) {
    t.equal(isPackageOf(packageName, apiVersion), expected, `${packageName} for ${apiVersion}`)
  }
  t.end()
})

void t.test('descriptors of Kubernetes itself change nothing that the table has', (t) => {
  const schema = loadDescriptors(kubernetesDescriptors(), kubernetesSchema())
  for (const { name, protobuf, json } of apiTestData('head')) {
    const options = {
      keepResourceVersion: true,
      defaultKind: { apiVersion: 'v1', kind: 'WatchEvent' },
      withoutDefaults: true,
    }
    t.same(JSON.parse(decodeObject(protobuf, schema, options).bytes.toString()), json, name)
  }
  t.end()
})

void t.test('a field the table does not have yet is read by the descriptors', (t) => {
  const old = Schema.parse(
    `@ ${META} meta.k8s.io/v1\nObjectMeta name?:1:string\n` +
      `@ k8s.io.api.core.v1 v1\nConfigMap* metadata?:1:${META}/ObjectMeta`,
  )
  const { protobuf, json } = apiTestData('head').find(({ name }) => name === 'core.v1.ConfigMap')!
  t.ok(decodeObject(protobuf, old).unknownFields > 3)
  const decoded = decodeObject(protobuf, loadDescriptors(kubernetesDescriptors(), old))
  t.equal(decoded.unknownFields, 0)
  t.match(JSON.parse(decoded.bytes.toString()), { data: json['data'], binaryData: json['binaryData'], immutable: true })
  t.end()
})

void t.test('a file that is not a descriptor set is reported as such', (t) => {
  for (const bytes of [Buffer.from('syntax = "proto3";'), Buffer.alloc(0), kubernetesDescriptors().subarray(0, 1000)]) {
    t.throws(() => loadDescriptors(bytes, kubernetesSchema()), { name: 'CodecError', code: 'malformed' })
  }
  t.end()
})
