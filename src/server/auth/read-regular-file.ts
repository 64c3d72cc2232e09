/**
 * Reads a regular file, and rejects anything else without waiting for it, because a named pipe or a device would block
 * the whole process.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'

/** @throws Error for anything but a regular file of at most `maxBytes`. */
export function readRegularFile(path: string, maxBytes = Infinity): Buffer {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const stats = fstatSync(descriptor)
    if (!stats.isFile()) throw new Error(`${path} is not a regular file`)
    if (stats.size > maxBytes) throw new Error(`${path} has ${stats.size} bytes, more than ${maxBytes}`)
    return readFileSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
