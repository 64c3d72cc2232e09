/**
 * Builds one gzip stream per watcher out of blocks that all watchers of a group share.
 *
 *     header │ block │ block │ block │ … │ last block (empty) │ CRC-32, length
 *      own   │ shared by the group       │        own
 *
 * A block is compressed by itself or stored uncompressed, and ends on a byte boundary with a full flush. It refers to
 * nothing before it, so a watcher may begin with any block, and decoders emit each block at once. Apart from the
 * header, only the trailer is written per watcher: its checksum is computed from the blocks' checksums. A gzip member
 * per batch was rejected: browsers drop everything after the first member, curl fails on it, and Go delays each event
 * by one.
 *
 * Source: RFC 1951, RFC 1952.
 */
import { constants, deflateRawSync } from 'node:zlib'

export const GZIP_HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255])

/** An empty final block with fixed codes. */
const LAST_BLOCK = [0x03, 0x00]
/**
 * Compresses nearly as well as level 6 in half the time, which matters because watchers wait while a batch is
 * compressed.
 */
const LEVEL = 3

/** The longest stored block: the format has two bytes for the length. */
const MOST_STORED = 0xff_ff

/**
 * An empty stored block, as at the end of a full flush. Go's decoder emits stored bytes only when such a block arrives
 * or its 32 KB window is full, so without the block a watcher would wait for its events.
 */
const FLUSH = Buffer.from([0, 0, 0, 0xff, 0xff])

/** Wraps the bytes uncompressed, which adds ten bytes and takes almost no time. */
export function storedBlocks(bytes: Buffer): Buffer[] {
  const blocks: Buffer[] = []
  for (let at = 0; at < bytes.length; at += MOST_STORED) {
    const stored = bytes.subarray(at, at + MOST_STORED)
    const head = Buffer.alloc(5)
    head.writeUInt16LE(stored.length, 1)
    head.writeUInt16LE(~stored.length & 0xff_ff, 3)
    blocks.push(head, stored)
  }
  blocks.push(FLUSH)
  return blocks
}

export function deflateBlock(bytes: Buffer): Buffer {
  const block = deflateRawSync(bytes, { level: LEVEL, finishFlush: constants.Z_FULL_FLUSH })
  // Copy the result, because it is a slice of a 16 KB buffer, which it would keep alive.
  return Buffer.from(block)
}

/** @param length the number of bytes before compression. */
export function gzipTrailer(crc: number, length: number): Buffer {
  const trailer = Buffer.alloc(10)
  trailer.set(LAST_BLOCK)
  trailer.writeUInt32LE(crc, 2)
  trailer.writeUInt32LE(length % 2 ** 32, 6)
  return trailer
}
