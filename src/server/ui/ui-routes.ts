/**
 * `/ui/` serves the status page and its files; `/ui/events` sends its figures (`status-stream.ts`). The page itself
 * gets the objects over the API, like any other client.
 *
 * The page contains no data, and a browser cannot send a token to open it. So a browser that is not admitted gets the
 * page with the 401 or 403, and the page asks for a token. Anything but a navigation gets a Status, as elsewhere. The
 * page's files are open to all. They still pass the gate, which limits callers that it does not know.
 *
 * Everything comes from this process. The page names no other host, and its content security policy forbids other
 * hosts.
 */
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { ForbiddenError, UnauthorizedError } from '../../kubernetes/model/status.js'
import { type Attributes, pathAttributes } from '../auth/authz/authorizer.js'
import { readPackageFile } from '../../support/package-file.js'
import type { Caller } from '../transports/gate/caller.js'
import type { Exchange } from '../transports/exchange/exchange.js'
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
    [
      'main.js',
      'session.js',
      'overview.js',
      'answers.js',
      'reading.js',
      'chart.js',
      'browser.js',
      'elements.js',
      'yaml-difference.js',
    ].map((name) => [
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
  const bodies = new Map<string, Buffer>()
  const sendAsset = (exchange: Exchange, name: string, code: number): void => {
    const asset = assets[name]!
    const body = bodies.get(name) ?? asset.read()
    bodies.set(name, body)
    exchange.send(code, asset.type, body, code === 200 ? HEADERS : { ...HEADERS, 'cache-control': 'no-store' })
  }
  const serve = (name: string, path: string, send: (exchange: Exchange, caller: Caller) => unknown): void => {
    const isFile = name !== '' && name in assets
    /** Returns null for a caller that is not admitted and has been answered. */
    const check = async (exchange: Exchange, attributes: Attributes): Promise<Caller | null> => {
      try {
        return await options.gate.check(exchange, attributes)
      } catch (error) {
        const isNavigation = exchange.requestHeaders.accept?.includes('text/html') === true
        const isRefusal = error instanceof UnauthorizedError || error instanceof ForbiddenError
        if (!isRefusal || !(isFile || isNavigation)) throw error
        sendAsset(exchange, isFile ? name : '', isFile ? 200 : error.code)
        return null
      }
    }
    const attributes = (): Attributes => pathAttributes('GET', path)
    server.get(
      `/ui/${name}`,
      gated({ ...options, gate: { check } }, attributes, async (exchange, caller) => {
        if (caller !== null) await send(exchange, caller)
      }),
    )
  }
  server.get('/ui', (_request, reply) => reply.redirect('/ui/'))
  for (const name of Object.keys(assets)) serve(name, '/ui/', (exchange) => sendAsset(exchange, name, 200))
  serve('events', '/ui/events', (exchange, caller) => stream.open(exchange, caller, HEADERS))
  server.addHook('preClose', async () => stream.close())
}
