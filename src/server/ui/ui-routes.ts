/**
 * `/ui/` serves the status page and its files; `/ui/events` sends its figures (`status-stream.ts`). The page itself
 * gets the objects over the API, like any other client.
 *
 * Everything comes from this process. The page names no other host, and its content security policy forbids other
 * hosts.
 */
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { type Attributes, pathAttributes } from '../auth/authz/authorizer.js'
import { readPackageFile } from '../../support/package-file.js'
import type { Caller } from '../transports/limits/request-gate.js'
import type { Exchange } from '../transports/server/exchange.js'
import { type GatedRouteOptions, gated } from '../transports/server/gated-route.js'
import { StatusStream, type StatusStreamOptions } from './status-stream.js'

export interface UiOptions extends StatusStreamOptions, GatedRouteOptions<Caller> {}

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'"
const HEADERS = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-cache',
} as const

interface Asset {
  readonly type: string
  read(): Buffer
}

const require = createRequire(import.meta.url)

/** The chart library is next to the page in the published package, and a separate package elsewhere. */
function uPlot(name: string): Buffer {
  const packed = new URL(`page/${name}`, import.meta.url)
  return readFileSync(existsSync(packed) ? packed : join(dirname(require.resolve('uplot')), name))
}

const assets: Readonly<Record<string, Asset>> = {
  '': { type: 'text/html; charset=utf-8', read: () => source('index.html') },
  'style.css': { type: 'text/css; charset=utf-8', read: () => source('style.css') },
  'icon.svg': { type: 'image/svg+xml', read: () => source('icon.svg') },
  'uplot.css': { type: 'text/css; charset=utf-8', read: () => uPlot('uPlot.min.css') },
  'uplot.js': {
    type: 'text/javascript; charset=utf-8',
    read: () => uPlot('uPlot.iife.min.js'),
  },
  ...Object.fromEntries(
    ['main.js', 'overview.js', 'chart.js', 'browser.js', 'elements.js', 'yaml-difference.js'].map((name) => [
      name,
      { type: 'text/javascript; charset=utf-8', read: () => readFileSync(new URL(`page/${name}`, import.meta.url)) },
    ]),
  ),
}

function source(name: string): Buffer {
  return readPackageFile(`src/server/ui/page/${name}`)
}

export function registerUi(server: FastifyInstance, options: UiOptions): void {
  const stream = new StatusStream(options)
  server.get('/ui', (_request, reply) => reply.redirect('/ui/'))
  for (const [name, asset] of Object.entries(assets)) {
    let body: Buffer | undefined
    const sendAsset = (exchange: Exchange): void => exchange.send(200, asset.type, (body ??= asset.read()), HEADERS)
    server.get(`/ui/${name}`, gated(options, attributesOf('/ui/'), sendAsset))
  }
  server.get(
    '/ui/events',
    gated(options, attributesOf('/ui/events'), (exchange, caller) => stream.open(exchange, caller, HEADERS)),
  )
  server.addHook('preClose', async () => stream.close())
}

function attributesOf(path: string): () => Attributes {
  return () => pathAttributes('GET', path)
}
