/** Tests what a subscriber reports to its sink, over random histories of its knowledge. */
import t from 'tap'
import { seededRandom } from '../../../src/support/random.js'
import {
  type Facts,
  nextReportedFreshness,
  SILENT_MS,
  type ReportedFreshness,
} from '../../../src/fleet/stream/reported-freshness.js'

const WELL: Facts = { followedMs: 60_000, isCurrent: true, isInTrouble: false, ageMs: 0 }

void t.test('content that no publisher has confirmed in time is never called fresh', (t) => {
  const random = seededRandom(7)
  const isTrue = (share: number): boolean => random.next() < share
  let told: ReportedFreshness = 'nothing'
  const seen = new Set<string>()
  for (let i = 0; i < 2_000; i++) {
    const facts: Facts = {
      followedMs: isTrue(0.8) ? random.next() * 3 * SILENT_MS : null,
      isCurrent: isTrue(0.7),
      isInTrouble: isTrue(0.2),
      ageMs: isTrue(0.9) ? random.next() * 3 * SILENT_MS : null,
    }
    const before: ReportedFreshness = told
    told = nextReportedFreshness(told, facts)
    seen.add(`${before} ${told}`)
    const { followedMs, isCurrent, isInTrouble, ageMs } = facts
    if (told === 'fresh') {
      t.ok(followedMs !== null && !isInTrouble && ageMs !== null && ageMs <= SILENT_MS, JSON.stringify(facts))
      if (before !== 'fresh') t.ok(isCurrent, 'a sink that lacks part of the stream is not fresh')
    }
    if (before !== 'nothing') t.not(told, 'nothing', 'reads that were answered stay answered')
    if (before === 'nothing' && told !== 'nothing') t.ok(isCurrent, 'the first reads find the whole stream')
    if (isTrue(0.05)) told = 'nothing'
  }
  t.same([...seen].sort(), [
    'fresh fresh',
    'fresh stale',
    'nothing fresh',
    'nothing nothing',
    'nothing stale',
    'stale fresh',
    'stale stale',
  ])
  t.end()
})

void t.test('a replica that finds no publisher serves the content of the stream after a wait', (t) => {
  const alone = { ...WELL, ageMs: null }
  t.equal(nextReportedFreshness('nothing', { ...alone, followedMs: 0 }), 'nothing')
  t.equal(nextReportedFreshness('nothing', { ...alone, followedMs: SILENT_MS + 1 }), 'stale')
  t.equal(
    nextReportedFreshness('nothing', { ...alone, followedMs: 0, isInTrouble: true }),
    'stale',
    'a publisher that says so is not waited for',
  )
  t.end()
})
