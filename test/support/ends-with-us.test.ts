import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { endsWithUs } from './ends-with-us.js'
import { until } from './until.js'

void t.test('a dozen children need one listener, and none when they have ended', async (t) => {
  const before = process.listenerCount('exit')
  const children = Array.from({ length: 12 }, () => spawn('sleep', ['60']))
  t.teardown(() => children.forEach((child) => child.kill('SIGKILL')))
  for (const child of children) endsWithUs(child)
  t.equal(process.listenerCount('exit'), before + 1)
  const ends = children.map(async (child) => await once(child, 'exit'))
  for (const child of children) child.kill('SIGKILL')
  await Promise.all(ends)
  t.equal(process.listenerCount('exit'), before)
})

void t.test('children end with the process that started them', async () => {
  const module = JSON.stringify(pathToFileURL(new URL('ends-with-us.js', import.meta.url).pathname))
  const program = `
    import { spawn } from 'node:child_process'
    const { endsWithUs } = await import(${module})
    const child = spawn('sleep', ['60'], { stdio: 'ignore' })
    endsWithUs(child)
    process.stdout.write(String(child.pid), () => process.exit(0))`
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' })
  const pid = Number(stdout)
  await until(() => {
    try {
      process.kill(pid, 0)
      return false
    } catch {
      return true
    }
  }, 'the child has ended')
})
