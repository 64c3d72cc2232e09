/** Starts one of distributary's own informers, which reports its requests. */
import type { Test } from 'tap'
import { nodeTransport } from '../../src/client/node/node-transport.js'
import type { Transport } from '../../src/client/reflector/transport.js'
import { SharedInformer } from '../../src/client/shared-informer.js'

interface Observer {
  readonly onList: () => void
  readonly onRefused: (status: number) => void
}

export function startInformer(t: Test, url: string, { onList, onRefused }: Observer): SharedInformer {
  const { origin, pathname } = new URL(url)
  const inner = nodeTransport({ server: origin })
  const transport: Transport = {
    async send(request) {
      const { watch, sendInitialEvents } = request.query
      if (watch === undefined || sendInitialEvents !== undefined) onList()
      const response = await inner.send(request)
      if (response.status >= 400) onRefused(response.status)
      return response
    },
  }
  const informer = new SharedInformer({ transport, path: pathname })
  informer.start()
  t.teardown(async () => {
    await informer.stop()
    inner.close()
  })
  return informer
}
