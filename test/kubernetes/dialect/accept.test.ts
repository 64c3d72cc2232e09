import t from 'tap'

import {
  type Negotiated,
  type Servable,
  isPretty,
  negotiate,
  negotiateDiscovery,
  negotiateOpenApi,
  negotiateStatus,
} from '../../../src/kubernetes/dialect/accept.js'

const table = 'as=Table;v=v1;g=meta.k8s.io'
const partial = 'as=PartialObjectMetadata;v=v1;g=meta.k8s.io'
const partialList = 'as=PartialObjectMetadataList;v=v1;g=meta.k8s.io'
const protobuf = 'application/vnd.kubernetes.protobuf'

function brief({ encoding, transform, stream }: Negotiated): string {
  return [encoding, transform, stream].filter((word) => word !== 'none').join(' ')
}

void t.test('get and list answer in the form of the best clause that can be honoured', async (t) => {
  const cases: [string | undefined, 'get' | 'list', string][] = [
    [undefined, 'list', 'json'],
    ['', 'list', 'json'],
    ['*/*', 'list', 'json'],
    ['application/*', 'list', 'json'],
    ['application/json', 'get', 'json'],
    ['Application/JSON; charset=utf-8', 'get', 'json'],
    ['application/json;stream=watch', 'list', 'json'],
    ['application/yaml', 'list', 'yaml'],
    [protobuf, 'get', 'protobuf'],
    [`${protobuf}, */*`, 'list', 'protobuf'],
    ['application/json;q=0.5, application/yaml', 'list', 'yaml'],
    ['application/json;q=0.5, application/yaml;q=0.4', 'list', 'json'],
    ['*/*, application/yaml', 'list', 'yaml'],
    ['*/*;q=1, application/*;q=0.9', 'list', 'json'],
    ['application/json;q=0, */*', 'list', 'yaml'],
    ['application/json;q=nonsense', 'list', 'json'],
    ['text/html, application/yaml;q=0.1', 'list', 'yaml'],
    ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', 'list', 'json'],
    ['text/event-stream, application/json', 'list', 'json'],
    [`application/json;${table}`, 'list', 'json table'],
    [`application/json;${table}`, 'get', 'json table'],
    [`application/yaml;${table}`, 'get', 'yaml table'],
    [`application/json;as="Table";v="v1";g="meta.k8s.io"`, 'get', 'json table'],
    [`${protobuf};${table},application/json`, 'list', 'json'],
    ['application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json', 'list', 'json table'],
    ['application/json;as=Table;v=v2;g=meta.k8s.io,application/json', 'list', 'json'],
    [
      `application/json;${table},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json`,
      'list',
      'json table',
    ],
    [`application/json;${partialList}`, 'list', 'json partial'],
    [`application/json;${partial}`, 'get', 'json partial'],
    [`application/json;${partial},application/yaml`, 'list', 'yaml'],
    [`application/json;${partialList},application/yaml`, 'get', 'yaml'],
    [`${protobuf};${partial},application/json;${partial},application/json`, 'get', 'protobuf partial'],
    ['application/json;as=Nonsense;v=v1;g=meta.k8s.io, application/yaml', 'list', 'yaml'],
    ['application/json;as=Table, application/yaml', 'list', 'yaml'],
    ['application/json;stream=other, application/yaml', 'list', 'yaml'],
    [',,;;,application/yaml', 'list', 'yaml'],
  ]
  for (const [accept, verb, expected] of cases) t.equal(brief(negotiate(accept, verb)), expected, `${verb} ${accept}`)
})

void t.test('a watch is sent as lines of JSON, frames of protobuf, or server-sent events', async (t) => {
  const cases: [string | undefined, string, string][] = [
    [undefined, 'json json-lines', 'application/json'],
    ['application/json', 'json json-lines', 'application/json'],
    ['application/json;stream=watch', 'json json-lines', 'application/json'],
    [`${protobuf};stream=watch`, 'protobuf protobuf-frames', `${protobuf};stream=watch`],
    [`${protobuf},application/json`, 'protobuf protobuf-frames', `${protobuf};stream=watch`],
    ['text/event-stream', 'json sse', 'text/event-stream'],
    ['text/event-stream, */*', 'json sse', 'text/event-stream'],
    ['text/*', 'json sse', 'text/event-stream'],
    ['application/yaml, application/json', 'json json-lines', 'application/json'],
    [`application/json;${table}`, 'json table json-lines', 'application/json'],
    [`text/event-stream;${table}`, 'json table sse', 'text/event-stream'],
    [`application/json;${partial}`, 'json partial json-lines', 'application/json'],
  ]
  for (const [accept, expected, contentType] of cases) {
    const negotiated = negotiate(accept, 'watch')
    t.equal(brief(negotiated), expected, String(accept))
    t.equal(negotiated.contentType, contentType)
  }
})

void t.test('an unavailable form gets a 406 that lists the available ones', async (t) => {
  const cases: [string, 'get' | 'list' | 'watch', Servable, string][] = [
    ['text/html', 'list', {}, `application/json, application/yaml, ${protobuf}`],
    ['text/event-stream', 'get', {}, `application/json, application/yaml, ${protobuf}`],
    ['nonsense', 'list', {}, `application/json, application/yaml, ${protobuf}`],
    [protobuf, 'list', { protobufObjects: false }, `application/json, application/yaml, ${protobuf}`],
    ['*/*;q=0', 'list', {}, `application/json, application/yaml, ${protobuf}`],
    ['application/yaml', 'watch', {}, `application/json;stream=watch, ${protobuf};stream=watch`],
    [protobuf, 'watch', { protobufObjects: false }, `application/json;stream=watch, ${protobuf};stream=watch`],
    [`application/json;${partialList}`, 'watch', {}, `application/json;stream=watch, ${protobuf};stream=watch`],
    [`${protobuf};${table}`, 'get', {}, `application/json, application/yaml, ${protobuf}`],
  ]
  for (const [accept, verb, servable, list] of cases) {
    const message = `only the following media types are accepted: ${list}`
    t.throws(
      () => negotiate(accept, verb, servable),
      { code: 406, reason: 'NotAcceptable', message },
      `${verb} ${accept}`,
    )
  }
  t.throws(() => negotiate('a'.repeat(8_193), 'get'), { code: 400, name: 'BadRequestError' })
})

void t.test(
  'clauses for protobuf are skipped for objects without it but not for their metadata; for a document they always are',
  async (t) => {
    const accept = `${protobuf};${partial},application/json;${partial},${protobuf},application/json`
    t.equal(brief(negotiate(accept, 'get', { protobufObjects: false })), 'protobuf partial')
    t.equal(brief(negotiate(accept, 'get', { hasObjects: false, protobufObjects: false })), 'json')
    t.equal(brief(negotiate(`${protobuf}, */*`, 'get', { protobufObjects: false })), 'json')
  },
)

void t.test('a transform is served in the requested version', async (t) => {
  for (const version of ['v1', 'v1beta1']) {
    for (const kind of ['Table', 'PartialObjectMetadata']) {
      const { metaVersion, transform } = negotiate(`application/json;as=${kind};g=meta.k8s.io;v=${version}`, 'get')
      t.equal(metaVersion, `meta.k8s.io/${version}`)
      t.not(transform, 'none')
    }
  }
  t.throws(() => negotiate('application/json;as=Table;g=meta.k8s.io;v=v2', 'get'), { code: 406 })
})

void t.test('a header of many clauses is read up to a length limit', async (t) => {
  t.equal(brief(negotiate(`${'a/b;q="\\"",'.repeat(680)}*/*`, 'list')), 'json')
  t.equal(brief(negotiate(`${';'.repeat(8_000)},*/*`, 'list')), 'json')
  t.throws(() => negotiate(`${'a/b;q="\\"",'.repeat(6_800)}*/*`, 'list'), { code: 400 })
})

void t.test('errors are encoded as requested, otherwise as JSON', async (t) => {
  const cases: [string | undefined, string][] = [
    [undefined, 'json'],
    ['application/yaml', 'yaml'],
    [protobuf, 'protobuf'],
    [`application/json;${table}`, 'json'],
    ['text/html', 'json'],
    ['x'.repeat(10_000), 'json'],
  ]
  for (const [accept, expected] of cases) t.equal(negotiateStatus(accept), expected, String(accept).slice(0, 40))
})

void t.test('discovery is aggregated when requested as v2', async (t) => {
  const v2 = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'
  const beta = 'application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList'
  t.match(negotiateDiscovery(`${v2},${beta},application/json`), { aggregated: true, contentType: v2 })
  t.match(negotiateDiscovery(`${beta},application/json`), { aggregated: false, contentType: 'application/json' })
  t.match(negotiateDiscovery(undefined), { aggregated: false, encoding: 'json' })
  t.match(negotiateDiscovery(`${protobuf}, */*`), { encoding: 'protobuf', aggregated: false })
  t.match(negotiateDiscovery('application/yaml'), { encoding: 'yaml', aggregated: false })
  for (const type of ['application/yaml', protobuf]) {
    const aggregated = v2.replace('application/json', type)
    t.match(negotiateDiscovery(aggregated), { aggregated: true, contentType: aggregated })
  }
  const message =
    'only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf'
  t.throws(() => negotiateDiscovery(beta), { code: 406, name: 'NotAcceptableError', message })
})

void t.test('OpenAPI is sent as protobuf under both of its names, otherwise as JSON', async (t) => {
  for (const edition of ['v2', 'v3'] as const) {
    for (const separator of ['@', '.']) {
      const name = `application/com.github.proto-openapi.spec.${edition}${separator}v1.0+protobuf`
      t.strictSame(negotiateOpenApi(name, edition), {
        encoding: 'protobuf',
        // client-go requests it with `@` and cannot parse a response with it.
        contentType: `application/com.github.proto-openapi.spec.${edition}.v1.0+protobuf`,
      })
    }
    t.strictSame(negotiateOpenApi('*/*', edition), { encoding: 'json', contentType: 'application/json' })
    t.strictSame(negotiateOpenApi(undefined, edition), { encoding: 'json', contentType: 'application/json' })
    t.throws(() => negotiateOpenApi('application/yaml', edition), { code: 406, name: 'NotAcceptableError' })
  }
})

void t.test('answers are indented for people, but never in a watch', async (t) => {
  const list = negotiate('*/*', 'list')
  const cases: [Negotiated, string, string | undefined, boolean][] = [
    [list, '', undefined, false],
    [list, '', 'kubectl/v1.32', false],
    [list, '', 'curl/8.1', true],
    [list, '', 'Wget/1.21', true],
    [list, '', 'Mozilla/5.0 (X11)', true],
    [list, 'pretty=true', 'kubectl/v1.32', true],
    [list, 'pretty=1', undefined, true],
    [list, 'pretty=false', 'curl/8.1', false],
    [list, 'pretty=nonsense', 'curl/8.1', false],
    [list, 'pretty=', 'curl/8.1', true],
    [negotiate('application/json;pretty=1', 'get'), '', undefined, true],
    [negotiate('application/yaml', 'get'), 'pretty=1', 'curl/8.1', false],
    [negotiate('*/*', 'watch'), 'pretty=1', 'curl/8.1', false],
  ]
  for (const [negotiated, query, userAgent, expected] of cases) {
    const name = `${negotiated.contentType} ${negotiated.stream} ${query} ${userAgent}`
    t.equal(isPretty(negotiated, new URLSearchParams(query), userAgent), expected, name)
  }
})
