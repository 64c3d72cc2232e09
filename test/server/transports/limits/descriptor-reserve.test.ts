import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import t from 'tap'
import {
  descriptorLimit,
  DescriptorReserve,
  maxConnections,
} from '../../../../src/server/transports/limits/descriptor-reserve.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

class Connection extends EventEmitter {
  destroyed = false
  destroy(): void {
    this.destroyed = true
    this.emit('close')
  }
}

void t.test('connections beyond the bound are closed, counted, and logged once a minute', async (t) => {
  const clock = new VirtualClock()
  const lines: unknown[] = []
  let rejected = 0
  const reserve = new DescriptorReserve({
    clock,
    logger: { warn: (fields: unknown) => void lines.push(fields) } as never,
    maxConnections: 2,
    onRejected: () => rejected++,
  })
  const open = (): { connection: Connection; isAdmitted: boolean } => {
    const connection = new Connection()
    return { connection, isAdmitted: reserve.admits(connection as unknown as Socket) }
  }
  const first = open()
  t.ok(first.isAdmitted && open().isAdmitted)
  for (let i = 0; i < 3; i++) t.match(open(), { isAdmitted: false, connection: { destroyed: true } })
  t.equal(rejected, 3)
  t.same(lines, [{ maxConnections: 2 }])
  clock.advance(60_000)
  open()
  t.equal(lines.length, 2, 'again after a minute')
  first.connection.destroy()
  t.ok(open().isAdmitted, 'a closed one makes room, a refused one never held any')
  t.notOk(open().isAdmitted)
})

void t.test('the reserve leaves the rest of the process enough descriptors at any limit', async (t) => {
  for (const [descriptors, clients, metrics] of [
    [200, 124, 19],
    [1_024, 896, 32],
    [65_536, 64_512, 256],
    [1_048_576, 1_047_552, 256],
    [40, 1, 16],
    [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 256],
  ] as const) {
    t.same(maxConnections(descriptors), { clients, metrics }, String(descriptors))
  }
  t.ok(descriptorLimit() > 100)
})
