/** Compares protobuf by its wire format alone, without any of our schemas. */

export interface Field {
  readonly number: number
  /** A number for a varint; bytes for everything else. */
  readonly value: number | Buffer
}

export function* fieldsOf(bytes: Buffer): Generator<Field, void, void> {
  let at = 0
  const varint = (): number => {
    let [value, scale] = [0, 1]
    for (;;) {
      const byte = bytes[at++]
      if (byte === undefined) throw new Error('it ends within a number')
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
      scale *= 128
    }
  }
  const take = (length: number): Buffer => {
    if (at + length > bytes.length) throw new Error('it ends within a field')
    return bytes.subarray(at, (at += length))
  }
  while (at < bytes.length) {
    const tag = varint()
    const [number, wireType] = [Math.floor(tag / 8), tag & 7]
    if (wireType === 0) yield { number, value: varint() }
    else if (wireType === 1) yield { number, value: take(8) }
    else if (wireType === 2) yield { number, value: take(varint()) }
    else throw new Error(`wire type ${wireType}`)
  }
}

interface WireDifference {
  readonly where: string
  readonly theirs: string
  readonly ours: string
}

/** A field whose value is bytes. */
export function field(number: number, value: Buffer): Buffer {
  const head = [number * 8 + 2]
  let { length } = value
  for (; length > 127; length = Math.floor(length / 128)) head.push((length % 128) + 128)
  return Buffer.concat([Buffer.from([...head, length]), value])
}

/**
 * Where two messages differ, as field numbers: `.2.1`; null where they do not. The order of fields does not matter, the
 * order of one field's values does.
 */
export function wireDifference(
  theirs: Buffer,
  ours: Buffer,
  isSame: (where: string, theirs: Buffer, ours: Buffer) => boolean,
  path = '',
): WireDifference | null {
  if (theirs.equals(ours) || isSame(path, theirs, ours)) return null
  const [a, b] = [byNumber(theirs), byNumber(ours)]
  const here = { where: path, theirs: shown(theirs), ours: shown(ours) }
  if (a === null || b === null) return here
  for (const number of new Set([...a.keys(), ...b.keys()])) {
    const [one, other] = [a.get(number) ?? [], b.get(number) ?? []]
    if (one.length !== other.length)
      return {
        where: `${path}.${number}`,
        theirs: `${one.length}: ${shown(one[0])}`,
        ours: `${other.length}: ${shown(other[0])}`,
      }
    for (const [index, value] of one.entries()) {
      const against = other[index]!
      if (typeof value === 'number' || typeof against === 'number') {
        if (value !== against) return { where: `${path}.${number}`, theirs: shown(value), ours: shown(against) }
        continue
      }
      const inner = wireDifference(value, against, isSame, `${path}.${number}`)
      if (inner !== null) return inner
    }
  }
  return null
}

function byNumber(bytes: Buffer): Map<number, (number | Buffer)[]> | null {
  const fields = new Map<number, (number | Buffer)[]>()
  try {
    for (const { number, value } of fieldsOf(bytes)) {
      if (number === 0) return null
      fields.set(number, [...(fields.get(number) ?? []), value])
    }
  } catch {
    return null
  }
  return fields
}

function shown(value: number | Buffer | undefined): string {
  return typeof value === 'number' || value === undefined
    ? String(value)
    : JSON.stringify(value.toString('latin1').slice(0, 120))
}
