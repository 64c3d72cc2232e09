/** User functions that throw: the store follows the server all the same, and each error is reported. */
import t, { type Test } from 'tap'
import {
  type Change,
  fileStore,
  Indexer,
  type KubeObject,
  LiveList,
  nodeTransport,
  Reflector,
  SharedInformer,
  type Transport,
  treeCodec,
  WorkQueue,
} from '../../../src/client/index.js'
import { silentLogger } from '../../../src/support/log.js'
import { type AppHarness, startApp } from '../../support/app.js'
import { pod } from '../../support/pod.js'
import { until } from '../../support/until.js'

const PODS = '/api/v1/pods'
const backoff = { firstMs: 20, capMs: 100 }

const labelled = (name: string, step: string): ReturnType<typeof pod> => pod(name, { labels: { step } })
const stepOf = ({ metadata }: KubeObject): string => metadata.labels?.['step'] ?? ''

function recorder(): { readonly logger: typeof silentLogger; readonly logged: string[] } {
  const logged: string[] = []
  const error = (fields: object, message: string): void => {
    logged.push(`${message}: ${(fields as { err: Error }).err.message}`)
  }
  return { logger: { ...silentLogger, error }, logged }
}

function transportTo(t: Test, { url }: AppHarness): Transport {
  const transport = nodeTransport({ server: url })
  t.teardown(() => transport.close())
  return transport
}

function fails(what: string): never {
  throw new Error(what)
}

for (const watchList of [true, false]) {
  void t.test(`an informer whose callbacks all throw follows the server (watchList: ${watchList})`, async (t) => {
    const app = await startApp(t, {
      objects: { 'pods/default/a': labelled('a', 'bad'), 'pods/default/b': labelled('b', '1') },
    })
    const { logger, logged } = recorder()
    const informer = new SharedInformer<KubeObject>({
      transport: transportTo(t, app),
      path: PODS,
      watchList,
      backoff,
      logger,
      transform: (object) => (stepOf(object) === 'bad' ? fails('transform') : object),
      indexes: { step: (object) => (stepOf(object) === 'odd' ? fails('index') : [stepOf(object)]) },
      onInvalid: () => fails('onInvalid'),
      onStatus: () => fails('onStatus'),
      onHandlerError: (error) => fails(`onHandlerError after ${(error as Error).message}`),
    })
    t.teardown(() => informer.stop())
    const heard: string[] = []
    informer.addHandler({
      added: (object) => {
        heard.push(`+${object.metadata.name}`)
        fails('added')
      },
      deleted: async (object) => {
        heard.push(`-${object.metadata.name}`)
        fails('deleted')
      },
    })
    const shown = (): string => informer.store.list().map((one) => `${one.metadata.name}=${stepOf(one)}`).sort().join() // prettier-ignore
    const shows = (expected: string): Promise<void> => until(() => shown() === expected, () => `${expected}: ${shown()}`) // prettier-ignore
    informer.start()
    await informer.whenSynced()
    await shows('b=1')
    t.match(informer.invalid.get('default/a'), { error: { message: 'transform' } })
    t.same(informer.store.keysByIndex('step', '1'), ['default/b'])

    app.put('pods/default/a', labelled('a', '2'))
    app.put('pods/default/b', labelled('b', 'odd'))
    await shows('a=2,b=odd')
    t.equal(informer.invalid.size, 0)
    for (let i = 0; i < 2; i++) t.throws(() => informer.store.byIndex('step', '2'), { message: 'index' })

    app.put('pods/default/b', labelled('b', 'bad'))
    app.put('pods/default/c', labelled('c', '3'))
    await shows('a=2,c=3')
    t.same(informer.store.keysByIndex('step', '2'), ['default/a'], 'the index is readable again')
    await until(() => heard.length === 4, 'the handler goes on')
    t.same(heard, ['+b', '+a', '-b', '+c'])
    t.same([...new Set(logged)].sort(), [
      'onInvalid failed: onInvalid',
      'onStatus failed: onStatus',
      'the handler of errors failed: onHandlerError after added',
      'the handler of errors failed: onHandlerError after deleted',
    ])
  })
}

void t.test('a saved state starts an informer, although its callbacks throw', async (t) => {
  const app = await startApp(t, { objects: { 'pods/default/a': pod('a'), 'pods/default/b': pod('b') } })
  const saved = { store: fileStore(t.testdir()), server: app.url, user: 'ann' }
  const transport = transportTo(t, app)
  for (let visit = 0; visit < 2; visit++) {
    const { logger } = recorder()
    const informer = new SharedInformer<KubeObject>({
      transport,
      path: PODS,
      logger,
      saved: { ...saved, onError: () => fails('onError') },
      transform: (object) => (object.metadata.name === 'a' ? fails('transform') : object),
      onStatus: () => fails('onStatus'),
    })
    t.teardown(() => informer.stop())
    informer.start()
    await until(() => informer.status.isLive, 'it follows')
    t.same([...informer.store.keys(), ...informer.invalid.keys()], ['default/b', 'default/a'])
    await informer.stop()
  }
})

void t.test('a change that the store of a reflector failed to take is delivered again, and none twice', async (t) => {
  // The second transport delivers the first changes together with the end of the initial events.
  for (const joins of [false, true]) {
    const app = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
    const transport = transportTo(t, app)
    let held = joins
    const taken: string[] = []
    let failures = 0
    const reflector = new Reflector<KubeObject>({
      transport: joins ? joining(transport, () => held) : transport,
      path: PODS,
      codec: treeCodec<KubeObject>(),
      backoff,
      store: {
        replace: (items) => void taken.push(`=${items.map(({ metadata }) => metadata.name).join()}`),
        change: ({ type, object }: Change<KubeObject>) => {
          const { name } = object.metadata
          if (name === 'c' && failures++ < 2) fails('change')
          taken.push(`${type === 'DELETED' ? '-' : '+'}${name}`)
        },
      },
    })
    t.teardown(() => reflector.stop())
    reflector.start()
    await until(() => app.watchers === 1 && (joins || taken.length === 1), 'it watches')
    app.commit({ 'pods/default/b': pod('b'), 'pods/default/c': pod('c'), 'pods/default/d': pod('d') })
    app.put('pods/default/e', pod('e'))
    await until(async () => (await (await fetch(app.url + PODS)).text()).includes('"e"'), 'the server has it')
    held = false
    app.put('pods/default/f', pod('f'))
    await until(() => taken.includes('+f'), () => taken.join(' ')) // prettier-ignore
    t.same(taken, ['=a', '+b', '+c', '+d', '+e', '+f'], joins ? 'in one chunk' : 'separately')
    t.equal(failures, 3)
    t.equal(reflector.status.state, 'watching')
  }
})

/** Joins the chunks of a response while `isHeld`. */
function joining(transport: Transport, isHeld: () => boolean): Transport {
  return {
    send: async (request) => {
      const response = await transport.send(request)
      const body = (async function* () {
        const chunks: Uint8Array[] = []
        for await (const chunk of response.body) {
          chunks.push(chunk)
          if (!isHeld()) yield Buffer.concat(chunks.splice(0))
        }
      })()
      return { ...response, body }
    },
  }
}

void t.test('without a logger, the error of a handler is logged to the console', async (t) => {
  const app = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const printed = t.capture(console, 'error')
  const informer = new SharedInformer<KubeObject>({ transport: transportTo(t, app), path: PODS })
  t.teardown(() => informer.stop())
  const handler = informer.addHandler({ added: () => fails('added') })
  informer.start()
  await handler.synced
  t.match(printed(), [{ args: [{ path: PODS, err: { message: 'added' } }, 'a handler failed'] }])
})

void t.test('an index that cannot be built is not read in part', (t) => {
  const indexer = new Indexer<number>({ indexes: { odd: (n) => (n === 2 ? fails('two') : [String(n % 2)]) } })
  for (const n of [1, 2, 3]) indexer.set(`n${n}`, n)
  for (let i = 0; i < 2; i++) t.throws(() => indexer.keysByIndex('odd', '1'), { message: 'two' })
  indexer.delete('n2')
  t.same(indexer.keysByIndex('odd', '1'), ['n1', 'n3'])
  indexer.set('n2', 2)
  t.throws(() => indexer.keysByIndex('odd', '1'), { message: 'two' })
  t.equal(indexer.set('n2', 4), 2)
  t.same(indexer.keysByIndex('odd', '0'), ['n2'])
  t.end()
})

void t.test('a queue goes on after an onError that throws', async (t) => {
  const queue = new WorkQueue({ rateLimiter: { delayMs: () => 1, forget: () => {}, numRequeues: () => 0 } })
  queue.add('a')
  let attempts = 0
  await queue.run(
    () => {
      if (++attempts < 3) fails('work')
      queue.end()
    },
    { onError: () => fails('onError') },
  )
  t.equal(attempts, 3)
})

void t.test('a listener that throws does not keep the change from another', async (t) => {
  const app = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const list = new LiveList({ transport: transportTo(t, app), path: PODS, logger: silentLogger })
  t.teardown(() => list.close())
  list.subscribe(() => fails('listener'))
  let calls = 0
  list.subscribe(() => calls++)
  await until(() => list.read().isLive && calls > 0, 'it is shown')
})
