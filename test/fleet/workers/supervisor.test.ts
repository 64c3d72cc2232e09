/** Tests what happens when the primary cannot create a worker process. */
import cluster from 'node:cluster'
import { EventEmitter } from 'node:events'
import { PassThrough } from 'node:stream'
import t, { type Test } from 'tap'
import type { Primary } from '../../../src/fleet/workers/primary.js'
import { Supervisor } from '../../../src/fleet/workers/supervisor.js'
import { silentLogger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import { VirtualClock } from '../../support/virtual-clock.js'

/** Starts a supervisor of one worker. @returns the exit codes with which it gives up. */
function startWorker(t: Test): readonly number[] {
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
  t.teardown(async () => await supervisor.stop())
  return codes
}

void t.test('a first worker that cannot be created ends the server, without an exception', (t) => {
  t.intercept(cluster, 'fork', {
    value: () => {
      throw Object.assign(new Error('spawn ENOMEM'), { code: 'ENOMEM' })
    },
  })
  const codes = startWorker(t)
  t.same(codes, [1])
  t.end()
})

void t.test('a worker whose process could not be created is not waited for', (t) => {
  // After EAGAIN, ENOENT or EACCES there are streams, but no process, so no 'exit' follows.
  const unborn = (): unknown =>
    Object.assign(new EventEmitter(), {
      id: 1,
      isDead: () => true,
      process: { pid: undefined, stdio: Array.from({ length: 5 }, () => new PassThrough()), stdin: new PassThrough() },
    })
  let forks = 0
  t.intercept(cluster, 'fork', { value: () => (forks++, unborn()) })
  const codes = startWorker(t)
  t.equal(forks, 1)
  t.same(codes, [1], 'the first one ends the server')
  t.end()
})
