import t from 'tap'
import type { ApiContext } from '../../../../src/server/transports/api/api-context.js'
import type { WatchRequest } from '../../../../src/server/transports/api/request.js'
import { handleWatch } from '../../../../src/server/transports/api/watch-handler.js'
import type { WatchTransport } from '../../../../src/server/transports/watch/watch-transport.js'

void t.test('a watch that has waited for memory does not begin in the form that objects had before', async (t) => {
  const cache = { history: 'before', assertReadable: () => {}, assertResumable: () => {} }
  let held = 0
  const hold = async (): Promise<() => void> => {
    held++
    return () => void held--
  }
  // The definition changes while the watch waits.
  const admitInTurn = (): Promise<() => void> => {
    cache.history = 'after'
    return hold()
  }
  const request = {
    live: { cache },
    caller: { identity: 'ann', confirm: () => undefined },
    exchange: { signal: new AbortController().signal, query: new URLSearchParams() },
    options: { start: { kind: 'after', revision: 1 } },
  }
  const context = { memory: { admitInTurn }, watchers: { acquire: hold } }
  const transport = { open: () => t.fail('it begins') }
  await t.rejects(
    handleWatch(
      context as unknown as ApiContext,
      request as unknown as WatchRequest,
      transport as unknown as WatchTransport,
    ),
    { code: 429, message: /has changed/ },
  )
  t.equal(held, 0)
})
