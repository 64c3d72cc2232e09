/** Activities of the published client in Chromium: React's hooks, and states in IndexedDB. */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { launchChromium } from '../support/launch-chromium.js'
import { startServer } from '../support/server-process.js'
import { group, type Subject } from './activity.js'
import { COUNT_BY_KIND } from './probe.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))

interface Tab extends Subject {
  once(i: number, name: string): Promise<unknown>
}

const scriptFor = (server: string): string => `
  import { StrictMode } from 'react'
  import { createRoot } from 'react-dom/client'
  import { LiveList, SharedInformer, fetchTransport, indexedDbStore } from 'distributary/client'
  import { useList, useObject } from 'distributary/react'

  const server = '${server}'
  const path = '/apis/distributary.io/v1/flags'
  const transport = fetchTransport({ server })
  const store = indexedDbStore()
  const list = new LiveList({ transport, path, lingerMs: 5 })

  function Flags({ list, onShown }) {
    const { items } = useList(list)
    const { object } = useObject(list, 'f1')
    if (object !== undefined) queueMicrotask(onShown)
    return <p>{items.length}</p>
  }

  async function show(shown) {
    const element = document.body.appendChild(document.createElement('div'))
    const root = createRoot(element)
    await new Promise((resolve) => root.render(<StrictMode><Flags list={shown} onShown={resolve} /></StrictMode>))
    root.unmount()
    element.remove()
  }

  const activities = {
    'components that come and go': () => show(list),
    async 'components that show a list of their own'() {
      const own = new LiveList({ transport, path, lingerMs: 5 })
      await show(own)
      await own.close()
    },
    async 'states in IndexedDB'(i) {
      const informer = new SharedInformer({ transport, path, saved: { store, server, user: 'u' + (i % 3) } })
      informer.start()
      await informer.whenSynced()
      await informer.stop()
      if (i % 5 === 0) await store.clear()
    },
  }
  globalThis.once = async (i, name) => void (await activities[name](i))
`

async function bundled(source: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents: source, resolveDir: root, loader: 'jsx' },
    bundle: true,
    write: false,
    format: 'esm',
    jsx: 'automatic',
    define: { 'process.env.NODE_ENV': '"production"' },
    alias: {
      'distributary/client': join(root, 'src/client/browser.ts'),
      'distributary/react': join(root, 'src/client/react.ts'),
    },
    logLevel: 'silent',
  })
  return outputFiles[0]!.text
}

export const browser = group<Tab>({
  name: 'browser',
  // Chromium is the same beside every runtime.
  needsNode: true,
  async start(t) {
    const etcd = await startEtcd(t)
    await new EtcdWriter([etcd]).commit(
      Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`/config/flags/f${i}`, 'true'])),
    )
    let script = ''
    const site = http.createServer((request, response) => {
      const isScript = request.url === '/page.js'
      response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html')
      response.end(
        isScript ? script : '<!doctype html><title>x</title><body><script type="module" src="/page.js"></script>',
      )
    })
    await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve))
    t.teardown(() => site.close())
    const origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`
    const flags = ['--etcd-servers', etcd.url, '--resource=flags=/config/flags/', '--requests-per-second=1000000']
    const { url } = await startServer(t, { flags: [...flags, '--cors-allowed-origins', origin] })
    script = await bundled(scriptFor(url))
    const chromium = await launchChromium()
    t.teardown(() => chromium.close())
    const page = await chromium.newPage()
    await page.goto(origin)
    const inspector = await page.context().newCDPSession(page)
    return {
      snapshot: null,
      once: async (i, name) => void (await page.evaluate(`once(${i}, ${JSON.stringify(name)})`)),
      async count() {
        await inspector.send('HeapProfiler.collectGarbage')
        const { result } = await inspector.send('Runtime.evaluate', { expression: 'Object.prototype' })
        const all = await inspector.send('Runtime.queryObjects', { prototypeObjectId: result.objectId! })
        const counted = await inspector.send('Runtime.callFunctionOn', {
          objectId: all.objects.objectId!,
          functionDeclaration: COUNT_BY_KIND,
          returnByValue: true,
        })
        await inspector.send('Runtime.releaseObject', { objectId: all.objects.objectId! })
        return { ...(counted.result.value as object), ...(await inspector.send('Memory.getDOMCounters')) }
      },
    }
  },
  activities: ['components that come and go', 'components that show a list of their own', 'states in IndexedDB'].map(
    (name) => ({ name, isNightly: true as const, once: (tab, i) => tab.once(i, name) }),
  ),
})
