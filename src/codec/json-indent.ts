/**
 * JSON for people: two spaces per level, one member per line, as Go's json.Indent and so the API server writes it. Only white
 * space is added; numbers, escapes and duplicate keys stay as they are.
 */
const QUOTE = 0x22
const BACKSLASH = 0x5c
const NEWLINE = 0x0a
const SPACE = 0x20
const INDENT = 2

/** @param json valid, and without white space between tokens (`scanObject`'s output, or what JSON.stringify writes). */
export function indentJson(json: Buffer): Buffer {
  const target = Buffer.allocUnsafeSlow(indent(json, null))
  indent(json, target)
  return target
}

/** Writes when there is a target; counts either way. A second pass is cheaper than growing, and exact. */
function indent(json: Buffer, target: Buffer | null): number {
  let to = 0
  let depth = 0
  let i = 0
  const newLine = (): void => {
    const width = 1 + depth * INDENT
    if (target !== null) {
      target[to] = NEWLINE
      target.fill(SPACE, to + 1, to + width)
    }
    to += width
  }
  while (i < json.length) {
    const byte = json[i]!
    switch (byte) {
      case QUOTE: {
        const start = i
        i++
        while (i < json.length && json[i] !== QUOTE) i += json[i] === BACKSLASH ? 2 : 1
        i++
        if (target !== null) json.copy(target, to, start, i)
        to += i - start
        continue
      }
      case 0x7b:
      case 0x5b:
        if (target !== null) target[to] = byte
        to++
        // What closes at once stays on the line.
        if (json[i + 1] === byte + 2) {
          if (target !== null) target[to] = byte + 2
          to++
          i++
        } else {
          depth++
          newLine()
        }
        break
      case 0x7d:
      case 0x5d:
        depth--
        newLine()
        if (target !== null) target[to] = byte
        to++
        break
      case 0x2c:
        if (target !== null) target[to] = byte
        to++
        newLine()
        break
      case 0x3a:
        if (target !== null) {
          target[to] = byte
          target[to + 1] = SPACE
        }
        to += 2
        break
      default:
        if (target !== null) target[to] = byte
        to++
    }
    i++
  }
  return to
}
