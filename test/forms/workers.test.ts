import t from 'tap'
import { processFlags } from './workers.js'

void t.test('three processes share three times the memory target, however it is written', async (t) => {
  for (const [flags, target] of [
    [['--memory-target=256Mi'], 3 * 256 * 2 ** 20],
    [['--memory-target', '1GiB'], 3 * 2 ** 30],
    [['--memory-target', '268435456'], 3 * 2 ** 28],
  ] as const) {
    t.same(await processFlags(t, [...flags, '--port=0']), ['--port=0', `--memory-target=${target}`, '--workers=2'])
  }
  t.same(await processFlags(t, ['--port=0']), ['--port=0', '--workers=2'])
})
