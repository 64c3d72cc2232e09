import { readFileSync } from 'node:fs'
import t from 'tap'
import { mayPass } from '../../../src/server/config/passing-error.js'

const systemError = (code: string): Error => Object.assign(new Error(code), { errno: -1, code, syscall: 'open' })

void t.test('an error of the operating system may pass, unless it lacks permission or has a wrong path', (t) => {
  for (const code of ['EADDRINUSE', 'EADDRNOTAVAIL', 'EMFILE', 'ENFILE', 'ENOENT', 'ECONNREFUSED', 'ENOSPC'])
    t.equal(mayPass(systemError(code)), true, code)
  for (const code of ['EACCES', 'EPERM', 'EISDIR', 'ENOTDIR']) t.equal(mayPass(systemError(code)), false, code)
  t.equal(mayPass(new Error('a.crt: unreadable', { cause: systemError('ENOENT') })), true, 'by its cause')
  t.equal(mayPass(new Error('rules: 5', { cause: new TypeError('not a list') })), false)
  for (const thrown of [undefined, 'text', { errno: -1 }]) t.equal(mayPass(thrown), false)
  t.end()
})

void t.test('a real missing file may pass', (t) => {
  try {
    readFileSync('/nowhere/at/all')
  } catch (error) {
    t.equal(mayPass(error), true)
  }
  t.plan(1)
})
