/**
 * Checks `?timeout=` of requests other than watches. The API server rejects a value that is not a Go duration before
 * anything else. How long a request may take is decided elsewhere.
 */
import { BadRequestError } from '../model/status.js'
import { goDuration } from '../../support/duration.js'
import { parameter, type Query } from './query.js'

/** Longer values are not parsed, because no duration needs as many characters. */
const MAX_SHOWN = 128

/** @throws BadRequestError in the API server's words */
export function checkTimeout(query: Query): void {
  const text = parameter(query, 'timeout')
  if (text === undefined || text === '') return
  const duration = goDuration(text.slice(0, MAX_SHOWN))
  if (typeof duration === 'string')
    throw new BadRequestError(`invalid timeout specified in the request URL - ${duration}`)
}
