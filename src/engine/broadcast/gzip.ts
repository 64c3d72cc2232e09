/**
 * Makes one gzip stream for each watcher out of blocks that all of them share.
 *
 *     header │ block │ block │ block │ … │ last block (empty) │ CRC-32, length
 *      own   │ shared by the group       │        own
 *
 * A block is compressed by itself, or stored as it is, and ends on a byte, with a full flush: it refers to nothing before it, so a
 * watcher may begin with any, and decoders hand it out at once. Only the checksum differs, and it follows from those of the blocks. A gzip member for each batch was
 * rejected: browsers drop all after the first member, curl fails on it, and Go delays each event by one.
 *
 * Source: RFC 1951, RFC 1952.
 */
import { constants, deflateRawSync } from 'node:zlib'

export const GZIP_HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255])

/** An empty final block, in fixed codes. */
const LAST_BLOCK = [0x03, 0x00]
/** Nearly the size of level 6 in half its time: a batch is compressed while its watchers wait. */
const LEVEL = 3

/** The longest stored block: its length is written in two bytes. */
const MOST_STORED = 0xff_ff

/**
 * The end of a full flush, an empty stored block. Go's decoder hands out what is stored only when such a block comes, or its
 * window of 32 KB is full: without it a watcher would wait for its events.
 */
const FLUSH = Buffer.from([0, 0, 0, 0xff, 0xff])

/** The same bytes uncompressed, which costs ten bytes and next to no time. */
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
  // Node cuts it out of a buffer of 16 KB, which it would keep alive.
  return Buffer.from(block)
}

/** @param length bytes before compression. */
export function gzipTrailer(crc: number, length: number): Buffer {
  const trailer = Buffer.alloc(10)
  trailer.set(LAST_BLOCK)
  trailer.writeUInt32LE(crc, 2)
  trailer.writeUInt32LE(length % 2 ** 32, 6)
  return trailer
}
