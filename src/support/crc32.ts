/**
 * Computes the CRC-32 (as in gzip) of concatenated parts from the checksums of the parts alone. Checksums are
 * polynomials over GF(2), modulo the CRC's own polynomial. To append a part of n bytes, the checksum so far is
 * multiplied by x^8n, and the part's checksum is added.
 *
 * The multiplier of a part is computed once, so that each of thousands of streams that share the part needs only one
 * multiplication, of about fifty nanoseconds.
 *
 * Source: RFC 1952, 8 (the CRC); a polynomial is 32 bits, the coefficient of x^0 in the highest.
 */
import { crc32 } from 'node:zlib'

export interface Checksum {
  /** Unsigned. */
  readonly crc: number
  /** Bytes. */
  readonly length: number
  /** x^(8 × length). */
  readonly shift: number
}

const POLYNOMIAL = 0xed_b8_83_20
const ONE = 0x80_00_00_00
const X = 0x40_00_00_00

export const EMPTY_CHECKSUM: Checksum = { crc: 0, length: 0, shift: ONE }

export function checksumOf(bytes: Buffer): Checksum {
  return { crc: crc32(bytes), length: bytes.length, shift: shiftOf(bytes.length) }
}

/** Returns the checksum of `first` followed by `second`. */
export function joined(first: Checksum, second: Checksum): Checksum {
  return {
    crc: appendedCrc(first.crc, second),
    length: first.length + second.length,
    shift: multiply(first.shift, second.shift) >>> 0,
  }
}

/** Returns the CRC of data with CRC `crc` followed by `part`. */
export function appendedCrc(crc: number, part: Checksum): number {
  return (multiply(part.shift, crc) ^ part.crc) >>> 0
}

/** Multiplies two polynomials of 32 bits, signed or not, modulo the CRC's polynomial. */
function multiply(a: number, b: number): number {
  let product = 0
  for (let bits = a; bits !== 0; bits <<= 1) {
    if (bits < 0 || bits >= ONE) product ^= b
    b = b & 1 ? (b >>> 1) ^ POLYNOMIAL : b >>> 1
  }
  return product
}

/** x^(8 × 2^i) for each bit i of a length. */
const POWERS: number[] = []
for (let power = X, i = 0; i < 3 + 48; i++) {
  if (i >= 3) POWERS.push(power)
  power = multiply(power, power) >>> 0
}

function shiftOf(length: number): number {
  let shift = ONE
  for (let i = 0, left = length; left > 0; i++, left = Math.floor(left / 2)) {
    if (left % 2 === 1) shift = multiply(POWERS[i]!, shift) >>> 0
  }
  return shift
}
