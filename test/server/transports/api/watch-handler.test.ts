import t from 'tap'
import type { ApiContext } from '../../../../src/server/transports/api/api-context.js'
import type { WatchRequest } from '../../../../src/server/transports/api/request.js'
import { handleWatch, type TransportOf } from '../../../../src/server/transports/api/watch-handler.js'

void t.test('a watch that has waited for memory does not begin in the form that objects had before', async (t) => {
  let hasSought = false
  const seek = async (): Promise<boolean> => {
    await Promise.resolve()
    hasSought = true
    return true
  }
  const history = { name: 'before', assertResumable: () => {}, seek }
  const cache = { history, readiness: { assertReadable: () => {} } }
  let held = 0
  const hold = async (): Promise<() => void> => {
    held++
    return () => void held--
  }
  // The definition changes while the watch waits.
  const admitInTurn = (): Promise<() => void> => {
    t.ok(hasSought, 'no turn is held while history from before the start is read back')
    history.name = 'after'
    return hold()
  }
  const request = {
    live: { cache },
    caller: { identity: 'ann', confirm: () => undefined },
    exchange: { signal: new AbortController().signal, query: new URLSearchParams() },
    options: { start: { kind: 'after', revision: 1 } },
  }
  const context = { memory: { admitInTurn }, watchers: { acquire: hold }, isDraining: () => false }
  const transportOf = (): void => void t.fail('it begins')
  await t.rejects(
    handleWatch(
      context as unknown as ApiContext,
      request as unknown as WatchRequest,
      transportOf as unknown as TransportOf,
    ),
    { code: 429, message: /has changed/ },
  )
  t.equal(held, 0)
})

void t.test(
  'a watch that has waited for history from before the start does not begin in a server that drains',
  async (t) => {
    let isDraining = false
    const seek = async (): Promise<boolean> => {
      isDraining = true
      return true
    }
    const request = {
      live: { cache: { history: { name: '', seek } } },
      caller: { identity: 'ann' },
      exchange: { signal: new AbortController().signal },
      options: { start: { kind: 'after', revision: 1 } },
    }
    const context = { isDraining: () => isDraining }
    const transportOf = (): void => void t.fail('it begins')
    await t.rejects(
      handleWatch(
        context as unknown as ApiContext,
        request as unknown as WatchRequest,
        transportOf as unknown as TransportOf,
      ),
      { code: 503 },
    )
  },
)
