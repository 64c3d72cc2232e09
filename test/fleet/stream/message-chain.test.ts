/** Tests what the messages of a stream say about the age of its content. */
import t from 'tap'
import { MessageChain } from '../../../src/fleet/stream/message-chain.js'
import { type Body, encodeMessage } from '../../../src/fleet/stream/message.js'
import { PlacedSink } from '../../../src/fleet/stream/placed-sink.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { batch, put, rev } from '../../support/objects.js'
import { RecordingSink } from '../../engine/feed/recording-sink.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const clusterId = '1'

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
  receive(2, 2, 60_000, { kind: 'claim' })
  receive(3, 2, 61_000, { kind: 'progress' })
  t.strictSame(written, [1_000, undefined, 61_000])
  t.equal(chain.place?.epoch, 2)
  await Promise.resolve()
})

void t.test('a chain that kept its place while etcd moved the sink must meet what etcd brought', async (t) => {
  for (const [told, isOtherHistory] of [
    ['the same', undefined],
    ['another', true],
  ] as const) {
    const sink = new PlacedSink(new RecordingSink())
    const chain = new MessageChain({
      sink,
      clock: new VirtualClock(),
      metrics: { hop: () => {}, received: () => {} },
      onMoved: () => {},
    })
    sink.replace(rev(5), 'initial').commit()
    chain.beginAt({ sequence: 1, epoch: 1, revision: rev(5), clusterId, isSynced: true, trustsProgress: true }, 1_000)
    sink.apply([batch(6, put('a', 'the same', 6))])
    chain.meets(sink.lastBatch)
    const revisions = { previous: rev(5), revision: rev(6), settled: rev(6) }
    const body = { kind: 'batches', batches: [batch(6, put('a', told, 6))] } as const
    const message = { epoch: 1, ...revisions, sentAt: 2_000, isSynced: true, trustsProgress: true, clusterId, ...body }
    for (const part of encodeMessage(message, 64 * 1024)) {
      const end = chain.receive(2, part)
      t.equal(end?.kind, isOtherHistory === true ? 'broken' : undefined, told)
      t.match(end ?? {}, isOtherHistory === true ? { isOtherHistory: true } : {})
    }
  }
})
