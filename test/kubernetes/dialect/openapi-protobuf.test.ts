/** Go's encoding of the same document is compared in `npm run judge -- reference`. */
import t from 'tap'
import { openApiProtobuf } from '../../../src/kubernetes/dialect/openapi-protobuf.js'
import { parseLossless } from '../../reference/lossless.js'
import { decodeOpenApi } from '../../reference/openapi.js'

const schema = {
  type: 'object',
  description: 'ü',
  required: ['a', 'b'],
  properties: {
    a: { type: 'integer', format: 'int64', minimum: 1.5, maximum: -2, default: 7, maxLength: 300, nullable: true },
    b: { type: 'array', items: { $ref: '#/components/schemas/Other' }, 'x-kubernetes-list-type': 'set' },
    c: { type: 'object', additionalProperties: { type: 'string', default: 'x', enum: ['x', 'y'] } },
    d: { type: 'object', additionalProperties: true, allOf: [{ required: ['e'] }], not: { required: ['f'] } },
    g: { default: true, oneOf: [{ type: 'string' }], anyOf: [{ type: 'integer' }], pattern: '^a$' },
  },
  'x-kubernetes-group-version-kind': [{ group: 'g', kind: 'K', version: 'v1' }],
}

const path = {
  get: {
    'x-kubernetes-action': 'get',
    responses: { 200: { description: 'OK', content: { 'application/json': { schema } } } },
  },
  patch: {
    parameters: [{ name: 'dryRun', in: 'query', schema: { type: 'string', uniqueItems: true } }],
    requestBody: { content: { 'application/merge-patch+json': { schema: { $ref: '#/components/schemas/K' } } } },
    responses: {},
  },
  parameters: [{ name: 'name', in: 'path', required: true, schema: { type: 'string' } }],
}

void t.test('a document in protobuf has the same content as in JSON', async (t) => {
  const document = {
    openapi: '3.0.0',
    info: { title: 'distributary', version: 'v1' },
    paths: { '/apis/g/v1/ks': path },
    components: { schemas: { K: schema } },
  }
  t.same(decodeOpenApi(openApiProtobuf('v3', document)), parseLossless(JSON.stringify(document)))
})

void t.test('fields that the message does not have are dropped', async (t) => {
  const document = (one: object): object => ({ components: { schemas: { K: one } } })
  const told = decodeOpenApi(
    openApiProtobuf('v3', document({ minimum: 0, nullable: false, default: [1], title: '', example: 1 })),
  )
  t.same(told, document({ default: {}, title: '' }))
})
