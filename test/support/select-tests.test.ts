import t from 'tap'
import { selectTests, systemTests } from './select-tests.js'

void t.test('names are files or folders; one without a test is an error, also beside others', (t) => {
  const file = 'test/support/select-tests.test.ts'
  t.same(selectTests([file]), [file])
  t.ok(selectTests(['test/support', file]).length > 10)
  for (const wrong of ['test/support/select-tests', 'test/nowhere', 'src/engine']) {
    t.throws(() => selectTests([file, wrong]), { message: `no test is called ${wrong}` })
  }
  t.ok(systemTests().length > 50, 'each place of the system tests has some')
  t.end()
})
