/**
 * Every documented command has a row in the table. They are run in `commands-of-readme.test.ts` and
 * `commands-of-pages.test.ts`.
 */
import t from 'tap'
import { howOf } from './command-table.js'
import { commandsOf, documentedCommands } from './documented-commands.js'
import { readText } from './repository.js'

void t.test('every documented command has its row in the table, and every row a reason', async (t) => {
  const all = documentedCommands()
  t.ok(all.length > 30, `${all.length} commands`)
  for (const { page, line, text } of all) t.ok(howOf(text), `${page}:${line}: ${text}`)
})

void t.test(
  'a command that runs until it is stopped is the last of its block, so that blocks can be pasted',
  async (t) => {
    const blocks = documentedCommands().filter(({ block }) => block !== null)
    const runsOn = (text: string): boolean => {
      const how = howOf(text.split(' && ').at(-1)!)
      return how === 'server' || how === 'flags' || how === 'streams' || how === 'prometheus'
    }
    t.ok(blocks.filter(({ text }) => runsOn(text)).length > 10)
    for (const [i, { page, line, block, text }] of blocks.entries()) {
      const next = blocks[i + 1]
      if (next?.page === page && next.block === block) t.notOk(runsOn(text), `${page}:${line}: ${text}`)
    }
  },
)

void t.test('git ignores the keys and credentials that documented commands create in a checkout', async (t) => {
  const commands = documentedCommands().filter(({ block }) => block !== null)
  const script = /^deploy\/\S+\.sh$/
  const texts = commands.flatMap(({ text }) => (script.test(text) ? readText(text).split('\n') : [text]))
  const written = texts.flatMap((text) =>
    [...text.matchAll(/(?:-keyout|-out|>) ([a-z][\w.-]+)/g)].map(([, name]) => name!),
  )
  for (const name of ['ca.key', 'signing-key', 'ticket.key', 'tls.key', 'tokens.csv'])
    t.ok(written.includes(name), name)
  const ignored = readText('.gitignore').split('\n')
  for (const name of [...written, 'policy.yaml']) {
    t.ok(ignored.includes(`/${name}`) || ignored.includes(`/*.${name.split('.').at(-1)}`), name)
  }
})

void t.test('commands are found in code blocks and in the text', async (t) => {
  const page = 'a `curl -s x` b `kubectl`\n```sh\nnpm ci # why\nkubectl \\\n  get pods\n```\n```js\ncurl y\n```\n'
  t.same(
    commandsOf('p', page).map(({ text }) => text),
    ['curl -s x', 'npm ci', 'kubectl get pods'],
  )
})
