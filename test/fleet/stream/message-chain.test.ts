/** Tests what the messages of a stream say about the age of its content. */
import t from 'tap'
import { MessageChain } from '../../../src/fleet/stream/message-chain.js'
import { type Body, encodeMessage } from '../../../src/fleet/stream/message.js'
import { PlacedSink } from '../../../src/fleet/stream/placed-sink.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { RecordingSink } from '../../engine/feed/recording-sink.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const clusterId = '1'
const testimony = { newest: null, lastDelete: null }

void t.test('a claim does not make the content any fresher', async (t) => {
  const written: (number | null | undefined)[] = []
  const chain = new MessageChain({
    sink: new PlacedSink(new RecordingSink()),
    clock: new VirtualClock(),
    metrics: { hop: () => {}, received: () => {} },
    onMoved: (_place, writtenAt) => void written.push(writtenAt),
  })
  const start = { sequence: 1, epoch: 1, revision: toRevision(5), clusterId, isSynced: true, trustsProgress: true }
  chain.beginAt(start, 1_000)
  const receive = (sequence: number, epoch: number, sentAt: number, body: Body): void => {
    const revisions = { previous: toRevision(5), revision: toRevision(5), settled: toRevision(5) }
    const message = { epoch, ...revisions, sentAt, isSynced: true, trustsProgress: true, clusterId, ...body }
    for (const part of encodeMessage(message, 64 * 1024)) t.equal(chain.receive(sequence, part), null)
  }
  receive(2, 2, 60_000, { kind: 'claim', testimony })
  receive(3, 2, 61_000, { kind: 'progress', testimony })
  t.strictSame(written, [1_000, undefined, 61_000])
  t.equal(chain.place?.epoch, 2)
  await Promise.resolve()
})
