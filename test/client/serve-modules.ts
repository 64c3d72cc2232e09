/** A site with an empty page and the client's modules, as a web server would serve them to browsers. */
import { readFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'

/** @returns its origin; the client is at `/client/browser.js`. */
export async function serveModules(t: Test): Promise<string> {
  const modules = fileURLToPath(new URL('../../src/', import.meta.url))
  const site = http.createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://x')
    if (pathname === '/')
      return void response.setHeader('content-type', 'text/html').end('<!doctype html><title>x</title>')
    if (!/^\/(client|kubernetes\/model|engine\/model|support)\/[\w/-]+\.js$/.test(pathname))
      return void response.writeHead(404).end()
    response.setHeader('content-type', 'text/javascript').end(readFileSync(join(modules, pathname)))
  })
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    site.closeAllConnections()
    site.close()
  })
  return `http://127.0.0.1:${(site.address() as AddressInfo).port}`
}
