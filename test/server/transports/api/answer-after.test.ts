/** After every wait, the gate and the cache are asked again; a handler cannot answer without that. */
import t from 'tap'
import { answerAfter, type PendingRequest } from '../../../../src/server/transports/api/answer-after.js'
import { ForbiddenError, NotImplementedError } from '../../../../src/kubernetes/model/status.js'
import { handleGet } from '../../../../src/server/transports/api/get-handler.js'

/** The type of the exchange that each handler gets with its request. */
type HandlersExchange = Parameters<typeof handleGet>[1]['exchange']

/** Never called: it compiles only as long as a handler's own exchange offers no way to answer. */
export function cannotAnswer(exchange: HandlersExchange): void {
  // @ts-expect-error: answers are sent with the exchange of `answerAfter`.
  exchange.send(200, 'text/plain', Buffer.alloc(0))
  // @ts-expect-error
  exchange.sendNotModified({})
  // @ts-expect-error
  exchange.writeHead(200, {})
  // @ts-expect-error
  exchange.response.end()
}

interface Asked {
  readonly confirm?: () => undefined
  readonly isReadable?: () => boolean
  readonly verb?: string
}

function requestOf({ confirm = () => undefined, isReadable = () => true, verb = 'list' }: Asked) {
  const asked: boolean[] = []
  const readiness = {
    assertReadable: (isWhole: boolean) => {
      asked.push(isWhole)
      if (!isReadable()) throw new NotImplementedError('it cannot be read')
    },
  }
  const request = {
    exchange: {},
    caller: { confirm },
    verb,
    live: { cache: { readiness } },
  } as unknown as PendingRequest
  return { request, asked }
}

void t.test(
  'an answer begins only after the wait, when the caller and the resource have been asked about',
  async (t) => {
    const order: string[] = []
    const confirm = (): undefined => void order.push('confirmed')
    const { request, asked } = requestOf({ confirm, verb: 'watch' })
    const wait = async (): Promise<number> => {
      await Promise.resolve()
      order.push('waited')
      return 1
    }
    await answerAfter(request, wait, (exchange, waited) => {
      t.equal(exchange, request.exchange)
      order.push(`answered with ${waited}`)
    })
    t.same(order, ['waited', 'confirmed', 'answered with 1'])
    t.same(asked, [true, true], 'before the wait and after it')
  },
)

void t.test('a caller that has lost its permission while it waited gets no answer', async (t) => {
  const rejections = [
    // The gate may refuse synchronously or later.
    () => {
      throw new ForbiddenError('no longer', { details: {} })
    },
    () => Promise.reject(new ForbiddenError('no longer', { details: {} })) as unknown as undefined,
  ]
  for (const confirm of rejections) {
    const { request } = requestOf({ confirm })
    const released: string[] = []
    const answer = (): void => void t.fail('it is answered')
    await t.rejects(
      answerAfter(
        request,
        () => 'a slot',
        answer,
        (slot) => void released.push(slot),
      ),
      { code: 403 },
    )
    t.same(released, ['a slot'])
  }
})

void t.test('a resource that has become unreadable during the wait is not answered from', async (t) => {
  let isReadable = true
  const { request, asked } = requestOf({ isReadable: () => isReadable })
  const released: string[] = []
  const wait = (): string => {
    isReadable = false
    return 'a slot'
  }
  const answer = (): void => void t.fail('it is answered')
  await t.rejects(
    answerAfter(request, wait, answer, (slot) => void released.push(slot)),
    { code: 501 },
  )
  t.same(released, ['a slot'])
  t.same(asked, [false, false], 'a list checks the part that it reads')
  await t.rejects(
    answerAfter(request, () => t.fail('it waits for nothing'), answer),
    { code: 501 },
  )
})
