/** Tests what happens when the primary cannot create a worker process. */
import cluster from 'node:cluster'
import t from 'tap'
import type { Primary } from '../../../src/fleet/workers/primary.js'
import { Supervisor } from '../../../src/fleet/workers/supervisor.js'
import { silentLogger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import { VirtualClock } from '../../support/virtual-clock.js'

void t.test('a first worker that cannot be created ends the server, without an exception', (t) => {
  t.intercept(cluster, 'fork', {
    value: () => {
      throw Object.assign(new Error('spawn ENOMEM'), { code: 'ENOMEM' })
    },
  })
  t.intercept(cluster, 'setupPrimary', { value: () => {} })
  const codes: number[] = []
  const supervisor = new Supervisor({
    workers: 1,
    primary: {} as Primary,
    hello: () => '',
    graceMs: 0,
    clock: new VirtualClock(),
    random: seededRandom(1),
    logger: silentLogger,
    onRestart: () => {},
    onServing: () => {},
    onGivenUp: (code) => codes.push(code),
  })
  supervisor.start()
  t.same(codes, [1])
  t.end()
})
