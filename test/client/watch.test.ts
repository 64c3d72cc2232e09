/** The iterator of `watch`, over a transport that delivers what has been buffered after it was aborted. */
import t from 'tap'
import type { Transport } from '../../src/client/reflector/transport.js'
import { watch } from '../../src/client/watch.js'
import { until } from '../support/until.js'

const lines = (count: number, from: number): Uint8Array =>
  Buffer.from(
    Array.from({ length: count }, (_, i) => {
      const metadata = { name: `p${from + i}`, namespace: 'a', resourceVersion: String(from + i) }
      return `${JSON.stringify({ type: 'ADDED', object: { apiVersion: 'v1', kind: 'Pod', metadata } })}\n`
    }).join(''),
  )
const END_OF_INITIAL = Buffer.from(
  `${JSON.stringify({
    type: 'BOOKMARK',
    object: {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { resourceVersion: '10', annotations: { 'k8s.io/initial-events-end': 'true' } },
    },
  })}\n`,
)

void t.test('leaving the loop ends the watch, also with a full queue and more events buffered', async (t) => {
  let afterAbort = 0
  const transport: Transport = {
    send: async ({ signal }) => ({
      status: 200,
      header: () => null,
      body: (async function* () {
        yield END_OF_INITIAL
        for (let from = 100; ; from += 300) {
          const wasAborted = signal.aborted
          yield lines(300, from)
          if (wasAborted) throw new Error('aborted')
          if (signal.aborted) afterAbort++
        }
      })(),
    }),
  }
  const items = watch({ transport, path: '/api/v1/pods' })
  const first = await items.next()
  t.match(first.value, { type: 'STATE', resourceVersion: '10' })
  await new Promise((resolve) => setTimeout(resolve, 50))
  let isOver = false
  void items.return().then(() => (isOver = true))
  await until(() => isOver, 'the iterator has ended')
  t.equal(afterAbort, 1, 'a chunk came after the abort')
})
