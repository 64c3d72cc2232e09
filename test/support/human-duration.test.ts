import t from 'tap'
import { ageOf, humanDuration } from '../../src/support/human-duration.js'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const YEAR = 365 * DAY

void t.test('a duration is shown in the steps that kubectl users know', async (t) => {
  const table: readonly (readonly [durationMs: number, text: string])[] = [
    [-2 * SECOND, '<invalid>'],
    [-1 * SECOND, '0s'],
    [0, '0s'],
    [999, '0s'],
    [SECOND, '1s'],
    [2 * MINUTE - 1, '119s'],
    [2 * MINUTE, '2m'],
    [2 * MINUTE + SECOND, '2m1s'],
    [10 * MINUTE - SECOND, '9m59s'],
    [10 * MINUTE, '10m'],
    [3 * HOUR - SECOND, '179m'],
    [3 * HOUR, '3h'],
    [3 * HOUR + MINUTE, '3h1m'],
    [8 * HOUR - MINUTE, '7h59m'],
    [8 * HOUR, '8h'],
    [48 * HOUR - 1, '47h'],
    [48 * HOUR, '2d'],
    [2 * DAY + 3 * HOUR, '2d3h'],
    [8 * DAY - HOUR, '7d23h'],
    [8 * DAY, '8d'],
    [2 * YEAR - DAY, '729d'],
    [2 * YEAR, '2y'],
    [2 * YEAR + 10 * DAY, '2y10d'],
    [8 * YEAR - DAY, '7y364d'],
    [8 * YEAR, '8y'],
    [30 * YEAR + 5 * DAY, '30y'],
  ]
  for (const [durationMs, text] of table) t.equal(humanDuration(durationMs), text, String(durationMs))
})

void t.test('an age needs a time', async (t) => {
  const now = Date.parse('2026-11-21T00:10:00Z')
  for (const [timestamp, text] of [
    ['2026-11-21T00:06:31Z', '3m29s'],
    ['2026-11-21T00:06:31.250000Z', '3m28s'],
    ['2026-11-21T01:06:31+01:00', '3m29s'],
    [undefined, '<unknown>'],
    [null, '<unknown>'],
    ['', '<unknown>'],
    ['yesterday', '<invalid>'],
    ['2026', '<invalid>'],
    [17, '<invalid>'],
  ] as const) {
    t.equal(ageOf(timestamp, now), text, String(timestamp))
  }
})
