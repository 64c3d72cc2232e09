/**
 * Reads CBOR for comparison: strings of both kinds are strings, bytes are base64, and integers are distinguished from
 * floats. It shares the library with the server, and nothing else.
 */
import { decodeFirst, Token, Tokenizer, Type } from 'cborg'
import { type LosslessJson, markNumber } from './lossless.js'

const SELF_DESCRIBED = 55_799
const BASE64 = 22

/** Replaces what JavaScript has no value for. */
class MarkingTokenizer extends Tokenizer {
  #tag: number | null = null

  constructor(bytes: Buffer) {
    super(bytes, { allowBigInt: true })
  }

  override next(): Token {
    const token = super.next()
    const tag = this.#tag
    this.#tag = token.type === Type.tag ? (token.value as number) : null
    switch (token.type) {
      case Type.bytes:
        return text(Buffer.from(token.value as Uint8Array).toString(tag === BASE64 ? 'base64' : 'utf8'))
      case Type.uint:
      case Type.negint:
        return text(markNumber(String(token.value)))
      case Type.float: {
        const value = token.value as number
        return text(markNumber(Number.isInteger(value) ? `${value}.0` : String(value)))
      }
      default:
        return token
    }
  }
}

function text(value: string): Token {
  // The length was already counted with the token that this one replaces.
  return new Token(Type.string, value, 0)
}

/** All documents, one after another. @throws Error when there is anything else, or a document without the tag. */
export function readCbor(bytes: Buffer): LosslessJson[] {
  const documents: LosslessJson[] = []
  let rest: Buffer = bytes
  while (rest.length > 0) {
    if (rest.readUIntBE(0, 3) !== 0xd9_d9_f7) throw new Error('it does not describe itself as CBOR')
    const tokenizer = new MarkingTokenizer(rest)
    const tags = Object.fromEntries([SELF_DESCRIBED, BASE64].map((tag) => [tag, (content: () => unknown) => content()]))
    documents.push(decodeFirst(rest, { tokenizer, tags, rejectDuplicateMapKeys: true })[0] as LosslessJson)
    rest = rest.subarray(tokenizer.pos())
  }
  return documents
}
