/** Fields of a later release are preserved in protobuf, and no other format drops them silently. */
import t, { type Test } from 'tap'
import { keyFromText } from '../../../../src/engine/model/event.js'
import { enveloped } from '../../../../src/kubernetes/codec/protobuf/resource-version-splice.js'
import { type Logger, silentLogger } from '../../../../src/support/log.js'
import { startApiServer } from '../../../support/api-server-stand-in.js'
import { type AppHarness, type AppHarnessOptions, startApp } from '../../../support/app.js'
import { lengthDelimited } from '../../../support/protobuf-sample.js'
import { until } from '../../../support/until.js'
import { shardTexts } from '../../../support/shards.js'

const PROTOBUF = 'application/vnd.kubernetes.protobuf'
const JSON_TYPE = 'application/json'
const TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io'
const PARTIAL = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io'
const LATER = 'of a later release'

const text = (number: number, value: string): Buffer => lengthDelimited(number, Buffer.from(value))

/** A Pod whose `spec` (number 2) or other message has an extra field. */
function pod(name: string, laterIn: 'spec' | 'metadata' | null): Buffer {
  const later = text(900, LATER)
  const none = Buffer.alloc(0)
  const metadata = [text(1, name), text(3, 'default'), laterIn === 'metadata' ? later : none]
  const container = lengthDelimited(2, text(1, 'c'))
  const raw = Buffer.concat([
    lengthDelimited(1, Buffer.concat(metadata)),
    lengthDelimited(2, Buffer.concat([container, laterIn === 'spec' ? later : none])),
  ])
  return enveloped('v1', 'Pod', raw)
}

async function start(t: Test, options: AppHarnessOptions = {}): Promise<AppHarness> {
  const app = await startApp(t, options)
  const store = (name: string, laterIn: 'spec' | 'metadata' | null): void => {
    const key = keyFromText(`/registry/pods/default/${name}`)
    app.upstream.commit([{ type: 'put', key, value: pod(name, laterIn) }])
  }
  store('known', null)
  store('new-spec', 'spec')
  const revision = app.upstream.revision
  await until(
    () => [...app.app.sources].some(({ cache }) => cache.name === 'pods' && cache.revision >= revision),
    'pods',
  )
  return app
}

const PODS = '/api/v1/namespaces/default/pods'

void t.test('a missing field of a later release is reported once in the log and in every answer', async (t) => {
  const logged: object[] = []
  const logger: Logger = {
    ...silentLogger,
    warn: (fields, message) => message.startsWith('a stored field') && logged.push(fields),
  }
  const app = await start(t, { logger })
  const warning = 'this response lacks fields of Pod v1 that this server does not know, such as spec.#900'
  const cases: readonly (readonly [path: string, accept: string, isWarned: boolean, hasField: boolean])[] = [
    ['/new-spec', JSON_TYPE, true, false],
    ['/new-spec', 'application/yaml', true, false],
    ['/new-spec/status', JSON_TYPE, true, false],
    ['/known', JSON_TYPE, false, false],
    ['', JSON_TYPE, true, false],
    ['?limit=1', JSON_TYPE, true, false],
    ['?fieldSelector=metadata.name=new-spec', JSON_TYPE, true, false],
    ['?fieldSelector=metadata.name=known', JSON_TYPE, false, false],
    ['?includeObject=Object', TABLE, true, false],
    ['?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1', JSON_TYPE, true, false],
    // Nothing is missing from what is shown.
    ['', TABLE, false, false],
    ['', PARTIAL, false, false],
    ['/new-spec', PROTOBUF, false, true],
    ['', PROTOBUF, false, true],
    ['?watch=1&resourceVersion=0&timeoutSeconds=1', `${PROTOBUF};stream=watch`, false, true],
  ]
  for (const [path, accept, isWarned, hasField] of cases) {
    const name = `${path} as ${accept}`
    const answer = await fetch(`${app.url}${PODS}${path}`, { headers: { accept } })
    t.equal(answer.status, 200, name)
    t.equal(answer.headers.get('warning')?.includes(warning) ?? false, isWarned, name)
    t.equal((await answer.text()).includes(LATER), hasField, name)
  }
  t.same(logged, [{ apiVersion: 'v1', kind: 'Pod', field: 'spec.#900' }], 'logged once')
  t.match(await (await fetch(`${app.url}/metrics`)).text(), /^distributary_codec_unknown_fields_total 1$/m)

  const key = keyFromText('/registry/pods/default/new-metadata')
  app.upstream.commit([{ type: 'put', key, value: pod('new-metadata', 'metadata') }])
  const partial = await fetch(`${app.url}${PODS}`, { headers: { accept: PARTIAL } })
  t.match(partial.headers.get('warning'), 'such as metadata.#900')
})

void t.test('with --passthrough the API server answers gets and lists of such objects', async (t) => {
  const behind = await startApiServer(t)
  const app = await start(t, { flags: ['--passthrough', behind.url] })
  const ask = async (path: string, accept: string): Promise<boolean> => {
    const before = behind.seen.length
    const answer = await fetch(`${app.url}${PODS}${path}`, { headers: { accept } })
    t.equal(answer.status, 200)
    t.equal(answer.headers.get('warning'), null)
    await answer.arrayBuffer()
    return behind.seen.length > before
  }
  for (const path of ['/new-spec', '', '?limit=1', '?resourceVersion=0']) {
    t.ok(await ask(path, JSON_TYPE), `${path} is passed on`)
    t.equal(behind.last().url, `${PODS}${path}`)
  }
  for (const [path, accept] of [
    ['/known', JSON_TYPE],
    ['?fieldSelector=metadata.name=known', JSON_TYPE],
    ['/new-spec', PROTOBUF],
    ['', PROTOBUF],
    ['', PARTIAL],
  ] as const) {
    t.notOk(await ask(path, accept), `${path} as ${accept} is answered here`)
  }
  const before = behind.seen.length
  const [all] = shardTexts(1) as [string]
  const shard = await fetch(`${app.url}${PODS}?shardSelector=${encodeURIComponent(all)}`)
  t.match(
    shard.headers.get('warning'),
    'this response lacks',
    'a shard is never passed on, since it may be ignored there',
  )
  t.match(await shard.json(), { metadata: { shardInfo: { selector: all } } })
  t.equal(behind.seen.length, before)
})
