import { crc32 } from 'node:zlib'
import t from 'tap'
import { EMPTY_CHECKSUM, appendedCrc, checksumOf, joined } from '../../src/support/crc32.js'
import { randomInteger, seededRandom } from '../../src/support/random.js'

void t.test('the checksums of parts combine to the checksum of the whole', (t) => {
  const random = seededRandom(7)
  for (let round = 0; round < 200; round++) {
    const parts = Array.from({ length: randomInteger(random, 0, 8) }, () =>
      Buffer.from(Array.from({ length: randomInteger(random, 0, 300) }, () => randomInteger(random, 0, 255))),
    )
    const whole = Buffer.concat(parts)
    const sums = parts.map(checksumOf)
    let crc = 0
    for (const sum of sums) crc = appendedCrc(crc, sum)
    const together = sums.reduce(joined, EMPTY_CHECKSUM)
    if (crc !== crc32(whole) || together.crc !== crc || together.length !== whole.length) {
      t.fail(`round ${round}: ${parts.map(({ length }) => length).join('+')}`)
    }
    // Joined parts shift a preceding checksum as the whole does.
    if (appendedCrc(12_345, together) !== appendedCrc(12_345, checksumOf(whole))) t.fail(`round ${round}: shift`)
  }
  t.pass('200 rounds')
  t.end()
})

void t.test('the checksums of long parts combine as well', (t) => {
  const long = Buffer.alloc(70_000_000, 'abc')
  const [a, b] = [long.subarray(0, 1), long.subarray(1)]
  t.equal(joined(checksumOf(a), checksumOf(b)).crc, crc32(long))
  t.end()
})
