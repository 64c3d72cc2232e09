/**
 * Feature flags in a real etcd, read by the providers that OpenFeature publishes: the server provider in this process,
 * and the web provider, bundled as a page would, in a browser and from another origin.
 */
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { OFREPProvider } from '@openfeature/ofrep-provider'
import { OpenFeature } from '@openfeature/server-sdk'
import { build } from 'esbuild'
import t, { type Test } from 'tap'
import { openPage } from '../support/chromium.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { startServer } from '../support/server-process.js'
import { until } from '../support/until.js'

const PAGE = fileURLToPath(new URL('../../../test/clients/support/flags-page.ts', import.meta.url))

/** Serves the page from an origin of its own. */
async function servePage(t: Test): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [PAGE],
    bundle: true,
    format: 'esm',
    write: false,
  })
  const html = `<!doctype html><title>flags</title><script type="module">${outputFiles[0]!.text}</script>`
  const server = createServer((_, response) => response.setHeader('Content-Type', 'text/html').end(html))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

void t.test('the published providers read the flags, and the web provider follows each change', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  await writer.commit({ '/config/flags/color': '"red"', '/config/flags/open': 'true', '/config/flags/limit': '3' })
  const origin = await servePage(t)
  const flags = ['--etcd-servers', etcd.url, '--resource=flags=/config/flags/', '--ofrep=flags']
  const { url } = await startServer(t, { flags: [...flags, '--cors-allowed-origins', origin] })

  await t.test('the server provider', async (t) => {
    await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl: url }))
    t.teardown(() => OpenFeature.close())
    const client = OpenFeature.getClient()
    t.match(await client.getStringDetails('color', 'none', { targetingKey: 'ann' }), {
      value: 'red',
      reason: 'STATIC',
    })
    t.equal(await client.getBooleanValue('open', false), true)
    t.equal(await client.getNumberValue('limit', 0), 3)
    t.match(await client.getStringDetails('absent', 'default'), { value: 'default', errorCode: 'FLAG_NOT_FOUND' })
    t.match(await client.getBooleanDetails('color', false), { value: false, errorCode: 'TYPE_MISMATCH' })
    await writer.put('/config/flags/color', '"green"')
    await until(async () => (await client.getStringValue('color', 'none')) === 'green', 'it reads the change')
  })

  await t.test('the web provider', async (t) => {
    const page = await openPage(t, `${origin}/?server=${encodeURIComponent(url)}`)
    await page.waitForFunction('window.flags !== undefined')
    const seen = (): Promise<unknown> => page.evaluate('window.flags()')
    t.same(await seen(), { color: 'green', isOpen: true, limit: 3, absent: 'FLAG_NOT_FOUND' })
    // The provider does not poll, so it hears of the changes only from the stream.
    await writer.put('/config/flags/color', '"blue"')
    await page.waitForFunction("window.flags().color === 'blue'")
    await writer.commit({ '/config/flags/limit': null, '/config/flags/open': 'false' })
    await page.waitForFunction('window.flags().limit === 0')
    t.same(await seen(), { color: 'blue', isOpen: false, limit: 0, absent: 'FLAG_NOT_FOUND' })
  })
})
