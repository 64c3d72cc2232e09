/** Joins the parts of messages, which a stream delivers in order. */
import { BrokerError } from '../broker.js'
import { decodePart, joinParts, type Message, type Part } from './message.js'

/** The most bytes of one message held until its last part arrives. */
const MOST_BYTES = 64 * 2 ** 20

export class PartAssembler {
  #parts: Part[] = []
  #bytes = 0

  /**
   * @returns null while parts are missing.
   * @throws BrokerError `corrupt`: the part does not follow the previous one.
   */
  add(data: Buffer): Message | null {
    const part = decodePart(data)
    // A first part after an incomplete message means that an earlier publisher died before it wrote the last part.
    if (part.index === 0) this.clear()
    if (part.index !== this.#parts.length) throw corrupt(`part ${part.index} arrived without the parts before it`)
    const [first] = this.#parts
    if (first !== undefined && first.header.epoch !== part.header.epoch)
      throw corrupt('a message has parts from two publishers')
    if (part.count === 1) return joinParts([part])
    this.#parts.push(part)
    this.#bytes += part.bytes.length
    if (this.#bytes > MOST_BYTES) throw corrupt(`a message is larger than ${MOST_BYTES} bytes`)
    if (part.index < part.count - 1) return null
    const message = joinParts(this.#parts)
    this.clear()
    return message
  }

  clear(): void {
    this.#parts = []
    this.#bytes = 0
  }
}

function corrupt(reason: string): BrokerError {
  return new BrokerError('corrupt', reason)
}
