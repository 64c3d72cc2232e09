/** Activities of the published client, in a process of its own, against a server that is not measured. */
import { once } from 'node:events'
import { spawn } from 'node:child_process'
import { compiledPath } from '../support/compiled-path.js'
import { endsWithUs } from '../support/ends-with-us.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { pod } from '../support/pod.js'
import { serverRuntime } from '../support/program.js'
import { startServer } from '../support/server-process.js'
import { until } from '../support/until.js'
import { group, type Subject } from './activity.js'
import { clientActivities, SERVER_VARIABLE } from './client-program.js'
import { PROGRAM_VARIABLE, SOCKETS_VARIABLE } from './probe.js'
import { ask, ofProcesses, socketsFolder } from './processes.js'

interface Client extends Subject {
  readonly pid: number
}

/** Much like others, or slow. */
const nightly = new Set([
  'elections won and given up',
  'handlers that throw',
  'informers that never sync',
  'kinds found by discovery',
])

export const client = group<Client>({
  name: 'client',
  async start(t) {
    const etcd = await startEtcd(t)
    const pods = Array.from({ length: 20 }, (_, i): [string, object] => [`/registry/pods/default/p${i}`, pod(`p${i}`)])
    const namespace = { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'default', uid: 'd' } }
    await new EtcdWriter([etcd]).fill(new Map([['/registry/namespaces/default', namespace], ...pods]))
    const flags = ['--etcd-servers', etcd.url, '--enable-writes', '--requests-per-second=1000000']
    const { url } = await startServer(t, { flags })
    const child = spawn(serverRuntime(), [compiledPath('test/growth/probe.ts')], {
      stdio: ['ignore', 'inherit', 'inherit'],
      env: {
        ...process.env,
        NODE_OPTIONS: '',
        [SERVER_VARIABLE]: url,
        [SOCKETS_VARIABLE]: socketsFolder(),
        [PROGRAM_VARIABLE]: compiledPath('test/growth/client-program.ts'),
      },
    })
    endsWithUs(child)
    t.teardown(async () => {
      child.kill('SIGKILL')
      await once(child, 'exit')
    })
    const pid = child.pid!
    await until(async () => (await ask(pid, 'once 0 waits for work that are aborted')) === undefined, 'the client runs')
    return { ...ofProcesses(() => [pid]), pid }
  },
  activities: Object.keys(clientActivities).map((name) => ({
    name,
    once: ({ pid }, i) => ask(pid, `once ${i} ${name}`),
    ...(nightly.has(name) ? { isNightly: true } : {}),
  })),
})
