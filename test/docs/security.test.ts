import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const root = new URL('../../../', import.meta.url)
const read = (file: string): string => readFileSync(fileURLToPath(new URL(file, root)), 'utf8')

void t.test('every threat in SECURITY.md names a test that exists', async (t) => {
  const text = read('SECURITY.md')
  const rows = text
    .slice(text.indexOf('## Threats'))
    .split('\n')
    .filter((line) => line.startsWith('| ') && !line.startsWith('| threat') && !line.startsWith('| ---'))
  t.ok(rows.length >= 20)
  for (const row of rows) {
    const tests = row.split('|').at(-2) ?? ''
    const files = [...tests.matchAll(/`(test\/[^`]+)`(?:: ((?:"[^"]+"(?:, )?)+))?/g)]
    t.ok(files.length > 0, row)
    for (const [, file = '', names = ''] of files) {
      const exists = existsSync(fileURLToPath(new URL(file, root)))
      t.ok(exists, file)
      t.ok(names !== '', `${file} has many tests: ${row}`)
      for (const [, name = ''] of names.matchAll(/"([^"]+)"/g))
        t.ok(exists && read(file).includes(name), `${file}: ${name}`)
    }
  }
})
