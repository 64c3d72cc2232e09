import { setImmediate as nextIteration } from 'node:timers/promises'
import t from 'tap'
import { type Handler, HandlerRegistration } from '../../src/client/handler-registration.js'

void t.test('a handler that another one removes is not called for the current event', async (t) => {
  const told: string[] = []
  const register = (handler: Handler<string>): HandlerRegistration<string> =>
    new HandlerRegistration(
      handler,
      16,
      (error) => t.fail(String(error)),
      () => {},
    )
  const first = register({
    deleted: () => {
      told.push('first')
      second.remove()
    },
  })
  const second: HandlerRegistration<string> = register({ deleted: () => void told.push('second') })
  for (const one of [first, second]) one.notify({ type: 'deleted', key: 'a', object: 'a', isFinalStateUnknown: false })
  await nextIteration()
  t.same(told, ['first'])
  first.remove()
})
