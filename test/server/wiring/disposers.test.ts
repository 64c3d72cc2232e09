import t from 'tap'
import { Disposers } from '../../../src/server/wiring/disposers.js'

void t.test('steps run in reverse order, each after the previous one has ended', async (t) => {
  const disposers = new Disposers()
  const ended: string[] = []
  disposers.add(() => ended.push('first'))
  disposers.add(async () => {
    await Promise.resolve()
    ended.push('second')
  })
  await disposers.dispose()
  t.same(ended, ['second', 'first'])
})

void t.test('a failure does not stop the others', async (t) => {
  const disposers = new Disposers()
  const ended: string[] = []
  disposers.add(() => ended.push('first'))
  disposers.add(() => {
    throw new Error('second')
  })
  disposers.add(() => Promise.reject(new Error('third')))
  await t.rejects(disposers.dispose(), { message: 'third' })
  t.same(ended, ['first'])
})

void t.test('each step runs once, and so do steps added during the disposal', async (t) => {
  const disposers = new Disposers()
  let count = 0
  disposers.add(() => disposers.add(() => count++))
  await disposers.dispose()
  await disposers.dispose()
  t.equal(count, 1)
})
