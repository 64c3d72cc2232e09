import { MethodNotAllowedError } from '../../../engine/model/status.js'
import type { Exchange } from './exchange.js'

/** @param what is requested. @throws MethodNotAllowedError */
export function requirePost(exchange: Exchange, what: string): void {
  const { method = '' } = exchange.request
  if (method === 'POST') return
  exchange.headers['allow'] = 'POST'
  throw new MethodNotAllowedError(`request ${what} with POST, not ${method}`)
}
