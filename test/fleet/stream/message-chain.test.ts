/** Tests what the messages of a stream say about the sink's content: how old it is, and whose history it tells. */
import t from 'tap'
import { type Chain, followed } from '../../../src/fleet/stream/message-chain.js'
import type { Body, Message } from '../../../src/fleet/stream/message.js'
import { batch, podKeyValue, put, rev } from '../../support/objects.js'

const clusterId = '1'
const chain: Chain = { sequence: 1, epoch: 1, revision: rev(5), clusterId, isSynced: true, expected: null }

function messageOf(body: Body, epoch: number, revision: number, sentAt: number): Message {
  const revisions = { previous: rev(5), revision: rev(revision), settled: rev(revision) }
  return { epoch, ...revisions, sentAt, isSynced: true, trustsProgress: true, clusterId, ...body }
}

void t.test('a claim does not make the content any fresher', async (t) => {
  const claimed = followed(chain, 2, messageOf({ kind: 'claim' }, 2, 5, 60_000), rev(5))
  t.match(claimed, { kind: 'follows', chain: { sequence: 2, epoch: 2 }, writtenAt: null })
  const progressed = followed({ ...chain, epoch: 2 }, 3, messageOf({ kind: 'progress' }, 2, 5, 61_000), rev(5))
  t.match(progressed, { kind: 'follows', chain: { sequence: 3 }, writtenAt: 61_000 })
})

void t.test('a chain that kept its place while etcd moved the sink must meet what etcd brought', async (t) => {
  const behind = { ...chain, expected: batch(6, put('a', 'the same', 6)) }
  const told = (value: string): Message =>
    messageOf({ kind: 'batches', batches: [batch(6, put('a', value, 6))] }, 1, 6, 2_000)
  const met = { kind: 'follows', chain: { revision: 6, expected: null }, fresh: [] }
  t.match(followed(behind, 2, told('the same'), rev(6)), met)
  t.match(followed(behind, 2, told('another'), rev(6)), { kind: 'broken', isOtherHistory: true })
  const quiet = messageOf({ kind: 'progress' }, 1, 6, 2_000)
  t.match(followed(behind, 2, quiet, rev(6)), { kind: 'broken', isOtherHistory: true }, 'nothing was written there')
})

void t.test('a chain behind a state must meet its newest put, among whatever was written with it', async (t) => {
  const expected = { revision: rev(6), put: podKeyValue('a', 'the same', 6) }
  const told = (value: string): Message =>
    messageOf({ kind: 'batches', batches: [batch(6, put('b', 'x', 6), put('a', value, 6))] }, 1, 6, 2_000)
  const behind = { ...chain, expected }
  t.match(followed(behind, 2, told('the same'), rev(6)), { kind: 'follows', chain: { expected: null }, fresh: [] })
  t.match(followed(behind, 2, told('another'), rev(6)), { kind: 'broken', isOtherHistory: true })
})
