import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { sourcesOf } from './imports.js'
import { startsPrograms } from './program.js'
import { requirements, requirementsOf } from './requirements.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))

const packagesOf = (source: string): string[] => requirementsOf(sourcesOf([source])).map((each) => each.package)

void t.test('a test requires what its sources run, and no more', (t) => {
  t.same(packagesOf('test/engine/broadcast/cursor.test.ts'), [])
  t.notOk(startsPrograms(sourcesOf(['test/engine/broadcast/cursor.test.ts'])))
  t.same(packagesOf('test/engine/feed/feed/etcd.test.ts'), ['etcd-server', 'etcd-client'])
  t.same(packagesOf('test/clients/curl.test.ts'), ['curl'])
  t.same(packagesOf('test/server/ui/page.test.ts'), ['chromium'])
  t.ok(startsPrograms(sourcesOf(['test/server/ui/page.test.ts'])))
  t.end()
})

void t.test('no source runs a program that it is not known to need', (t) => {
  for (const { usedBy } of requirements) for (const source of usedBy) t.ok(existsSync(join(root, source)), source)
  const programs: Readonly<Record<string, string>> = {
    etcd: 'etcd-server',
    etcdctl: 'etcd-client',
    'nats-server': 'nats-server',
    curl: 'curl',
    openssl: 'openssl',
    prometheus: 'prometheus',
    promtool: 'prometheus',
    chromium: 'chromium',
    cc: 'gcc',
    kubectl: 'kubernetes-client',
  }
  const started = new RegExp(
    `(?:spawn|spawnSync|execFile|execFileSync|execFile\\)|run)\\(\\s*'(${Object.keys(programs).join('|')})'`,
    'g',
  )
  const found = ['test', 'bench'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => join(folder, file))
      .flatMap((source) =>
        [...readFileSync(join(root, source), 'utf8').matchAll(started)].map(([, name]) => ({ source, name: name! })),
      ),
  )
  t.ok(
    found.some(({ name }) => name === 'openssl'),
    'they are found',
  )
  for (const { source, name } of found) t.ok(packagesOf(source).includes(programs[name]!), `${source} runs ${name}`)
  t.end()
})
