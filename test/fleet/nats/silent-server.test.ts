/** Tests when a connection moves to another NATS server. */
import t from 'tap'
import { SilentServer } from '../../../src/fleet/nats/silent-server.js'
import { silentLogger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import { VirtualClock } from '../../support/virtual-clock.js'

function connected(servers: number, seed = 1) {
  const clock = new VirtualClock()
  const client = {
    isConnected: true,
    servers,
    /** When it moved. */
    moves: [] as number[],
    moveOn(): void {
      this.moves.push(clock.monotonic())
    },
  }
  const server = new SilentServer({ client, clock, random: seededRandom(seed), logger: silentLogger })
  /** Something is left unanswered twice a second. */
  const doubtFor = (ms: number): void => {
    for (let left = ms; left > 0; left -= 500) {
      server.doubt()
      clock.advance(500)
    }
  }
  return { clock, client, server, doubtFor }
}

void t.test('every server is tried within half a minute, and later moves become rare', (t) => {
  for (let seed = 1; seed <= 20; seed++) {
    const { client, doubtFor } = connected(3, seed)
    doubtFor(30_000)
    t.ok(client.moves.length >= 3, `${client.moves.length} moves`)
    t.ok(client.moves[0]! >= 3_000, 'an election may answer first')
    doubtFor(10 * 60_000)
    const before = client.moves.length
    doubtFor(60 * 60_000)
    t.ok(client.moves.length - before <= 25, 'one every few minutes')
  }
  t.end()
})

void t.test('a single late answer, or one an hour, does not move the connection', (t) => {
  const { client, clock, server } = connected(3)
  for (let i = 0; i < 10; i++) {
    server.doubt()
    clock.advance(3_600_000)
  }
  t.same(client.moves, [])
  t.end()
})

void t.test('after a time without doubts, the next fault finds the same patience as the first', (t) => {
  const { client, clock, doubtFor } = connected(3)
  doubtFor(30 * 60_000)
  clock.advance(60_000)
  const since = clock.monotonic()
  const before = client.moves.length
  doubtFor(30_000)
  t.ok(client.moves.length - before >= 3)
  t.ok(client.moves[before]! - since >= 3_000)
  t.end()
})

void t.test('there is nowhere to move from the only server, and a lost connection moves by itself', (t) => {
  const only = connected(1)
  only.doubtFor(60_000)
  t.same(only.client.moves, [])
  const lost = connected(3)
  lost.client.isConnected = false
  lost.doubtFor(60_000)
  t.same(lost.client.moves, [])
  t.end()
})
