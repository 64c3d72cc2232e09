/** Tests the V8 flags: the operator's flags are kept, and V8 accepts ours. */
import { spawnSync } from 'node:child_process'
import t from 'tap'
import { heapFlags } from '../../../src/server/wiring/heap-flags.js'

void t.test('flags set by the operator are left alone, however they are spelt', (t) => {
  const all = heapFlags([])
  t.equal(all.length, 2)
  t.same(heapFlags(['--max-old-space-size=4096', '--inspect']), all)
  t.same(heapFlags(['--heap_growing_percent=20']), ['--no-allocation-site-pretenuring'])
  t.same(heapFlags(['--heap-growing-percent=20', '--allocation-site-pretenuring']), [])
  t.end()
})

void t.test('V8 accepts each of them', (t) => {
  const { status, stderr } = spawnSync(process.execPath, [...heapFlags([]), '-e', '0'], { encoding: 'utf8' })
  t.equal(status, 0, stderr)
  t.equal(stderr, '')
  t.end()
})
