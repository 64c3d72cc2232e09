import { existsSync } from 'node:fs'
import t from 'tap'
import { generated, readText, root } from './generate.js'

void t.test('what follows from something else in the repository is up to date', async (t) => {
  for (const [path, content] of await generated()) {
    t.ok(existsSync(root + path), path)
    t.equal(readText(path) === content, true, `${path}: npm run generate`)
  }
})
