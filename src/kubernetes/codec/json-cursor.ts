/** Steps through one JSON value that is known to be valid. */
import { decodeString } from '../../engine/facts/json-strings.js'
import { CLOSE_BRACE, CLOSE_BRACKET, endOfString, endOfValue, skipSpace } from '../../support/json-walk.js'

export class JsonCursor {
  at = 0

  constructor(readonly json: Buffer) {}

  /** Returns the first byte of the next value. */
  peek(): number | undefined {
    this.at = skipSpace(this.json, this.at)
    return this.json[this.at]
  }

  /** Steps into a container or to its next item. At the end it steps past the container and returns false. */
  next(): boolean {
    // Step over the opening bracket, the comma or the closing bracket.
    const byte = this.peek()
    this.at++
    if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) return false
    const first = this.peek()
    if (first !== CLOSE_BRACE && first !== CLOSE_BRACKET) return true
    this.at++
    return false
  }

  /** Steps over the name of a member and its colon. */
  name(): string {
    const end = endOfString(this.json, this.at)
    const name = decodeString(this.json, this.at, end)
    this.at = skipSpace(this.json, end) + 1
    return name
  }

  /** Steps over a value. @returns where it begins. */
  pass(): number {
    this.peek()
    const start = this.at
    this.at = endOfValue(this.json, start)
    return start
  }
}
