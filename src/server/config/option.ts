/**
 * The kinds of options: how each kind parses text, and how it describes a wrong value. The options themselves are in
 * `options.ts`; `load.ts` finds their values.
 *
 * A kind parses *text*, wherever the text came from. YAML's own types are not used, because the same option would then
 * have two grammars. YAML has only two rules of its own: a boolean must be written as a YAML boolean, and a list may be
 * a sequence.
 */

import { parseDuration } from '../../support/duration.js'

export type OptionKind =
  | 'boolean'
  | 'integer'
  | 'fraction'
  | 'bytes'
  | 'duration'
  | 'string'
  | 'choice'
  | 'file'
  | 'list'

/** The message says what is wrong with the value and which limit it exceeds; the caller adds where it came from. */
export class OptionValueError extends Error {
  override readonly name = 'OptionValueError'
}

export interface OptionDoc {
  /** The purpose, and what goes wrong with a bad value, in whole sentences. */
  readonly doc: string
  /** Whether it can be set only in the file. Rarely set options need neither a flag nor a variable. */
  readonly isFileOnly?: boolean
}

/** The definition of an option without the option's name, which `options.ts` adds. */
export interface OptionDefinition<T> extends OptionDoc {
  readonly kind: OptionKind
  /** The unit of the loaded value: milliseconds for durations, bytes for sizes, however the value was written. */
  readonly unit: string | null
  readonly default: T
  readonly min: number | null
  readonly max: number | null
  readonly choices: readonly string[] | null
  /** The default as a person would write it, null if there is none. */
  readonly defaultText: string | null
  /**
   * Parses all values given for the option in one place, in order. A scalar takes the last value, and a list takes all.
   * @throws OptionValueError
   */
  parse(texts: readonly string[]): T
}

export type ValueOf<O> = O extends OptionDefinition<infer T> ? T : never

interface Extra<D> extends OptionDoc {
  readonly default: D
}

function option<T>(
  kind: OptionKind,
  extra: Extra<T>,
  parse: (texts: readonly string[]) => T,
  rest: Partial<Omit<OptionDefinition<T>, keyof OptionDoc | 'kind' | 'default' | 'parse'>> = {},
): OptionDefinition<T> {
  return {
    unit: null,
    min: null,
    max: null,
    choices: null,
    defaultText: extra.default === null ? null : String(extra.default),
    ...rest,
    doc: extra.doc,
    isFileOnly: extra.isFileOnly ?? false,
    default: extra.default,
    kind,
    parse,
  }
}

/** The last value of a scalar wins, as on kube-apiserver's command line, so that a wrapper can append flags. */
function last(texts: readonly string[]): string {
  return texts.at(-1) ?? ''
}

export function boolean<D extends boolean | null>(extra: Extra<D>): OptionDefinition<boolean | D> {
  return option<boolean | D>('boolean', extra, (texts) => {
    const text = last(texts).toLowerCase()
    if (text === 'true' || text === '1') return true
    if (text === 'false' || text === '0') return false
    throw new OptionValueError(`${quote(last(texts))} is neither true nor false`)
  })
}

interface Bounds {
  readonly min: number
  readonly max: number
}

/** @param read returns null for a text of another form, which the message `wrong` then rejects. */
function bounded<D extends number | null>(
  kind: 'integer' | 'fraction' | 'bytes' | 'duration',
  { min, max, unit, ...extra }: Extra<D> & Bounds & { readonly unit?: string },
  wrong: string,
  read: (text: string) => number | null,
  show: (value: number) => string = String,
): OptionDefinition<number | D> {
  const parse = (texts: readonly string[]): number => {
    const text = last(texts).trim()
    const value = read(text)
    if (value === null) throw new OptionValueError(`${quote(text)} ${wrong}`)
    if (value < min || value > max) throw new OptionValueError(`${quote(text)} is not in [${show(min)}, ${show(max)}]`)
    return value
  }
  const defaultText = extra.default === null ? null : show(extra.default)
  return option<number | D>(kind, extra, parse, { unit: unit ?? null, min, max, defaultText })
}

function wholeNumber(text: string): number | null {
  const value = /^[+-]?\d+$/.test(text) ? Number(text) : Number.NaN
  return Number.isSafeInteger(value) ? value : null
}

export function integer<D extends number | null>(
  extra: Extra<D> & Bounds & { unit?: string },
): OptionDefinition<number | D> {
  return bounded('integer', extra, 'is not a whole number', wholeNumber)
}

/** A decimal number that is not negative. */
export function fraction(extra: Extra<number> & Bounds): OptionDefinition<number> {
  const read = (text: string): number | null => (/^\d+(\.\d+)?$/.test(text) ? Number(text) : null)
  return bounded('fraction', extra, 'is not a number such as 0.001', read)
}

/** A number that may also be `off`, which loads as null. An option that is not given is therefore `undefined`. */
export function port(extra: OptionDoc & { default: number | undefined }): OptionDefinition<number | null | undefined> {
  const digits = (text: string): number | null => (/^\d+$/.test(text) ? wholeNumber(text) : null)
  const bounds = { min: 0, max: 65_535, default: extra.default ?? null }
  const number = bounded('integer', { ...extra, ...bounds }, 'is neither a port nor "off"', digits)
  const parse = (texts: readonly string[]): number | null => (last(texts).trim() === 'off' ? null : number.parse(texts))
  return { ...number, default: extra.default, parse }
}

const BYTE_UNITS: Readonly<Record<string, number>> = {
  '': 1,
  k: 1e3,
  kb: 1e3,
  m: 1e6,
  mb: 1e6,
  g: 1e9,
  gb: 1e9,
  ki: 2 ** 10,
  kib: 2 ** 10,
  mi: 2 ** 20,
  mib: 2 ** 20,
  gi: 2 ** 30,
  gib: 2 ** 30,
}

/** `64MiB`, `64Mi`, `64M` (10^6) or plain bytes. */
export function bytes<D extends number | null>(extra: Extra<D> & Bounds): OptionDefinition<number | D> {
  const read = (text: string): number | null => {
    const match = /^(\d{1,15})(?:\.(\d{1,3}))? ?([a-z]{0,3})$/i.exec(text)
    const unit = BYTE_UNITS[(match?.[3] ?? '').toLowerCase()]
    return match === null || unit === undefined ? null : Math.round(Number(`${match[1]}.${match[2] ?? '0'}`) * unit)
  }
  return bounded('bytes', { ...extra, unit: 'bytes' }, 'is not a size such as 64MiB or 1000000', read, formatBytes)
}

export function duration<D extends number | null>(extra: Extra<D> & Bounds): OptionDefinition<number | D> {
  const wrong = 'is not a duration such as 90s, 1h30m or 250ms'
  return bounded('duration', { ...extra, unit: 'ms' }, wrong, parseDuration, formatDuration)
}

export function string<D extends string | null>(
  extra: Extra<D> & { check?: (text: string) => string | null },
): OptionDefinition<string | D> {
  return option<string | D>('string', extra, (texts) => {
    const text = last(texts)
    const wrong = text === '' ? 'is empty' : (extra.check?.(text) ?? null)
    if (wrong !== null) throw new OptionValueError(`${quote(text)} ${wrong}`)
    return text
  })
}

/** A path to a file that must be readable when the server starts. */
export function file(extra: OptionDoc): OptionDefinition<string | null> {
  return option<string | null>('file', { ...extra, default: null }, (texts) => {
    const text = last(texts)
    if (text === '') throw new OptionValueError('the path is empty')
    return text
  })
}

/** Text with its own grammar. */
export function parsed<T>(extra: OptionDoc & { parse: (text: string) => T }): OptionDefinition<T | null> {
  return option<T | null>('string', { ...extra, default: null }, (texts) => extra.parse(last(texts)))
}

export function choice<const C extends string, D extends C | null>(
  extra: Extra<D> & { choices: readonly C[]; removed?: Readonly<Record<string, string>> },
): OptionDefinition<C | D> {
  const parse = (text: string): C => {
    const instead = extra.removed?.[text]
    if (instead !== undefined) throw new OptionValueError(`${quote(text)} was removed: ${instead}`)
    return pick(extra.choices, text)
  }
  return option<C | D>('choice', extra, (texts) => parse(last(texts)), {
    choices: extra.choices,
  })
}

/** Parses an item of a list of choices. @throws OptionValueError */
export function pick<C extends string>(choices: readonly C[], text: string): C {
  const found = choices.find((one) => one === text)
  if (found === undefined) throw new OptionValueError(`${quote(text)} is not one of ${choices.join(', ')}`)
  return found
}

interface ListExtra<T> extends OptionDoc {
  readonly default: readonly NoInfer<T>[]
  /** Default: the item is its text. */
  readonly parseItem?: (text: string) => T
  readonly formatItem?: (item: T) => string
  readonly choices?: readonly string[]
}

/** Items are separated by commas, and the flag may be repeated. */
export function list<T = string>(extra: ListExtra<T>): OptionDefinition<readonly T[]> {
  const format = extra.formatItem ?? String
  return option<readonly T[]>(
    'list',
    extra,
    (texts) => {
      const items = texts
        .flatMap((text) => text.split(','))
        .map((item) => item.trim())
        .filter((item) => item !== '')
      // An unset variable in a script must not silently mean an empty list.
      if (texts.length > 0 && items.length === 0) throw new OptionValueError('is empty')
      return items.map(extra.parseItem ?? ((text) => text as T))
    },
    {
      choices: extra.choices ?? null,
      defaultText: extra.default.length === 0 ? null : extra.default.map(format).join(','),
    },
  )
}

export function formatBytes(value: number): string {
  for (const [unit, size] of [
    ['GiB', 2 ** 30],
    ['MiB', 2 ** 20],
    ['KiB', 2 ** 10],
  ] as const) {
    if (value !== 0 && value % size === 0) return `${value / size}${unit}`
  }
  return String(value)
}

export function formatDuration(ms: number): string {
  for (const [unit, size] of [
    ['h', 3_600_000],
    ['m', 60_000],
    ['s', 1_000],
  ] as const) {
    if (ms !== 0 && ms % size === 0) return `${ms / size}${unit}`
  }
  return `${ms}ms`
}

/** Quotes a value for a message. A long value is shortened, but remains long enough to find the mistake. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 77)}...` : text)
}
