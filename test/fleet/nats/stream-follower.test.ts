/** Tests that a follower whose consumer nobody creates doubts its server, which may not hear the stream's leader. */
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from 'nats'
import t from 'tap'
import { StreamFollower } from '../../../src/fleet/nats/stream-follower.js'
import { systemClock } from '../../../src/support/clock.js'
import { startNats } from '../../support/nats-process.js'

for (const { what, isAnswered, doubts } of [
  { what: 'without an answer, the follower doubts the server', isAnswered: false, doubts: 1 },
  { what: 'for a missing stream, it does not', isAnswered: true, doubts: 0 },
]) {
  void t.test(`a consumer cannot be created: ${what}`, async (t) => {
    const nats = await startNats(t)
    const connection = await connect({ servers: nats.url })
    t.teardown(() => connection.close())
    // Nobody answers requests to the API of a domain that does not exist.
    const domain = isAnswered ? {} : { domain: 'nowhere' }
    const manager = await jetstreamManager(connection, { checkAPI: false, ...domain })
    let doubted = 0
    const reason = new Promise<string>((resolve) => {
      const handlers = { onMessage: () => {}, onIdle: () => {}, onEnd: resolve, onSilent: () => void doubted++ }
      const follower = new StreamFollower(connection, systemClock, handlers)
      void follower.open(manager, 'NONE', 1)
    })
    t.match(await reason, isAnswered ? /stream not found/ : /no JetStream server responds/)
    t.equal(doubted, doubts)
  })
}
