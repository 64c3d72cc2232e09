/**
 * The key of a shared body contains everything it was built from: the definition and history of its state, not those of
 * a moment later.
 */
import t, { type Test } from 'tap'
import { keyFromText } from '../../../../../src/engine/model/event.js'
import { createEmbeddedUpstream } from '../../../../support/faulty-store.js'
import { startApp } from '../../../../support/app.js'
import { until } from '../../../../support/until.js'
import { definitionObject, object } from '../../../../support/definition.js'

const WIDGETS = '/apis/example.com/v1/widgets'

function definition(given: string): object {
  const spec = { type: 'object', properties: { color: { type: 'string', default: given } } }
  return definitionObject(
    {
      group: 'example.com',
      plural: 'widgets',
      kind: 'Widget',
      scope: 'Cluster',
      versions: [{ name: 'v1', storage: true, schema: object({ spec }) }],
    },
    { uid: '1' },
  )
}

/** A store that reveals its revision only when the test lets it. */
async function slowStore(t: Test) {
  const store = createEmbeddedUpstream()
  let open = Promise.resolve()
  let waiting = 0
  const upstream = new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target)
      if (name !== 'currentRevision') return typeof member === 'function' ? (member.bind(target) as unknown) : member
      return async (signal?: AbortSignal) => {
        waiting++
        await open
        waiting--
        return await target.currentRevision(signal)
      }
    },
  })
  const put = (key: string, object: object): void => {
    const value = Buffer.from(JSON.stringify(object))
    store.commit([{ type: 'put', key: keyFromText(`/registry/${key}`), value }])
  }
  put('apiextensions.k8s.io/customresourcedefinitions/widgets.example.com', definition('red'))
  const metadata = { name: 'a', uid: '2' }
  put('example.com/widgets/a', { apiVersion: 'example.com/v1', kind: 'Widget', metadata, spec: {} })
  const app = await startApp(t, { upstream })
  const list = async (): Promise<string> => (await fetch(`${app.url}${WIDGETS}?pretty=0`)).text()
  await until(async () => (await list()).includes('"red"'), 'the widget is served')
  const hold = (): (() => void) => {
    let release = (): void => {}
    open = new Promise((resolve) => (release = resolve))
    return release
  }
  return { app, put, list, hold, waiting: () => waiting }
}

void t.test('a list that began under the old definition leaves no body for lists under the new one', async (t) => {
  const { put, list, hold, waiting, app } = await slowStore(t)
  const release = hold()
  const old = list()
  await until(() => waiting() > 0, 'the list waits for the store')
  put('apiextensions.k8s.io/customresourcedefinitions/widgets.example.com', definition('blue'))
  const cached = async (): Promise<string> =>
    (await fetch(`${app.url}${WIDGETS}?pretty=0&resourceVersion=0&fields=spec`)).text()
  await until(async () => (await cached()).includes('"blue"'), 'the new definition is known')
  release()
  t.match(await old, /"red"|"blue"/)
  t.match(await list(), /"blue"/, 'objects are shown as they are defined now')
})
