/** Reads JSON numbers as Go's decoder does: as an integer if the text is a 64-bit integer, otherwise as a float. */
export type GoNumber =
  | { readonly kind: 'int'; readonly int: bigint }
  | { readonly kind: 'float'; readonly float: number }

const MIN_INT64 = -(2n ** 63n)
const MAX_INT64 = 2n ** 63n - 1n

export function goNumber(value: number | { readonly text: string }): GoNumber {
  const text = typeof value === 'number' ? String(value) : value.text
  if (/^[+-]?\d+$/.test(text)) {
    const int = BigInt(text.replace('+', ''))
    if (int >= MIN_INT64 && int <= MAX_INT64) return { kind: 'int', int }
  }
  return { kind: 'float', float: Number(text) }
}

/**
 * Writes a number as Go's `fmt.Print` does: with an exponent of at least two digits if the number is at least a million
 * or below 0.0001.
 */
export function printedNumber(value: GoNumber): string {
  if (value.kind === 'int') return String(value.int)
  const { float } = value
  const [mantissa = '', exponentText = '0'] = float.toExponential().split('e')
  const exponent = Number(exponentText)
  if (exponent >= -4 && exponent < 6) return Object.is(float, -0) ? '-0' : String(float)
  return `${mantissa}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`
}

/** Writes a number as Go's JSON encoder does. */
export function encodedNumber(value: GoNumber): string {
  if (value.kind === 'int') return String(value.int)
  return Object.is(value.float, -0) ? '-0' : String(value.float)
}
