/**
 * `/ui/` serves the status page and its files; `/ui/events` sends its figures once a second as server-sent events. The
 * objects that the page shows come over the API itself, as they would for any browser.
 *
 * The figures are made once a second for all open pages, and not at all when there is none. Everything comes from this
 * process: the page names no other host, and its policy would not let the browser ask one.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { type Attributes, pathAttributes, resourceAttributes } from '../auth/authz/authorizer.js'
import type { Resource } from '../model/resource.js'
import { StatusError, TooManyRequestsError } from '../model/status.js'
import type { Clock, Timer } from '../support/clock.js'
import type { Caller, RequestGate } from '../transports/limits/request-gate.js'
import { Exchange } from '../transports/server/exchange.js'
import { EVENT_STREAM_START } from '../transports/framing/server-sent-events.js'
import { type Reader, type ServerStatus, statusFor } from './status.js'

export interface UiOptions {
  readonly gate: RequestGate
  readonly status: () => Promise<ServerStatus>
  readonly clock: Clock
  /** Called when too many pages are open. */
  readonly onRejected: () => void
}

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'"
const HEADERS = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-cache',
} as const
const EVERY_MS = 1_000
/** A page left open in a forgotten tab costs a connection each. */
const MOST_LOOKERS = 50

interface Asset {
  readonly type: string
  read(): Buffer
}

const require = createRequire(import.meta.url)
const uPlotFolder = (): string => dirname(require.resolve('uplot'))

const assets: Readonly<Record<string, Asset>> = {
  '': { type: 'text/html; charset=utf-8', read: () => source('index.html') },
  'style.css': { type: 'text/css; charset=utf-8', read: () => source('style.css') },
  'icon.svg': { type: 'image/svg+xml', read: () => source('icon.svg') },
  'uplot.css': { type: 'text/css; charset=utf-8', read: () => readFileSync(`${uPlotFolder()}/uPlot.min.css`) },
  'uplot.js': {
    type: 'text/javascript; charset=utf-8',
    read: () => readFileSync(`${uPlotFolder()}/uPlot.iife.min.js`),
  },
  ...Object.fromEntries(
    ['main.js', 'overview.js', 'browser.js', 'elements.js', 'yaml-difference.js'].map((name) => [
      name,
      { type: 'text/javascript; charset=utf-8', read: () => readFileSync(new URL(`page/${name}`, import.meta.url)) },
    ]),
  ),
}

/** Files that the compiler does not copy are read from the sources, which are in the package too: one folder up, or two in a test build. */
function source(name: string): Buffer {
  try {
    return readFileSync(new URL(`../../src/ui/page/${name}`, import.meta.url))
  } catch {
    return readFileSync(new URL(`../../../src/ui/page/${name}`, import.meta.url))
  }
}

/** The rights of a caller are checked once a second, so that a revoked permission hides at once what it showed. */
function readerOf(caller: Caller): Reader {
  const may = async (attributes: Attributes): Promise<boolean> => {
    try {
      await caller.authorize(attributes)
      return true
    } catch {
      return false
    }
  }
  return {
    mayGet: async (path) => await may(pathAttributes('GET', path)),
    mayList: async (resource) => await may(resourceAttributes(listOf(resource))),
  }
}

function listOf(resource: Pick<Resource, 'group' | 'version' | 'plural'>): Parameters<typeof resourceAttributes>[0] {
  const path = resource.group === '' ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`
  return { verb: 'list', resource, namespace: '', name: '', path: `${path}/${resource.plural}` }
}

export function registerUi(server: FastifyInstance, options: UiOptions): void {
  const read = new Map<string, Buffer>()
  const lookers = new Map<Exchange, Caller>()
  let timer: Timer | null = null

  const tell = async (to: Iterable<readonly [Exchange, Caller]>): Promise<void> => {
    const status = await options.status()
    for (const [{ response }, caller] of to) {
      const shown = await statusFor(status, readerOf(caller))
      const event = `event: status\ndata: ${JSON.stringify(shown)}\n\n`
      // A page that does not read gets the next figures instead, because those of a second ago are of no use.
      if (!response.writableNeedDrain && !response.writableEnded) response.write(event)
    }
  }
  const tick = (): void => {
    timer = null
    if (lookers.size === 0) return
    void tell(lookers).finally(() => (timer ??= options.clock.setTimer(EVERY_MS, tick)))
  }
  const answer = async (
    path: string,
    request: { raw: Exchange['request'] },
    reply: { raw: Exchange['response']; hijack(): unknown },
    send: (exchange: Exchange, caller: Caller) => void,
  ): Promise<void> => {
    reply.hijack()
    const exchange = new Exchange(request.raw, reply.raw)
    try {
      send(exchange, await options.gate.check(exchange, pathAttributes('GET', path)))
    } catch (error) {
      exchange.fail(StatusError.from(error))
    }
  }

  server.get('/ui', (_request, reply) => reply.redirect('/ui/'))
  for (const [name, asset] of Object.entries(assets)) {
    server.get(`/ui/${name}`, (request, reply) =>
      answer('/ui/', request, reply, (exchange) => {
        let body = read.get(name)
        if (body === undefined) read.set(name, (body = asset.read()))
        exchange.send(200, asset.type, body, HEADERS)
      }),
    )
  }
  server.get('/ui/events', (request, reply) =>
    answer('/ui/events', request, reply, (exchange, caller) => {
      if (lookers.size >= MOST_LOOKERS) {
        options.onRejected()
        throw new TooManyRequestsError('too many status pages are open', 10)
      }
      exchange.writeHead(200, { ...HEADERS, 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' })
      exchange.response.write(EVENT_STREAM_START)
      lookers.set(exchange, caller)
      exchange.response.once('close', () => lookers.delete(exchange))
      void tell([[exchange, caller]])
      timer ??= options.clock.setTimer(EVERY_MS, tick)
    }),
  )
  server.addHook('preClose', async () => {
    timer?.cancel()
    for (const { response } of lookers.keys()) response.end()
  })
}
