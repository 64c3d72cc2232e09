/** Measures the CPU time of a function call in this process, in µs, so other programs on the machine do not count. */
import type { Choice } from './choice.js'

const SAMPLES = 40

export interface CallCosts {
  readonly p50Us: number
  readonly fastestUs: number
  readonly slowestUs: number
}

/** Takes 40 samples, each the mean of many calls, after a warm-up of ten times as many. */
export function costOfCalls(act: () => unknown, { quick }: Choice): CallCosts {
  const calls = quick ? 200 : 2_000
  for (let i = 0; i < calls * 10; i++) act()
  const samples = Array.from({ length: SAMPLES }, () => {
    const before = process.cpuUsage()
    for (let i = 0; i < calls; i++) act()
    const { user, system } = process.cpuUsage(before)
    return (user + system) / calls
  }).toSorted((a, b) => a - b)
  return { p50Us: samples[SAMPLES / 2]!, fastestUs: samples[0]!, slowestUs: samples[SAMPLES - 1]! }
}
