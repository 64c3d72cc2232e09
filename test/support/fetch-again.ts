/**
 * Fetches, and tries again after a 408 or 429, as clients do. On a busy machine the deadlines and the limits of a client
 * are reached where nothing is wrong.
 */
import { pause } from './until.js'

const BUSY: readonly number[] = [408, 429]
const AGAIN_MS = 500

export async function fetchAgain(url: string, init: RequestInit): Promise<Response> {
  for (;;) {
    const response = await fetch(url, init)
    if (!BUSY.includes(response.status)) return response
    await response.arrayBuffer()
    await pause(AGAIN_MS)
  }
}
