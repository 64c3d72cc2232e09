/**
 * Reads quantities (`500m`, `1.5Gi`, `1e3`) and writes them as Go does: without fractions, in the largest unit that
 * needs none. Text that Go finds in this form already is kept, and Go's test lets some other spellings pass as well.
 *
 * Source: k8s.io/apimachinery/pkg/api/resource, quantity.go and suffix.go.
 */

const QUANTITY = /^([+-]?)0*((?:[1-9]\d*)?)(?:\.(\d*))?([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?$/
/** A longer text stays as it is, because arithmetic with as many digits takes too long. Go accepts it. */
const MAX_LENGTH = 1_024

const DECIMAL_UNITS: ReadonlyMap<number, string> = new Map([
  [-9, 'n'],
  [-6, 'u'],
  [-3, 'm'],
  [0, ''],
  [3, 'k'],
  [6, 'M'],
  [9, 'G'],
  [12, 'T'],
  [15, 'P'],
  [18, 'E'],
])
const POWERS: ReadonlyMap<string, number> = new Map([...DECIMAL_UNITS].map(([power, unit]) => [unit, power]))
const BINARY_UNITS = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei']
const NANO = -9
const MAX_INT64 = 2n ** 63n - 1n
/** The most digits with which Go calculates in 64 bits, and with which it keeps text. */
const MAX_INT64_DIGITS = 18

/** For Go, a unit or a point alone is a zero. */
export function isQuantity(text: string): boolean {
  const trimmed = text.trim()
  return trimmed !== '' && QUANTITY.test(trimmed)
}

/**
 * @param text a quantity.
 * @param least the smallest power of ten that is kept: what is smaller is rounded up, away from zero.
 */
export function goQuantity(text: string, least = NANO): string {
  const trimmed = text.trim()
  const match = trimmed.length > MAX_LENGTH ? null : QUANTITY.exec(trimmed)
  if (match === null) return text
  const [, sign, digits = '', fraction = '', unit = ''] = match
  const number = digits === '' ? '0' : digits
  const value = BigInt(number + fraction) * (sign === '-' ? -1n : 1n)
  if (value === 0n) return '0'
  if (unit.endsWith('i')) return binary(trimmed, number, fraction, value, BINARY_UNITS.indexOf(unit), least)
  const isExponent = /^[eE]./.test(unit)
  const power = isExponent ? Number(unit.slice(1)) | 0 : POWERS.get(unit)!
  const scale = power - fraction.length
  const shifted = number + fraction
  if (shifted.length <= MAX_INT64_DIGITS && scale >= least) {
    if (scale % 3 === 0 && !shifted.endsWith('000') && !shifted.startsWith('0')) return trimmed
  }
  return decimal(value, scale, isExponent, least)
}

function binary(text: string, number: string, fraction: string, value: bigint, step: number, least: number): string {
  const bits = BigInt(10 * step)
  // Go's estimate of the decimal digits that it has for the number.
  const precision = 15 - number.length - Math.trunc(3 * step) - 1
  const isShort = fraction === '' && precision >= 0
  if (isShort && (value & 7n) !== 0n) return text
  const unscaled = value << bits
  const ten = 10n ** BigInt(fraction.length)
  const most = MAX_INT64 * ten
  const capped = isShort ? unscaled : unscaled > most ? most : unscaled < -most ? -most : unscaled
  const isSmall = capped > -1024n * ten && capped < 1024n * ten
  if (isSmall || capped % ten !== 0n) return decimal(capped, -fraction.length, false, least)
  let whole = capped / ten
  let unit = 0
  while (whole % 1024n === 0n) {
    whole /= 1024n
    unit++
  }
  return `${whole}${BINARY_UNITS[unit] ?? ''}`
}

/** Writes `value` × 10 ^ `scale`. */
function decimal(value: bigint, scale: number, isExponent: boolean, least: number): string {
  let [amount, power] = [value, scale]
  if (power < least) {
    const excess = least - power
    const divisor = excess > MAX_LENGTH ? 0n : 10n ** BigInt(excess)
    const sign = amount < 0n ? -1n : 1n
    const exact = divisor === 0n ? 0n : amount / divisor
    amount = divisor !== 0n && exact * divisor === amount ? exact : exact + sign
    power = least
  }
  while (amount % 10n === 0n) {
    amount /= 10n
    power++
  }
  while (power % 3 !== 0) {
    amount *= 10n
    power--
  }
  if (isExponent) return power === 0 ? String(amount) : `${amount}e${power}`
  // Go has no unit for what is larger than `E`, and writes none.
  return `${amount}${DECIMAL_UNITS.get(power) ?? ''}`
}
