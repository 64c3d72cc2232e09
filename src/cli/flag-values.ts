/** Parses the text of a flag. Each function returns the value or, as `problem`, what is wrong with it. */
import type { Flag } from './command.js'

export type Value = { readonly value: string | number | boolean } | { readonly problem: string }

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

export function readValue(flag: Flag, name: string, text: string): Value {
  switch (flag.kind) {
    case 'boolean':
      if (text === 'true' || text === 'false') return { value: text === 'true' }
      return { problem: `--${name} is true or false, not "${text}"` }
    case 'integer':
      if (!/^\d+$/.test(text)) return { problem: `--${name} is a whole number, not "${text}"` }
      return within(flag, name, Number(text), String)
    case 'duration': {
      const duration = durationMs(text)
      if (duration === null) return { problem: `--${name} is a duration such as 30s or 1h30m, not "${text}"` }
      return within(flag, name, duration, (ms) => `${ms / 1_000}s`)
    }
    case 'choice':
      if (flag.choices?.includes(text) === true) return { value: text }
      return { problem: `--${name} is one of ${(flag.choices ?? []).join(', ')}, not "${text}"` }
    case 'string':
    case 'file':
    case 'list':
      return { value: text }
    default:
      return flag.kind satisfies never
  }
}

function within({ min = 0, max }: Flag, name: string, value: number, show: (value: number) => string): Value {
  if (value < min) return { problem: `--${name} is at least ${show(min)}` }
  if (max !== undefined && value > max) return { problem: `--${name} is at most ${show(max)}` }
  return { value }
}

/** Parses `90s`, `1.5m`, `1h30m`; a bare number is seconds. Returns null for any other text. */
export function durationMs(text: string): number | null {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1_000
  if (!/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(text)) return null
  let sum = 0
  for (const [, number, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)) sum += Number(number) * UNITS[unit!]!
  return Math.round(sum)
}
