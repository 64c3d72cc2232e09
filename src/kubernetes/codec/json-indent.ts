/**
 * Indents compact JSON for people, two spaces per level, in a stream. Only white space is added between tokens; strings
 * and numbers are copied unchanged.
 */
const QUOTE = 0x22
const BACKSLASH = 0x5c

/** @param json valid, and without white space between tokens (output of `scanObject` or JSON.stringify). */
export function indentJson(json: Buffer): Buffer {
  return new JsonIndenter().push(json)
}

/** Indents text that arrives in parts, cut anywhere. */
export class JsonIndenter {
  #depth = 0
  #inString = false
  #isEscaped = false
  /** Whether the last token opened an object or a list that is still empty. */
  #justOpened = false

  push(part: Buffer): Buffer {
    const out: Buffer[] = []
    let start = 0
    const put = (until: number, text: string): void => {
      if (until > start) out.push(part.subarray(start, until))
      if (text !== '') out.push(Buffer.from(text, 'latin1'))
      start = until
    }
    for (let i = 0; i < part.length; i++) {
      const byte = part[i]!
      if (this.#inString) {
        if (this.#isEscaped) this.#isEscaped = false
        else if (byte === BACKSLASH) this.#isEscaped = true
        else if (byte === QUOTE) this.#inString = false
        continue
      }
      if (byte === 0x7d || byte === 0x5d) {
        this.#depth--
        // An empty object or list stays on one line.
        if (!this.#justOpened) put(i, this.#newLine())
        this.#justOpened = false
        continue
      }
      if (this.#justOpened) {
        put(i, this.#newLine())
        this.#justOpened = false
      }
      if (byte === QUOTE) this.#inString = true
      else if (byte === 0x7b || byte === 0x5b) {
        this.#depth++
        this.#justOpened = true
      } else if (byte === 0x2c) put(i + 1, this.#newLine())
      else if (byte === 0x3a) put(i + 1, ' ')
    }
    put(part.length, '')
    return Buffer.concat(out)
  }

  #newLine(): string {
    return `\n${'  '.repeat(this.#depth)}`
  }
}
