import t from 'tap'
import { Scratch } from '../../src/support/scratch.js'

void t.test('allocations do not overlap until their space is reused', (t) => {
  const scratch = new Scratch(100)
  const first = scratch.take(40).fill(1)
  const second = scratch.take(60).fill(2)
  const beyond = scratch.take(1).fill(3)
  t.ok(first.every((byte) => byte === 1) && second.every((byte) => byte === 2), 'each has its own bytes')
  t.equal(first.buffer, second.buffer, 'of the same memory')
  t.not(beyond.buffer, first.buffer, 'what has no room has memory of its own')
  t.equal(beyond.length, 1)
  scratch.reset()
  const again = scratch.take(100)
  t.equal(again.buffer, first.buffer)
  t.equal(again.byteOffset, first.byteOffset)
  t.equal(scratch.take(0).length, 0)
  t.end()
})
