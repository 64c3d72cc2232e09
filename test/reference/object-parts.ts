/** Parts of the generated objects, as JSON text. */
import type { Random } from './random.js'

export const WORDS = ['web', 'api', 'db', 'cache', 'edge', 'batch'] as const
export const TEXTS = [
  '',
  'plain',
  'two words',
  'grüße',
  '日本語',
  '🦊 fox',
  'a\\b',
  'tab\\tnew\\nline',
  '<b>&amp;</b>',
  '\\u2028',
  'true',
  '12',
  '1e3',
  'null',
  '~',
  '- x',
] as const
export const INTEGERS = [
  '0',
  '1',
  '-1',
  '42',
  '2147483647',
  '2147483648',
  '9007199254740991',
  '9007199254740993',
  '-9007199254740993',
  '9223372036854775807',
  '-9223372036854775808',
] as const
export const FLOATS = [
  '0.5',
  '1.5',
  '-0.25',
  '1e3',
  '1.0',
  '100000000000000000000',
  '1e21',
  '1e-7',
  '0.000001',
  '3.141592653589793',
  '16777217',
  '123456789.125',
] as const

export function metadata(
  random: Random,
  name: string,
  namespace: string | null,
  more: Readonly<Record<string, string>> = {},
): string {
  const labels = random
    .some(['app', 'tier', 'example.com/team', 'x'], random.below(4))
    .map((key) => `"${key}":"${random.pick([...WORDS, ''])}"`)
  const annotations = random.chance(0.4)
    ? [`"example.com/dotted":"${random.pick(TEXTS)}"`, `"note":"${random.pick(TEXTS)}"`]
    : []
  const members = [
    `"name":"${name}"`,
    ...(namespace === null ? [] : [`"namespace":"${namespace}"`]),
    ...(labels.length > 0 ? [`"labels":{${labels.join(',')}}`] : []),
    ...(annotations.length > 0 ? [`"annotations":{${annotations.join(',')}}`] : []),
    ...Object.entries(more).map(([key, value]) => `"${key}":${value}`),
  ]
  return `{${members.join(',')}}`
}

export function owner(random: Random): string {
  const kind = random.pick(['Rollout', 'Certificate'])
  const group = kind === 'Rollout' ? 'flow.example.com' : 'pki.example.com'
  return `[{"apiVersion":"${group}/v1","kind":"${kind}","name":"o${random.below(9)}","uid":"0000-${random.below(9)}","controller":true,"blockOwnerDeletion":${random.chance(0.5)}}]`
}

export function conditions(random: Random): string {
  const one = (type: string): string => {
    const status = random.pick(['True', 'False', 'Unknown'])
    return `{"type":"${type}","status":"${status}","reason":"R","message":"${random.pick(TEXTS)}","lastTransitionTime":"2026-01-0${1 + random.below(9)}T10:00:00Z"}`
  }
  return `[${random
    .some(['Ready', 'Issuing', 'Synced'], 1 + random.below(3))
    .map(one)
    .join(',')}]`
}
