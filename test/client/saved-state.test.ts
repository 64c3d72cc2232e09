/** An informer with a saved state: what it shows while the server is away, and what it must not show. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  fetchTransport,
  fileStore,
  type InformerOptions,
  pollTransport,
  SharedInformer,
  type StateStore,
  type ValueObject,
  withValue,
} from '../../src/client/index.js'
import { activeClock } from '../../src/client/reflector/active-clock.js'
import { keyFromText } from '../../src/engine/model/event.js'
import { type AppHarness, type AppHarnessOptions, startApp } from '../support/app.js'
import { SavedState } from '../../src/client/saved-state.js'
import { until } from '../support/until.js'
import { nextTurn, VirtualClock } from '../support/virtual-clock.js'
import { type HttpFaults, startHttpFaults } from './reflector/http-faults.js'

const PATH = '/apis/distributary.io/v1/flags'
const AWAY = { status: 503 }

type Flag = ValueObject<unknown>
type Informer = SharedInformer<Flag>

async function startFlags(t: Test, options: AppHarnessOptions = {}): Promise<AppHarness> {
  return await startApp(t, { flags: ['--resource', 'flags=/config/flags/'], ...options })
}

function put(app: AppHarness, key: string, value: unknown): void {
  const bytes = Buffer.from(JSON.stringify(value))
  app.upstream.commit([{ type: 'put', key: keyFromText(`/config/flags/${key}`), value: bytes }])
}

function remove(app: AppHarness, key: string): void {
  app.upstream.commit([{ type: 'delete', key: keyFromText(`/config/flags/${key}`) }])
}

function scratch(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'saved-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'states')
}

interface Reader extends Partial<InformerOptions<Flag>> {
  readonly store: StateStore
  readonly user?: string
  readonly server?: string
}

function open(t: Test, url: string, { store, user = 'ann', server = url, ...options }: Reader): Informer {
  const informer: Informer = new SharedInformer<Flag>({
    transport: fetchTransport({ server: url }),
    path: PATH,
    backoff: { firstMs: 20, capMs: 100 },
    saved: { store, server, user },
    ...options,
  })
  t.teardown(() => informer.stop())
  informer.start()
  return informer
}

const shown = ({ store }: Informer): string =>
  store
    .list()
    .map(({ metadata, value }) => `${metadata.name}=${JSON.stringify(value)}`)
    .sort()
    .join()

const lists = ({ requests }: HttpFaults): number =>
  requests.filter(({ isWatch, isStream }) => !isWatch || isStream).length

/** Follows the server until it holds what it should, and saves that. */
async function visit(t: Test, url: string, reader: Reader, expected: string): Promise<void> {
  const informer = open(t, url, reader)
  await until(
    () => informer.status.isLive && shown(informer) === expected,
    () => `${expected}: ${shown(informer)}`,
  )
  await informer.stop()
}

for (const transport of ['streams', 'polls'] as const) {
  void t.test(`over ${transport}, an application starts with its last state and continues after it`, async (t) => {
    const app = await startFlags(t)
    put(app, 'a', 1)
    put(app, 'b', 2)
    const faults = await startHttpFaults(t, app.port)
    const store = fileStore(scratch(t))
    const fetched = fetchTransport({ server: faults.url })
    const reader = {
      store,
      ...(transport === 'polls' ? { transport: pollTransport(fetched, { waitSeconds: 1 }) } : {}),
    }
    await visit(t, faults.url, reader, 'a=1,b=2')

    put(app, 'b', 3)
    remove(app, 'a')
    put(app, 'c', 4)
    faults.fault = () => AWAY
    faults.requests.length = 0
    // Another transport object, as in another process.
    const again = transport === 'polls' ? { transport: pollTransport(fetched, { waitSeconds: 1 }) } : {}
    const informer = open(t, faults.url, { store, ...again })
    await informer.whenSynced()
    t.equal(shown(informer), 'a=1,b=2')
    await until(() => faults.requests.length > 1, 'it asks')
    t.match(informer.status, { isLive: false, isRefused: false })
    faults.fault = () => null
    await until(() => shown(informer) === 'b=3,c=4', 'what happened in the meantime arrives')
    t.equal(informer.status.isLive, true)
    t.equal(lists(faults), 0, 'and nothing was listed')
  })
}

void t.test('if the server no longer has that history, the application lists again', async (t) => {
  const app = await startFlags(t, { config: { defaultWatchCacheSize: 1, watchCacheAge: 0 } })
  put(app, 'a', 1)
  put(app, 'b', 1)
  const faults = await startHttpFaults(t, app.port)
  const store = fileStore(scratch(t))
  await visit(t, faults.url, { store }, 'a=1,b=1')
  const { revision } = app.upstream
  remove(app, 'a')
  for (let i = 0; i < 5; i++) put(app, 'b', i)
  const watch = `${app.url}${PATH}?watch=1&resourceVersion=${revision}&timeoutSeconds=1`
  await until(async () => (await (await fetch(watch)).text()).includes('"code":410'), 'the ring has evicted it')
  faults.requests.length = 0
  const deleted: string[] = []
  const informer = open(t, faults.url, { store })
  informer.addHandler({ deleted: ({ metadata }) => void deleted.push(metadata.name) })
  await until(
    () => shown(informer) === 'b=4',
    () => shown(informer),
  )
  t.ok(lists(faults) > 0)
  await until(() => deleted.length > 0, 'handlers hear of what is gone')
  t.same(deleted, ['a'])
})

void t.test('a state of another history is replaced, although the server has its revision', async (t) => {
  const app = await startFlags(t)
  put(app, 'a', 'old')
  put(app, 'gone', 'old')
  const faults = await startHttpFaults(t, app.port)
  const store = fileStore(scratch(t))
  const backup = app.upstream.snapshot()
  await visit(t, faults.url, { store }, 'a="old",gone="old"')

  // The same server, with its etcd restored and written to since: the revisions exist, with different contents.
  const clusterId = (await app.upstream.status()).clusterId
  app.upstream.restore(backup, { clusterId })
  remove(app, 'gone')
  for (let i = 0; i < 20; i++) put(app, 'b', i)
  await until(async () => (await (await fetch(app.url + PATH)).text()).includes('"value":19'), 'the server has it')
  const known = open(t, faults.url, { store })
  await until(
    () => known.status.isLive && shown(known) === 'a="old",b=19',
    () => shown(known),
  )
  await known.stop()

  // A new server process at the same URL, with another etcd.
  const other = await startFlags(t)
  for (let i = 0; i < 60; i++) put(other, 'x', i)
  faults.target = other.port
  const informer = open(t, faults.url, { store })
  await until(
    () => informer.status.isLive && shown(informer) === 'x=59',
    () => shown(informer),
  )
})

void t.test('objects are saved as the server sent them, so a later release can keep more fields', async (t) => {
  const app = await startFlags(t)
  put(app, 'a', 1)
  const faults = await startHttpFaults(t, app.port)
  const store = fileStore(scratch(t))
  const transform = ({ metadata }: Flag): Flag => ({ metadata }) as Flag
  await visit(t, faults.url, { store, transform }, 'a=undefined')
  faults.requests.length = 0
  const informer = open(t, faults.url, { store })
  await until(() => informer.status.isLive, 'it continues')
  t.equal(shown(informer), 'a=1')
  t.equal(lists(faults), 0, 'without a list')
})

void t.test('a server that names no history is listed, and the saved state shown until then', async (t) => {
  const app = await startFlags(t)
  put(app, 'a', 1)
  const faults = await startHttpFaults(t, app.port)
  const store = fileStore(scratch(t))
  const plain = fetchTransport({ server: faults.url })
  // This transport answers as an API server does.
  const transport = {
    send: async (request: Parameters<typeof plain.send>[0]) => {
      const response = await plain.send(request)
      return { ...response, header: (name: string) => (name.includes('history') ? null : response.header(name)) }
    },
  }
  await visit(t, faults.url, { store, transport }, 'a=1')
  remove(app, 'a')
  put(app, 'b', 2)
  faults.fault = () => AWAY
  faults.requests.length = 0
  const informer = open(t, faults.url, { store, transport })
  await informer.whenSynced()
  t.equal(shown(informer), 'a=1')
  faults.fault = () => null
  await until(() => shown(informer) === 'b=2', 'the list replaces it')
  t.ok(lists(faults) > 0)
})

void t.test('saved state is used only for the same user, server and selection', async (t) => {
  const app = await startFlags(t)
  put(app, 'eu/a', 1)
  const store = fileStore(scratch(t))
  await visit(t, app.url, { store }, 'eu:a=1')
  const away = await startHttpFaults(t, app.port)
  away.fault = () => AWAY
  const others = [
    { store, user: 'bob', server: app.url },
    { store, server: away.url },
    { store, server: app.url, prefix: 'eu/' },
    { store, server: app.url, path: `${PATH}2` },
  ]
  const informers = others.map((reader) => open(t, away.url, reader))
  const same = open(t, away.url, { store, server: `${app.url}/` })
  await same.whenSynced()
  t.equal(shown(same), 'eu:a=1')
  await until(() => informers.every(({ status }) => status.state === 'backing-off'), 'all have started')
  t.same(
    informers.map((informer) => [informer.hasSynced, shown(informer)]),
    others.map(() => [false, '']),
  )
})

void t.test('a state is removed as soon as the server refuses its reader', async (t) => {
  const app = await startFlags(t)
  put(app, 'a', 'secret')
  const faults = await startHttpFaults(t, app.port)
  const folder = scratch(t)
  const store = fileStore(folder)
  for (const status of [401, 403]) {
    faults.fault = () => null
    await visit(t, faults.url, { store }, 'a="secret"')
    t.equal(readdirSync(folder).length, 1)
    faults.fault = () => ({ status })
    const informer = open(t, faults.url, { store })
    await until(() => informer.status.isRefused, 'the answer')
    await until(() => readdirSync(folder).length === 0, 'nothing is left')
    await informer.stop()
    t.equal(readdirSync(folder).length, 0, 'nor is it saved again')
  }
})

void t.test('the saved state follows the changes of a running informer', async (t) => {
  const app = await startFlags(t)
  const folder = scratch(t)
  const informer = open(t, app.url, { store: fileStore(folder) })
  await until(() => informer.status.isLive, 'it follows')
  put(app, 'a', 1)
  const saved = (): string =>
    readdirSync(folder)
      .map((name) => readFileSync(join(folder, name), 'utf8'))
      .join()
  await until(() => saved().includes('"name":"a"'), 'a change is saved, as before a kill -9')
})

void t.test('files are for this user alone, bounded together, and a damaged one is ignored', async (t) => {
  const folder = scratch(t)
  const store = fileStore(folder, { maxBytes: 100 })
  t.equal(await store.load('a'), null)
  await store.save('a', 'x'.repeat(60))
  t.equal(await store.load('a'), 'x'.repeat(60))
  const [name = ''] = readdirSync(folder)
  t.equal(statSync(join(folder, name)).mode & 0o777, 0o600)
  t.equal(statSync(folder).mode & 0o777, 0o700)
  await store.save('b', 'y'.repeat(60))
  t.equal(await store.load('a'), null, 'the oldest makes room')
  await t.rejects(store.save('b', 'y'.repeat(101)), /101 bytes is larger than the limit of 100/)
  t.equal(await store.load('b'), null, 'not even an old one')
  await store.save('c', 'z')
  await store.clear()
  t.same(readdirSync(folder), [])

  const app = await startFlags(t)
  put(app, 'a', 1)
  const whole = fileStore(folder)
  await visit(t, app.url, { store: whole }, 'a=1')
  const [file = ''] = readdirSync(folder).map((one) => join(folder, one))
  const text = readFileSync(file, 'utf8')
  const away = await startHttpFaults(t, app.port)
  away.fault = () => AWAY
  for (const damaged of [
    text.slice(0, -9),
    '',
    'null',
    '[]',
    text.replace('"format":1', '"format":2'),
    text.replace('"items":[', '"items":[null,'),
  ]) {
    writeFileSync(file, damaged)
    const informer = open(t, away.url, { store: whole, server: app.url })
    await until(() => informer.status.state === 'backing-off', 'it has started')
    t.notOk(informer.hasSynced, damaged)
    await informer.stop()
  }
})

void t.test('a store that fails is reported, and the informer continues', async (t) => {
  const app = await startFlags(t)
  put(app, 'a', 1)
  const errors: string[] = []
  const fails = (what: string) => async (): Promise<never> => {
    throw new Error(what)
  }
  const store: StateStore = { load: fails('load'), save: fails('save'), remove: fails('remove'), clear: fails('clear') }
  const onError = (error: unknown): void => void errors.push((error as Error).message)
  const informer = open(t, app.url, { store, saved: { store, server: app.url, user: 'ann', onError } })
  await until(() => shown(informer) === 'a=1', 'it follows')
  await informer.stop()
  t.same(new Set(errors), new Set(['load', 'save']))
})

void t.test('a store that hangs delays neither the start nor the end, and collects no states', async (t) => {
  const app = await startFlags(t)
  put(app, 'a', 1)
  // The real limit is 5 s.
  const clock = {
    ...activeClock,
    setTimer: (ms: number, callback: () => void) => activeClock.setTimer(ms / 50, callback),
  }
  const hangs = (): Promise<never> => new Promise(() => {})
  const texts: string[] = []
  const base: StateStore = {
    load: () => Promise.resolve(null),
    save: async (_key, text) => void texts.push(text),
    remove: () => Promise.resolve(),
    clear: () => Promise.resolve(),
  }
  const times = { silenceMs: 1e6, initialSilenceMs: 1e6, openTimeoutMs: 1e6, listTimeoutMs: 1e6 }
  for (const hanging of ['load', 'save'] as const) {
    const errors: string[] = []
    const save: StateStore['save'] = async (key, text) => {
      await base.save(key, text)
      await hangs()
    }
    const store = { ...base, ...(hanging === 'load' ? { load: hangs } : { save }) }
    const onError = (error: unknown): void => void errors.push((error as Error).message)
    const saved = { store, server: app.url, user: 'ann', onError }
    const informer = open(t, app.url, { store, saved, clock, ...times })
    await until(() => shown(informer).startsWith('a='), 'it follows')
    for (let i = 0; hanging === 'save' && i < 5; i++) {
      await until(() => texts.length > 0, 'the first save')
      put(app, 'a', i)
      await until(() => shown(informer) === `a=${i}`, 'it goes on')
      // The delay between two saves, and more.
      await new Promise<void>((resolve) => clock.setTimer(2_000, resolve))
    }
    await informer.stop()
    const late = 'the store of saved states did not answer within 5000 ms'
    t.same(errors, hanging === 'load' ? [late, late] : [late])
    t.equal(texts.length, hanging === 'load' ? 0 : 1)
  }
})

void t.test('the validated object is shown, and the object from the server is saved', async (t) => {
  const app = await startFlags(t)
  put(app, 'a', '2026-01-02')
  put(app, 'b', 5)
  const away = await startHttpFaults(t, app.port)
  const store = fileStore(scratch(t))
  const validate = withValue((value): Date => {
    if (typeof value !== 'string') throw new Error(`no date: ${String(value)}`)
    return new Date(value)
  })
  for (const fault of [null, AWAY]) {
    away.fault = () => fault
    const invalid: string[] = []
    const informer = new SharedInformer<ValueObject<Date>>({
      transport: fetchTransport({ server: away.url }),
      path: PATH,
      validate,
      onInvalid: (key, one) => void invalid.push(`${key} ${(one?.error as Error | undefined)?.message}`),
      saved: { store, server: away.url, user: 'ann' },
    })
    t.teardown(() => informer.stop())
    informer.start()
    await informer.whenSynced()
    t.equal(informer.store.get('a')?.value.getUTCFullYear(), 2026)
    t.same(invalid, ['b no date: 5'])
    if (fault === null) await until(() => informer.status.isLive, 'the server has answered')
    await informer.stop()
  }
})

void t.test('saving takes at most a twentieth of the time, also when the store refuses the state', async (t) => {
  for (const isRefused of [false, true]) {
    const clock = new VirtualClock()
    let saves = 0
    const store = {
      load: () => Promise.resolve(null),
      remove: () => Promise.resolve(),
      clear: () => Promise.resolve(),
      save: () => {
        saves++
        clock.advance(500)
        return isRefused ? Promise.reject(new Error('too large')) : Promise.resolve()
      },
    }
    const errors: unknown[] = []
    const options = { store, server: 'http://a', user: 'ann', onError: (error: unknown) => void errors.push(error) }
    const state = new SavedState(options, { path: '/api/v1/pods' }, clock, () => ({ resourceVersion: '1', items: [] }))
    state.touch()
    clock.advance(1_000)
    await until(() => saves === 1, 'saved')
    await nextTurn()
    t.equal(errors.length, isRefused ? 1 : 0)
    state.touch()
    clock.advance(9_000)
    await nextTurn()
    t.equal(saves, 1, 'half a second of work is paid for with ten')
    clock.advance(1_000)
    await until(() => saves === 2, 'saved again')
    await state.close()
  }
})
