import t from 'tap'

import { CodecError } from '../../../../src/kubernetes/codec/protobuf/codec-error.js'
import {
  formatDouble,
  formatDuration,
  formatFloat,
  formatMicroTime,
  formatTime,
} from '../../../../src/kubernetes/codec/protobuf/scalars.js'

void t.test('times are RFC 3339 in UTC, over leap years and before 1970', (t) => {
  for (const [seconds, text] of [
    [0, '1970-01-01T00:00:00Z'],
    [-1, '1969-12-31T23:59:59Z'],
    [951_782_400, '2000-02-29T00:00:00Z'],
    [4_107_542_399, '2100-02-28T23:59:59Z'],
    [4_107_542_400, '2100-03-01T00:00:00Z'],
    [253_402_300_799, '9999-12-31T23:59:59Z'],
    [253_402_300_800, '10000-01-01T00:00:00Z'],
    [-62_135_596_799, '0001-01-01T00:00:01Z'],
  ] as const) {
    t.equal(formatTime(seconds), text)
  }
  for (let seconds = -3e10; seconds < 9e10; seconds += 86_399 * 1013) {
    t.equal(formatTime(seconds), new Date(seconds * 1000).toISOString().replace('.000', ''))
  }
  t.throws(() => formatTime(2 ** 60), CodecError)
  t.end()
})

void t.test('micro times always have six digits, and the rest is cut off', (t) => {
  t.equal(formatMicroTime(0, 0), '1970-01-01T00:00:00.000000Z')
  t.equal(formatMicroTime(1, 1_999), '1970-01-01T00:00:01.000001Z')
  t.equal(formatMicroTime(0, 999_999_999), '1970-01-01T00:00:00.999999Z')
  t.equal(formatMicroTime(0, -1_000), '1969-12-31T23:59:59.999999Z')
  t.end()
})

void t.test('durations are as Go prints them', (t) => {
  for (const [nanoseconds, text] of [
    [0n, '0s'],
    [1n, '1ns'],
    [1_100n, '1.1µs'],
    [2_200_000n, '2.2ms'],
    [3_300_000_000n, '3.3s'],
    [60_000_000_000n, '1m0s'],
    [245_000_000_000n, '4m5s'],
    [5_000_000_000_000n, '1h23m20s'],
    [-5_400_000_000_001n, '-1h30m0.000000001s'],
    [9_223_372_036_854_775_807n, '2562047h47m16.854775807s'],
  ] as const) {
    t.equal(formatDuration(nanoseconds), text)
  }
  t.end()
})

void t.test('doubles and floats are written as the shortest text that reads as the same number', (t) => {
  t.equal(formatDouble(0.1), '0.1')
  t.equal(formatDouble(-0), '-0')
  t.equal(formatFloat(Math.fround(0.1)), '0.1')
  t.equal(formatFloat(16_777_216), '16777216')
  for (const value of [Number.NaN, Infinity, -Infinity]) t.throws(() => formatDouble(value), CodecError)
  t.end()
})
