/** Tests what a publishing session writes, depending on what it finds and has already written. */
import t from 'tap'
import { HistoryFingerprint } from '../../../src/engine/feed/history-fingerprint.js'
import type { Body, Message } from '../../../src/fleet/stream/message.js'
import { FINGERPRINT_EVERY } from '../../../src/fleet/stream/recall-history.js'
import {
  beginAfter,
  isFingerprintDue,
  nextMessage,
  type Session,
  written,
} from '../../../src/fleet/stream/publisher-session.js'
import { batch, put, rev } from '../../support/objects.js'

const fingerprint = new HistoryFingerprint()
const stamp = { sentAt: 7, trustsProgress: true }

function tailOf(isSynced: boolean) {
  const revisions = { previous: rev(4), revision: rev(6), settled: rev(5) }
  const message: Message = { kind: 'progress', epoch: 3, ...revisions, isSynced, ...stamp, clusterId: 'c' }
  return { sequence: 12, end: { message, fingerprint } }
}

function batches(at: number): Body {
  return { kind: 'batches', batches: [batch(at, put('a', '1', at))] }
}

void t.test('a session has the next epoch, and continues only a stream that has everything', async (t) => {
  const place = { epoch: 4, sequence: 12 }
  t.match(beginAfter(tailOf(true), 0), { ...place, revision: 6, settled: 5, clusterId: 'c', isSynced: true })
  t.match(beginAfter(tailOf(false), 0), { ...place, revision: 0, isSynced: false, continuedAt: null })
  t.match(beginAfter({ sequence: 12, end: null }, 0), { epoch: 13 }, 'no earlier epoch can be higher')
  t.match(beginAfter({ sequence: 0, end: null }, 3), { epoch: 4 }, 'the stream was deleted')
  t.match(beginAfter(tailOf(true), 50), { epoch: 51 }, 'the stream has lost its end')
})

void t.test('each message follows the one before, and only content settles a revision', async (t) => {
  let session: Session = beginAfter(tailOf(true), 0)
  const write = (body: Body, changes: Parameters<typeof nextMessage>[2]): Message => {
    const message = nextMessage(session, body, changes, stamp)
    session = written(session, message, session.sequence + 1)
    return message
  }
  t.match(write({ kind: 'claim' }, {}), { epoch: 4, previous: 6, revision: 6, settled: 5, isSynced: true })
  t.match(write(batches(7), { revision: rev(7) }), { previous: 6, revision: 7, settled: 7 })
  t.match(write({ kind: 'progress' }, { revision: rev(9) }), { previous: 7, revision: 9, settled: 7 })
  session = { ...session, isSynced: false }
  const state = { kind: 'state', reason: 'gap', snapshot: 's' } as const
  t.match(write(state, { revision: rev(20) }), { previous: 9, revision: 20, settled: 20, isSynced: false })
  t.match(write({ kind: 'progress' }, { isSynced: true }), { revision: 20, isSynced: true })
  t.match(session, { sequence: 17, revision: 20, isSynced: true })
})

void t.test('every mark has the fingerprint, and so has one in some messages of batches', async (t) => {
  let session: Session = beginAfter(tailOf(true), 0)
  for (const kind of ['claim', 'progress'] as const) t.ok(isFingerprintDue(session, { kind }))
  const due: boolean[] = []
  for (let at = 7; at < 7 + 2 * FINGERPRINT_EVERY; at++) {
    const isDue = isFingerprintDue(session, batches(at))
    due.push(isDue)
    const digested = isDue ? { fingerprint: fingerprint.digested() } : {}
    session = written(session, nextMessage(session, batches(at), {}, { ...stamp, ...digested }), at)
  }
  t.equal(due.indexOf(true), FINGERPRINT_EVERY - 1)
  t.equal(due.filter(Boolean).length, 2)
})
