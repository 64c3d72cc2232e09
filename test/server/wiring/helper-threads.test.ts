/** Tests the priorities of a process's threads, which show during V8's garbage collections. */
import { spawnSync } from 'node:child_process'
import t from 'tap'

const module = new URL('../../../src/server/wiring/helper-threads.js', import.meta.url)

/** Prints the niceness of each thread, and the processor time in ticks that it used, after some collections. */
const program = `
  import { readdirSync, readFileSync } from 'node:fs'
  import { yieldToEventLoop } from '${module.href}'
  yieldToEventLoop()
  const kept = []
  const threads = () => readdirSync('/proc/self/task').map((id) => {
    const fields = readFileSync('/proc/self/task/' + id + '/stat', 'latin1').replace(/^.*\\) /, '').split(' ')
    return { isMain: Number(id) === process.pid, nice: Number(fields[16]), ticks: Number(fields[11]) + Number(fields[12]) }
  })
  // On a busy machine a thread of low priority may have to wait long for its first tick.
  const hasHelped = () => {
    const all = threads()
    const { nice } = all.find(({ isMain }) => isMain)
    return all.some((thread) => thread.nice > nice && thread.ticks > 0)
  }
  for (let round = 0; round < 20 || (round < 500 && !hasHelped()); round++) {
    for (let i = 0; i < 50_000; i++) kept.push({ round, i, text: 'x' + i })
    if (kept.length > 400_000) kept.splice(0, 200_000)
    gc()
  }
  process.stdout.write(JSON.stringify(threads()))
`

interface Thread {
  readonly isMain: boolean
  readonly nice: number
  readonly ticks: number
}

const skip = process.platform !== 'linux' || process.versions['bun'] !== undefined

void t.test('the threads that help to collect garbage give way to the one that serves', { skip }, (t) => {
  const { stdout, stderr } = spawnSync(process.execPath, ['--expose-gc', '--input-type=module', '-e', program], {
    encoding: 'utf8',
  })
  const threads = JSON.parse(stdout) as Thread[]
  const main = threads.filter(({ isMain }) => isMain)
  const low = threads.filter(({ nice }) => nice > main[0]!.nice)
  t.equal(main.length, 1, stderr)
  t.equal(low.length, 4)
  t.ok(low.some(({ ticks }) => ticks > 0))
  const busy = threads.filter(({ isMain, nice, ticks }) => !isMain && nice === main[0]!.nice && ticks > 2)
  t.same(busy, [], 'no other thread had much to do')
  t.end()
})
