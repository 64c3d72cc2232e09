/**
 * The time of day of a process that a test starts, which the test sets forward and back while it runs, as an operator
 * or NTP does. Only the wall clock moves: timers and durations use another clock, which nobody can set.
 *
 * It replaces Node's `Date`, so it needs no library and works wherever Node does. OpenSSL keeps the real time.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { until } from './until.js'

/** Loaded before the program. `Date` is a proxy, so that `instanceof`, subclasses and `Date()` work as before. */
const PRELOAD = `
const { readFileSync, writeFileSync } = require('node:fs')
const file = process.env.SHIFT_FILE
const { now } = Date
let text = '0'
const look = () => {
  const before = text
  text = readFileSync(file, 'utf8') || before
  if (text !== before) writeFileSync(file + '-seen', text)
}
look()
setInterval(look, 10).unref()
const shifted = () => now() + Number(text)
globalThis.Date = Date.prototype.constructor = new Proxy(Date, {
  get: (target, name) => (name === 'now' ? shifted : target[name]),
  apply: (target) => new target(shifted()).toString(),
  construct: (target, values, made) =>
    Reflect.construct(target, values.length === 0 ? [shifted()] : values, made === Date ? target : made),
})
`

export interface ShiftedClock {
  /** Variables for the environment of one process. */
  readonly environment: Readonly<Record<string, string>>
  /** Sets the running process's clock to the real time plus this many milliseconds. */
  set(shiftMs: number): Promise<void>
}

export function shiftedClock(t: Pick<Test, 'teardown'>): ShiftedClock {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-clock-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const [preload, file] = [join(folder, 'preload.cjs'), join(folder, 'shift')]
  writeFileSync(preload, PRELOAD)
  writeFileSync(file, '0')
  return {
    environment: { NODE_OPTIONS: `--require=${preload}`, SHIFT_FILE: file },
    async set(shiftMs) {
      writeFileSync(file, String(shiftMs))
      await until(() => readFileSync(`${file}-seen`, 'utf8') === String(shiftMs), 'the clock is set')
    },
  }
}
