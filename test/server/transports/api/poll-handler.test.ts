/** Tests long polls: equal requests get the same document. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { keyFromText } from '../../../../src/engine/model/event.js'
import { nextCursor } from '../../../../src/server/transports/api/poll-handler.js'
import { PollOutput } from '../../../../src/server/transports/watch/poll-output.js'
import { type AppHarness, startApp } from '../../../support/app.js'
import { until } from '../../../support/until.js'

const FLAGS = '/apis/distributary.io/v1/flags'
const LIST = `${FLAGS}?history=`

interface Answer {
  readonly code: number
  readonly cacheControl: string | null
  readonly history: string
  readonly position: string
  readonly body: {
    readonly metadata: { readonly resourceVersion: string; readonly history: string; readonly cursor?: string }
    readonly events: readonly { readonly type: string; readonly object: { readonly metadata: { name: string } } }[]
    readonly message?: string
  }
}

async function ask(app: AppHarness, path: string, headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(app.url + path, { headers })
  return {
    code: response.status,
    cacheControl: response.headers.get('cache-control'),
    history: response.headers.get('x-distributary-history') ?? '',
    position: response.headers.get('x-distributary-position') ?? '',
    body: (await response.json()) as Answer['body'],
  }
}

function put(app: AppHarness, ...pairs: readonly (readonly [key: string, value: string | null])[]): void {
  app.upstream.commit(
    pairs.map(([name, value]) => {
      const key = keyFromText(`/config/flags/${name}`)
      return value === null ? { type: 'delete', key } : { type: 'put', key, value: Buffer.from(value) }
    }),
  )
}

const pollOf = (resourceVersion: string, history: string, wait = '30s', more = ''): string =>
  `${FLAGS}?watch=1&resourceVersion=${resourceVersion}&wait=${wait}&history=${history}${more}`

const shown = ({ body }: Answer): readonly string[] =>
  body.events.map(({ type, object }) => `${type} ${object.metadata.name}`)

void t.test('a poll answers whole revisions, at once or as soon as there is one', async (t) => {
  const app = await startApp(t, {
    flags: ['--resource', 'flags=/config/flags/', '--public-caching', 'flags.distributary.io=5s/10s'],
  })
  put(app, ['a', '1'])
  const list = await ask(app, LIST)
  const start = list.body.metadata.resourceVersion
  t.match(list.position, new RegExp(`^${start}\\.[\\w-]{43}$`))
  t.equal((await ask(app, FLAGS)).position, '', 'it is computed for those who ask')
  put(app, ['a', '2'], ['b', '1'])
  put(app, ['a', null])
  await ask(app, FLAGS)
  const both = await ask(app, pollOf(start, list.position))
  t.match(both, { code: 200, cacheControl: 'public, max-age=15', history: list.history })
  t.same(shown(both), ['MODIFIED a', 'ADDED b', 'DELETED a'])
  const { resourceVersion: next, history } = both.body.metadata
  t.equal(history, (await ask(app, LIST)).position, 'an answer ends at the position of a list')
  const between = String(Number(start) + 1)
  t.same(shown(await ask(app, pollOf(between, list.history))), ['DELETED a'], 'its own history it takes for all')
  t.equal((await ask(app, pollOf(between, list.position))).code, 410, 'the position is of another revision')
  t.equal((await ask(app, pollOf(between, `${between}.${list.position.split('.')[1]}`))).code, 410, 'nor renamed')

  const waiting = [ask(app, pollOf(next, history)), ask(app, pollOf(next, history, '30s', '&prefix=eu/'))]
  await until(() => app.watchers === 2, 'two wait')
  put(app, ['c', '1'])
  const found = await waiting[0]!
  t.same(shown(found), ['ADDED c'])
  put(app, ['eu/x', '1'])
  const part = await waiting[1]!
  t.same(shown(part), ['ADDED eu:x'])
  t.equal(Number(part.body.metadata.resourceVersion), Number(found.body.metadata.resourceVersion) + 1)
  await until(() => app.watchers === 0, 'nobody waits any more')
})

void t.test('a poll without events returns its revision, and an error is not cacheable', async (t) => {
  const app = await startApp(t, {
    flags: ['--resource', 'flags=/config/flags/', '--public-caching', 'flags.distributary.io=5s'],
    config: { defaultWatchCacheSize: 4, watchCacheAge: 0 },
  })
  put(app, ['a', '1'])
  const { body, history } = await ask(app, `${FLAGS}?resourceVersion=0`)
  const first = body.metadata.resourceVersion
  put(app, ['b', '1'])
  await ask(app, FLAGS)
  const other = await ask(app, pollOf(first, history, '1s', '&prefix=eu/'))
  t.match(other, { code: 200, cacheControl: 'public, max-age=1', body: { events: [] } })
  t.equal(other.body.metadata.resourceVersion, String(Number(first) + 1), 'b needs not be looked at again')
  const empty = await ask(app, pollOf(other.body.metadata.resourceVersion, history, '1s'))
  t.match(empty, { code: 200, cacheControl: 'public, max-age=1', body: { events: [] } })

  for (const named of ['', 'another']) {
    t.match(await ask(app, pollOf(first, named)), {
      code: 410,
      cacheControl: 'no-store',
      history,
      body: { reason: 'Expired' },
    })
  }
  for (const named of [history, `9000.${'a'.repeat(43)}`]) {
    const never = await ask(app, pollOf('9000', named, '1s'))
    t.match(never, { code: 410, cacheControl: 'no-store' }, 'no revision of this etcd')
  }
  const { cache } = [...app.app.sources].find(({ resource }) => resource.plural === 'flags')!
  await until(() => {
    put(app, ['a', `${Math.random()}`])
    return cache.history.floorRevision > Number(first)
  }, 'it is forgotten')
  t.match(await ask(app, pollOf(first, history)), { code: 410, cacheControl: 'no-store', history })
  for (const wait of ['', '30', '0s', '51s', '1m', '5.5s', '-1s']) {
    t.match(await ask(app, pollOf(first, history, wait)), { code: 400, body: { message: /^wait: / } }, wait)
  }
  t.match(await ask(app, `${FLAGS}?watch=1&wait=5s&history=${history}`), {
    code: 400,
    body: { message: /resourceVersion/ },
  })
  const sse = await fetch(app.url + pollOf(first, history), { headers: { accept: 'text/event-stream' } })
  t.equal(sse.status, 406)
  await sse.body?.cancel()
})

void t.test('an answer without events names a cursor, so that the next poll is never the same request', async (t) => {
  const app = await startApp(t, {
    flags: ['--resource', 'flags=/config/flags/', '--public-caching', 'flags.distributary.io=5s'],
  })
  put(app, ['a', '1'])
  const list = await ask(app, LIST)
  const { resourceVersion } = list.body.metadata
  const poll = (more: string): Promise<Answer> => ask(app, pollOf(resourceVersion, list.position, '1s', more))
  const period = (): number => Math.floor(Date.now() / 10_000)
  const earliest = period()
  const [none, wrong, ahead] = await Promise.all([poll(''), poll('&cursor=-1'), poll(`&cursor=${earliest + 50}`)])
  const isCurrent = ({ body }: Answer): boolean =>
    Number(body.metadata.cursor) >= earliest && Number(body.metadata.cursor) <= period()
  t.ok(isCurrent(none) && isCurrent(wrong), 'the time, in periods of ten seconds')
  t.equal(ahead.body.metadata.cursor, String(earliest + 51), 'and always above the one that was sent')
  t.equal(none.body.metadata.history, list.position, 'it is in no proof')
  t.equal(none.cacheControl, 'public, max-age=1')
  put(app, ['a', '2'])
  const found = await poll(`&cursor=${earliest}`)
  t.same(shown(found), ['MODIFIED a'])
  t.notOk('cursor' in found.body.metadata)
})

void t.test('a cursor is a number of at most 16 digits, or ignored', (t) => {
  const nowMs = 1_000_000
  t.equal(nextCursor(undefined, nowMs), '100')
  t.equal(nextCursor('7', nowMs), '100')
  t.equal(nextCursor('100', nowMs), '101')
  t.equal(nextCursor('9007199254740993', nowMs), '9007199254740994', 'beyond the integers of a float')
  t.equal(nextCursor('9999999999999999', nowMs), '10000000000000000')
  for (const sent of ['', '-5', '1e5', '1.5', ' 200', '10000000000000000', '٣']) t.equal(nextCursor(sent, nowMs), '100')
  t.end()
})

void t.test('a server that drains answers the polls that wait, and refuses others for a second', async (t) => {
  const app = await startApp(t, {
    flags: ['--resource', 'flags=/config/flags/', '--public-caching', 'flags.distributary.io=5s'],
  })
  put(app, ['a', '1'])
  const { position, body } = await ask(app, LIST)
  const poll = pollOf(body.metadata.resourceVersion, position, '50s')
  const waiting = ask(app, poll)
  await until(() => app.watchers === 1, 'it waits')
  const draining = app.app.drain()
  const answer = await waiting
  t.match(answer, {
    code: 200,
    cacheControl: 'public, max-age=1',
    body: { metadata: { history: position }, events: [] },
  })
  t.match(answer.body.metadata.cursor, /^\d+$/)
  const refused = await fetch(app.url + poll)
  t.equal(refused.status, 503)
  t.match(Object.fromEntries(refused.headers), {
    'retry-after': '1',
    'x-accel-expires': '1',
    'cache-control': 'no-store',
  })
  await refused.arrayBuffer()
  await draining
})

void t.test('a poll is JSON for everyone who takes it, however much they prefer a form of watches', async (t) => {
  const app = await startApp(t, { flags: ['--resource', 'flags=/config/flags/'] })
  put(app, ['a', '1'])
  const list = await ask(app, LIST)
  put(app, ['a', '2'])
  const poll = pollOf(list.body.metadata.resourceVersion, list.position)
  const forms = ['text/event-stream', 'application/cbor', 'application/vnd.kubernetes.protobuf']
  for (const form of forms) {
    const answer = await ask(app, poll, { accept: `${form}, application/json` })
    t.same([answer.code, shown(answer)], [200, ['MODIFIED a']], form)
    t.equal((await fetch(app.url + poll, { headers: { accept: form } })).status, 406, `${form} alone`)
  }
})

void t.test('polls of callers with their own permissions are private, and end with the permission', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'polls-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const rule = (user: string): string =>
    `  - users: [${user}]\n    verbs: [list, watch]\n    apiGroups: [distributary.io]\n    resources: [flags]\n`
  // prettier-ignore
  const app = await startApp(t, {
    flags: [
      '--resource', 'flags=/config/flags/', '--public-caching', 'flags.distributary.io=5s', '--anonymous-auth',
      '--token-auth-file', file('tokens.csv', 'ann,ann,1\n'),
      '--authorization-mode=Policy',
      '--authorization-policy-file', file('policy.yaml', `rules:\n${rule('ann')}${rule('system:anonymous')}`),
    ],
  })
  const ann = { authorization: 'Bearer ann' }
  put(app, ['a', '1'])
  const { body, history } = await ask(app, FLAGS)
  const poll = pollOf(body.metadata.resourceVersion, history, '50s')
  const waiting = [ask(app, poll), ask(app, poll, ann)]
  await until(() => app.watchers === 2, 'both wait')
  file('policy.yaml', `rules:\n${rule('ann')}`)
  t.match(await waiting[0], { code: 403 })
  put(app, ['b', '1'])
  t.match(await waiting[1], { code: 200, cacheControl: 'no-cache, private', body: { events: [{ type: 'ADDED' }] } })
  t.match(await ask(app, poll), { code: 403 })
})

void t.test('a document whose events are written in pieces has whole lines', async (t) => {
  const output = new PollOutput()
  output.write(Buffer.from('{"type":"ADDED",'))
  output.write(Buffer.from('"object":{}}\n12\n'))
  output.end(null, null)
  const { events, revision } = await output.polled
  t.same(events.map(String), ['{"type":"ADDED","object":{}}'])
  t.equal(revision, '12')
})
