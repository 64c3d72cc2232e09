/**
 * The only error thrown when reading a stored value. The bytes in etcd come from other programs, so every fault in
 * them becomes this error. The caller counts it, logs it once per key and continues with the next object.
 */

/**
 * - `truncated`: a length points past the end.
 * - `malformed`: an unknown encoding, or text where JSON or a number should be.
 * - `wire-type`: a known field in a wire type it cannot have.
 * - `too-deep`, `too-large`: beyond the limits of this codec.
 * - `unknown-kind`: well formed, but the kind has no schema.
 * - `unsupported`: well formed, but this codec cannot read it.
 */
export type CodecErrorCode =
  | 'truncated'
  | 'malformed'
  | 'wire-type'
  | 'too-deep'
  | 'too-large'
  | 'unknown-kind'
  | 'unsupported'

export class CodecError extends Error {
  override readonly name = 'CodecError'

  /** @param offset the byte of the value where the fault was found; -1 when no single byte is at fault. */
  constructor(
    readonly code: CodecErrorCode,
    message: string,
    readonly offset = -1,
  ) {
    super(offset < 0 ? message : `${message} at byte ${offset}`)
  }
}
