/**
 * Every documented command has a row in the table. They are run in `commands-of-readme.test.ts` and
 * `commands-of-pages.test.ts`.
 */
import t from 'tap'
import { howOf } from './command-table.js'
import { commandsOf, documentedCommands } from './documented-commands.js'

void t.test('every documented command has its row in the table, and every row a reason', async (t) => {
  const all = documentedCommands()
  t.ok(all.length > 30, `${all.length} commands`)
  for (const { page, line, text } of all) t.ok(howOf(text), `${page}:${line}: ${text}`)
})

void t.test('commands are found in code blocks and in the text', async (t) => {
  const page = 'a `curl -s x` b `kubectl`\n```sh\nnpm ci # why\nkubectl \\\n  get pods\n```\n```js\ncurl y\n```\n'
  t.same(
    commandsOf('p', page).map(({ text }) => text),
    ['curl -s x', 'npm ci', 'kubectl get pods'],
  )
})
