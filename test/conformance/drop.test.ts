/**
 * `drop=metadata.managedFields` in Accept leaves out that field and nothing else: each answer is compared, byte for
 * byte, with the answer without the parameter. The objects are a real API server's own.
 */
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { rawOf, openEnvelope } from '../../src/kubernetes/codec/protobuf/envelope.js'
import { LENGTH, WireReader } from '../../src/kubernetes/codec/protobuf/wire.js'
import { apiServer120 } from '../support/protobuf-data.js'
import { until } from '../support/until.js'
import { startApp } from '../support/app.js'
import { type World, ask, overEveryUpstream } from './world.js'

const { stored, answers } = apiServer120()
const DROP = ';drop=metadata.managedFields'
const PROTOBUF = 'application/vnd.kubernetes.protobuf'
const TABLE = ';as=Table;v=v1;g=meta.k8s.io'
const partial = (kind: string): string => `;as=${kind};v=v1;g=meta.k8s.io`

/** Cuts every managedFields member out of JSON text, with the comma beside it. */
function withoutMember(text: string): string {
  const name = '"managedFields":'
  let rest = text
  for (let at = rest.indexOf(name); at !== -1; at = rest.indexOf(name)) {
    let end = at + name.length
    let depth = 0
    let isText = false
    do {
      const char = rest[end++]
      if (isText && char === '\\') end++
      else if (char === '"') isText = !isText
      else if (!isText && (char === '[' || char === '{')) depth++
      else if (!isText && (char === ']' || char === '}')) depth--
    } while (depth > 0)
    const isLast = rest[end] !== ','
    rest = rest.slice(0, isLast && rest[at - 1] === ',' ? at - 1 : at) + rest.slice(isLast ? end : end + 1)
  }
  return rest
}

/** Cuts every managedFields block out of YAML: its line, and those that belong to it. */
function withoutBlock(text: string): string {
  const kept: string[] = []
  let indent = -1
  for (const line of text.split('\n')) {
    const depth = line.search(/[^ ]/)
    if (indent >= 0 && (depth > indent || (depth === indent && line[depth] === '-'))) continue
    indent = line.slice(depth).startsWith('managedFields:') ? depth : -1
    if (indent < 0) kept.push(line)
  }
  return kept.join('\n')
}

/** The fields of a message, whole: tag, length and content. */
function fieldsOf(message: Buffer): readonly { number: number; whole: Buffer; content: Buffer }[] {
  const reader = new WireReader()
  reader.bytes = message
  const fields = []
  while (reader.pos < message.length) {
    const start = reader.pos
    const tag = reader.readTag(message.length)
    const valueAt = reader.pos
    reader.skip(tag & 7, message.length)
    const whole = message.subarray(start, reader.pos)
    if ((tag & 7) === LENGTH) {
      const inner = new WireReader()
      inner.bytes = message
      inner.pos = valueAt
      inner.readLength(message.length)
      fields.push({ number: tag >>> 3, whole, content: message.subarray(inner.pos, reader.pos) })
    } else fields.push({ number: tag >>> 3, whole, content: Buffer.alloc(0) })
  }
  return fields
}

/** The object's fields besides metadata, and metadata's besides managedFields (17). */
function restOf(message: Buffer): { readonly rest: readonly string[]; readonly managed: number } {
  const hex = (bytes: Buffer): string => bytes.toString('hex')
  const metadata = fieldsOf(message).filter(({ number }) => number === 1)
  const members = metadata.flatMap(({ content }) => fieldsOf(content))
  return {
    rest: [
      ...fieldsOf(message).map(({ number, whole }) => (number === 1 ? 'metadata' : hex(whole))),
      ...members.filter(({ number }) => number !== 17).map(({ whole }) => hex(whole)),
    ],
    managed: members.filter(({ number }) => number === 17).length,
  }
}

async function ready(w: World): Promise<void> {
  await until(async () => (await w.ask('/apis/edge.example.com/v1/caches')).code === 200, 'the definition is read')
}

const SEEDS = { seeds: stored.map(({ key, value }) => ({ [key]: value })) }
/** One object of each list, by the list; versions of that time are not served today. */
const objects = new Map(
  [...answers.values()]
    .filter(({ path }) => !path.includes('/v1beta1/'))
    .map(({ path }) => [path.slice(0, path.lastIndexOf('/')), path]),
)

async function sameButText(
  t: Test,
  w: World,
  path: string,
  type: string,
  without: (text: string) => string,
): Promise<number> {
  const whole = await w.ask(path, { headers: { accept: type } })
  const dropped = await w.ask(path, { headers: { accept: type + DROP } })
  const what = `${path} as ${type}`
  t.equal(dropped.code, 200, what)
  t.equal(dropped.headers['content-type'], whole.headers['content-type'], `the type of ${what}`)
  t.match(dropped.headers.vary ?? 'Accept', /^Accept/, `Vary of ${what}`)
  // Ages are those of the moment, and each stream has its own delay.
  const still = (text: string): string => {
    if (type.includes('Table')) return text.replaceAll(/"cells":\[[^\]]*\]/g, '').replaceAll(/cells:\n( *- .*\n)+/g, '')
    return text.replace(/^retry: \d+\n/, '')
  }
  t.equal(still(dropped.text), still(without(whole.text)), what)
  const isManaged = whole.text.includes('managedFields')
  if (isManaged && whole.headers.etag !== undefined) t.not(dropped.headers.etag, whole.headers.etag, `ETag of ${what}`)
  return Number(isManaged)
}

overEveryUpstream(t, 'gets and lists without managedFields', SEEDS, async (t, w) => {
  await ready(w)
  let managed = 0
  for (const path of objects.values()) {
    for (const type of ['application/json', `application/json${partial('PartialObjectMetadata')}`])
      managed += await sameButText(t, w, path, type, withoutMember)
    managed += await sameButText(t, w, path, 'application/yaml', withoutBlock)
    for (const include of ['None', 'Metadata', 'Object'])
      managed += await sameButText(t, w, `${path}?includeObject=${include}`, `application/json${TABLE}`, withoutMember)
    for (const type of [PROTOBUF, PROTOBUF + partial('PartialObjectMetadata')]) {
      const whole = await w.ask(path, { headers: { accept: type } })
      const dropped = await w.ask(path, { headers: { accept: type + DROP } })
      t.equal(dropped.code, whole.code, `${path} as ${type}`)
      if (whole.code === 406) continue
      const [before, after] = [whole, dropped].map(({ body }) => restOf(rawOf(openEnvelope(body))))
      t.same(after, { ...before, managed: 0 }, `${path} as ${type}`)
      managed += before!.managed
    }
  }
  t.ok(managed > 100, `${managed} answers had the field`)
  for (const path of objects.keys()) {
    await sameButText(t, w, path, 'application/json', withoutMember)
    await sameButText(t, w, path, `application/json${partial('PartialObjectMetadataList')}`, withoutMember)
    await sameButText(t, w, path, 'application/yaml', withoutBlock)
    await sameButText(t, w, `${path}?includeObject=Object`, `application/yaml${TABLE}`, withoutBlock)
    for (const type of [PROTOBUF, PROTOBUF + partial('PartialObjectMetadataList')]) {
      const [whole, dropped] = await Promise.all(
        [type, type + DROP].map((accept) => w.ask(path, { headers: { accept } })),
      )
      t.equal(dropped!.code, whole!.code, `${path} as ${type}`)
      if (whole!.code === 406) continue
      const [before, after] = [whole!, dropped!].map(({ body }) => fieldsOf(rawOf(openEnvelope(body))))
      t.equal(after!.length, before!.length, `${path} as ${type}`)
      for (const [i, { number, content, whole: field }] of before!.entries()) {
        if (number === 1) t.same(after![i]!.whole, field, `the metadata of ${path}`)
        else t.same(restOf(after![i]!.content), { ...restOf(content), managed: 0 }, `item ${i} of ${path} as ${type}`)
      }
    }
  }
})

const deployment = stored.find(({ key }) => key === '/registry/deployments/team-a/web')!
const custom = stored.find(({ key }) => key.startsWith('/registry/edge.example.com/caches/'))!
const STREAMED = [
  { path: '/apis/apps/v1/deployments', of: deployment, hasProtobuf: true },
  { path: '/apis/edge.example.com/v1/caches', of: custom, hasProtobuf: false },
]

overEveryUpstream(t, 'watches without managedFields', SEEDS, async (t, w) => {
  await ready(w)
  const state = 'watch=1&timeoutSeconds=1&resourceVersion='
  for (const { path, hasProtobuf } of STREAMED) {
    const watch = `${path}?${state}`
    await Promise.all([
      sameButText(t, w, watch, 'application/json', withoutMember),
      sameButText(t, w, watch, `application/json${partial('PartialObjectMetadata')}`, withoutMember),
      sameButText(t, w, `${watch}&includeObject=Object`, `application/json${TABLE}`, withoutMember),
      sameButText(t, w, watch, 'text/event-stream', withoutMember),
    ])
    if (!hasProtobuf) continue
    const frames = await Promise.all(
      ['', DROP].map(async (drop) => {
        const { body } = await w.ask(watch, { headers: { accept: `${PROTOBUF};stream=watch${drop}` } })
        const events: Buffer[] = []
        for (let at = 0; at < body.length; at += 4 + body.readUInt32BE(at))
          events.push(body.subarray(at + 4, at + 4 + body.readUInt32BE(at)))
        return events.map((event) => {
          const [extension] = fieldsOf(event).filter(({ number }) => number === 2)
          return restOf(rawOf(openEnvelope(fieldsOf(extension!.content)[0]!.content)))
        })
      }),
    )
    t.ok(frames[0]!.length > 0 && frames[0]!.every(({ managed }) => managed > 0))
    t.same(
      frames[1],
      frames[0]!.map((one) => ({ ...one, managed: 0 })),
      path,
    )
  }
})

overEveryUpstream(
  t,
  'polls and WebSockets without managedFields, beside others that have them',
  { ...SEEDS, uncached: false },
  async (t, w) => {
    await ready(w)
    for (const { path, of } of STREAMED) {
      const [wholeSocket, droppedSocket] = ['', DROP].map((drop) => {
        const url = `${w.url.replace('http:', 'ws:')}${path}?watch=1&resourceVersion=`
        const socket = new WebSocket(url, { headers: { accept: `application/json${drop}` } })
        const messages: string[] = []
        socket.on('message', (data: Buffer) => void messages.push(data.toString()))
        t.teardown(() => socket.terminate())
        return messages
      })
      await until(() => [wholeSocket, droppedSocket].every((one) => one!.length > 0), 'both have the initial state')
      const list = await w.ask(`${path}?history=`)
      const position = list.headers['x-distributary-position'] as string
      const seen = wholeSocket!.length
      await w.write({ [of.key]: of.value })
      await until(() => [wholeSocket, droppedSocket].every((one) => one!.length > seen), 'both have the event')
      t.same(droppedSocket, wholeSocket!.map(withoutMember), `the messages of ${path}`)
      const poll = `${path}?watch=1&wait=5s&resourceVersion=${position.split('.')[0]}&history=${position}`
      t.equal(await sameButText(t, w, poll, 'application/json', withoutMember), 1, 'the event had the field')
    }
  },
)

overEveryUpstream(t, 'which clause drops', SEEDS, async (t, w) => {
  await ready(w)
  const path = '/apis/apps/v1/namespaces/team-a/deployments/web'
  const cases: readonly (readonly [accept: string, drops: boolean])[] = [
    [`application/json${DROP}`, true],
    ['application/json;drop="metadata.managedFields"', true],
    ['application/json;drop=metadata.annotations+metadata.managedFields+spec', true],
    ['application/json;drop=metadata.managedFields+metadata.managedFields', true],
    [`*/*${DROP}`, true],
    ['application/json;drop=metadata.managedFields;pretty=1', true],
    [`${PROTOBUF};as=Table;v=v1;g=meta.k8s.io,application/json${DROP}`, true],
    [`text/csv${DROP},application/json`, false],
    ['application/json;drop=', false],
    ['application/json;drop=metadata.annotations', false],
    ['application/json;drop=metadata.ManagedFields', false],
    [`application/json,application/json${DROP};q=0.9`, false],
  ]
  for (const [accept, drops] of cases) {
    const { text, headers, code } = await w.ask(path, { headers: { accept } })
    t.equal(code, 200, accept)
    t.equal(!text.includes('managedFields'), drops, accept)
    t.equal(headers['content-type'], 'application/json', 'the type of the answer does not repeat the parameter')
  }
})

void t.test('responses to writes lose it as well, and stored objects keep it', async (t) => {
  const { url } = await startApp(t, { flags: ['--enable-writes'] })
  const path = `${url}/api/v1/namespaces/default/configmaps`
  const body = (name: string): string =>
    JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: 'default' }, data: { a: '1' } })
  const write = async (name: string, accept: string, query = ''): Promise<string> => {
    const headers = { accept, 'content-type': 'application/json' }
    const { code, text } = await ask(path + query, { method: 'POST', headers, body: body(name) })
    t.equal(code, 201, `${name} ${accept}`)
    return text
  }
  for (const [i, type] of ['application/json', 'application/yaml', PROTOBUF].entries()) {
    for (const [query, name] of [
      ['', `stored-${i}`],
      ['?dryRun=All', `dry-${i}`],
    ] as const) {
      t.match(await write(`${name}-whole`, type, query), /f:data/, `${type} ${query} has the field`)
      const dropped = await write(name, type + DROP, query)
      t.notMatch(dropped, /f:data/, `${type} ${query}`)
      t.match(dropped, name)
    }
    t.match((await ask(`${path}/stored-${i}`)).text, /managedFields/)
  }
  const options = { method: 'DELETE', headers: { accept: PROTOBUF + DROP } }
  const deleted = await ask(`${path}/stored-0`, options)
  t.equal(deleted.code, 200)
  t.match(openEnvelope(deleted.body), { kind: 'Status' }, 'a Status has no such field')
})
