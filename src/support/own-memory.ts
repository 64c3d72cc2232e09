/**
 * Memory for bytes that are kept for long. Node takes small buffers from a pool, and each of them keeps 8 KB of it
 * alive, because others are taken and dropped in between.
 */
export function ownCopy(bytes: Uint8Array): Buffer {
  const own = Buffer.allocUnsafeSlow(bytes.length)
  own.set(bytes)
  return own
}

/** Returns the bytes themselves if they fill their memory, otherwise a copy. */
export function inOwnMemory(bytes: Buffer): Buffer {
  return bytes.length === bytes.buffer.byteLength ? bytes : ownCopy(bytes)
}
