/** Objects that a validator rejects are reported, neither shown nor forgotten. */
import t from 'tap'
import {
  fetchTransport,
  type InformerOptions,
  SharedInformer,
  type ValueObject,
  withValue,
} from '../../../src/client/browser.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import { startApp } from '../../support/app.js'
import { until } from '../../support/until.js'
import { startHttpFaults } from '../reflector/http-faults.js'

interface Flag {
  readonly on: boolean
}

function parseFlag(value: unknown): Flag {
  const { on } = (value ?? {}) as { readonly on?: unknown }
  if (typeof on !== 'boolean') throw new Error(`on is ${JSON.stringify(on)}`)
  return { on }
}

void t.test('a rejected object is in `invalid` until it is valid or gone, and not in the store', async (t) => {
  const app = await startApp(t, { flags: ['--resource', 'flags=/config/flags/'] })
  const put = (key: string, text: string | Buffer): void => {
    app.upstream.commit([{ type: 'put', key: keyFromText(`/config/flags/${key}`), value: Buffer.from(text) }])
  }
  put('good', '{"on":true,"more":1}')
  put('bad', '{"on":"yes"}')
  put('text', 'on')
  put('bytes', Buffer.from([0xff, 0xd8]))
  const faults = await startHttpFaults(t, app.port)
  const reported: string[] = []
  const options: InformerOptions<ValueObject<Flag>> = {
    transport: fetchTransport({ server: faults.url }),
    path: '/apis/distributary.io/v1/flags',
    validate: withValue(parseFlag),
    backoff: { firstMs: 20, capMs: 100 },
    resyncMs: 50,
    onInvalid: (key, invalid) => reported.push(`${key}: ${invalid === null ? 'valid' : String(invalid.error)}`),
  }
  const informer = new SharedInformer(options)
  t.teardown(() => informer.stop())
  const events: string[] = []
  informer.addHandler({
    added: ({ key, value }) => void events.push(`+${key.slice(14)} ${value.on}`),
    deleted: ({ key }, isFinalStateUnknown) => void events.push(`-${key.slice(14)} ${isFinalStateUnknown}`),
  })
  informer.start()
  await informer.whenSynced()
  const valid = (): string => [...informer.store.keys()].sort().join()
  const invalid = (): string => [...informer.invalid.keys()].sort().join()
  t.same([valid(), invalid()], ['good', 'bad,bytes,text'])
  t.same(informer.store.get('good')?.value, { on: true }, 'what the validator returned')
  t.match(informer.invalid.get('bad'), { object: { value: { on: 'yes' } }, error: /on is "yes"/ })
  t.equal(reported.length, 3)

  put('bad', '{"on":false}')
  put('good', '{"on":null}')
  await until(
    () => valid() === 'bad' && invalid() === 'bytes,good,text',
    () => `${valid()} ${invalid()}`,
  )
  t.same(reported.slice(3), ['bad: valid', 'good: Error: on is null'])
  await until(() => events.length >= 3, 'the handler has heard of it')
  t.same(events, ['+good true', '+bad false', '-good true'], 'nobody works on with the last valid version')

  // A list shows that a rejected object is gone only by its absence.
  faults.fault = () => ({ status: 410, body: '{"code":410,"reason":"Expired"}' })
  faults.cut()
  await until(() => informer.status.state === 'backing-off', 'the connection is gone')
  app.upstream.commit([{ type: 'delete', key: keyFromText('/config/flags/text') }])
  put('good', '{"on":true}')
  faults.fault = ({ isWatch, isStream }) => (isWatch && !isStream ? { status: 410 } : null)
  await until(
    () => valid() === 'bad,good' && invalid() === 'bytes',
    () => `${valid()} ${invalid()}`,
  )
  t.same(
    reported.slice(5).toSorted(),
    ['good: valid', 'text: valid'],
    'and what is still invalid is not reported again',
  )
})
