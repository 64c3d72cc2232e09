/** The etcd role in the docs: a real etcd with authentication, and the whole server with only that role. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { pod } from '../support/pod.js'
import { startEtcd } from '../support/etcd-process.js'
import { startServer } from '../support/server-process.js'

const script = fileURLToPath(new URL('../../../deploy/etcd/read-only-role.sh', import.meta.url))

void t.test(
  'the whole server runs with the role in deploy/etcd, which reads its prefixes and nothing else',
  async (t) => {
    const etcd = await startEtcd(t)
    const directory = mkdtempSync(join(tmpdir(), 'distributary-role-'))
    t.teardown(() => rmSync(directory, { recursive: true, force: true }))
    const password = join(directory, 'password')
    writeFileSync(password, 'correct-horse\n')
    const run = (command: string, args: readonly string[], user = ''): Promise<{ code: number; out: string }> =>
      new Promise((resolve) => {
        const env = {
          ...process.env,
          ETCDCTL_API: '3',
          ETCDCTL_ENDPOINTS: etcd.url,
          PASSWORD_FILE: password,
          ...(user === '' ? {} : { ETCDCTL_USER: user }),
        }
        execFile(command, args, { env, timeout: 20_000 }, (error, out, err) =>
          resolve({ code: error === null ? 0 : Number(error.code ?? -1), out: out + err }),
        )
      })
    const etcdctl = (...args: string[]) => run('etcdctl', args, 'root:root')

    for (const args of [
      ['user', 'add', 'root:root'],
      ['user', 'grant-role', 'root', 'root'],
      ['auth', 'enable'],
    ]) {
      // From 3.4 on, etcd does not have the role root until it is created.
      if (args[1] === 'grant-role') await run('etcdctl', ['role', 'add', 'root'])
      const done = await run('etcdctl', args)
      t.equal(done.code, 0, done.out)
    }
    for (const time of ['once', 'and again']) {
      const { code, out } = await run('/bin/sh', [script, '/registry/', '/config/flags/', 'traefik/'], 'root:root')
      t.equal(code, 0, `${time}: ${out}`)
    }
    t.equal((await run('/bin/sh', [script, '/registry'], 'root:root')).code, 2, 'a prefix without its slash is refused')
    t.equal((await etcdctl('put', '/registry/pods/a/x', JSON.stringify(pod('x', { namespace: 'a' })))).code, 0)
    await etcdctl('put', '/config/flags/dark', '1')
    await etcdctl('put', 'traefik/http/routers/x', '1')
    await etcdctl('put', '/elsewhere/secret', '1')

    const user = 'distributary:correct-horse'
    t.match(await run('etcdctl', ['put', '/registry/pods/a/y', '{}'], user), { code: 1, out: /permission denied/ })
    t.match(await run('etcdctl', ['get', '/elsewhere/secret'], user), { code: 1, out: /permission denied/ })

    const flags = ['--etcd-servers', etcd.url, '--etcd-username', 'distributary', '--etcd-password-file', password]
    const server = await startServer(t, { flags: [...flags, '--resource', 'flags=/config/flags/,routers=traefik/'] })
    const ready = await (await fetch(`${server.url}/readyz?verbose`)).text()
    t.equal(ready.match(/^\[.\]cache-/gm)?.length, ready.match(/^\[\+\]cache-\S+ ok$/gm)?.length, 'every resource')
    const list = async (path: string): Promise<number> => {
      const response = await fetch(`${server.url}${path}`)
      return ((await response.json()) as { items: unknown[] }).items.length
    }
    t.equal(await list('/api/v1/pods'), 1)
    t.equal(await list('/apis/distributary.io/v1/flags'), 1)
    t.equal(await list('/apis/distributary.io/v1/routers'), 1)
    const watch = await fetch(`${server.url}/api/v1/pods?watch=1&resourceVersion=0`)
    const reader = watch.body!.getReader()
    await etcdctl('put', '/registry/pods/a/z', JSON.stringify(pod('z', { namespace: 'a' })))
    let seen = ''
    while (!seen.includes('"z"')) seen += new TextDecoder().decode((await reader.read()).value)
    t.pass('and the watch runs')
    await reader.cancel()
    const log = server.log()
    t.notMatch(log, /permission-denied|permission denied/)
  },
)
