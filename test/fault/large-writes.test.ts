/** A few writes whose bodies stand for many values must not push a server beyond its memory target. */
import t from 'tap'
import { startServer } from '../support/server-process.js'

const MIB = 2 ** 20
const TARGET = 512 * MIB

const BODIES = {
  'YAML tags': [
    'application/yaml',
    `apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\nspec: ${'!a '.repeat(500_000)}`,
  ],
  'JSON objects': [
    'application/json',
    `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x","managedFields":[{}${',{}'.repeat(860_000)}]}}`,
  ],
} as const

for (const [name, [type, body]] of Object.entries(BODIES)) {
  void t.test(`parallel large writes of ${name} stay below the memory target`, async (t) => {
    const flags = ['--enable-writes', `--memory-target=${TARGET}`]
    const server = await startServer(t, { flags })
    const write = async (): Promise<number> => {
      const answer = await fetch(`${server.url}/api/v1/namespaces`, {
        method: 'POST',
        headers: { 'content-type': type },
        body,
      })
      await answer.text()
      return answer.status
    }
    const codes = await Promise.all(Array.from({ length: 4 }, write))
    const { peak } = server.memory()
    t.ok(peak < TARGET, `${codes.join()}: ${Math.round(peak / MIB)} MiB of ${TARGET / MIB}`)
    t.equal((await fetch(`${server.url}/livez`)).status, 200)
  })
}
