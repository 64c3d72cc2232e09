/** Activities of what a server depends on: etcd, another server, NATS, its workers, an API server behind it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { ServerOptions } from 'node:https'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import type { Test } from 'tap'
import { hold } from '../security/support/transports.js'
import { type ApiServerStandIn, startApiServer } from '../support/api-server-stand-in.js'
import { type EtcdProcess, startEtcd, startEtcdCluster } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { freePort } from '../support/free-port.js'
import { selfSignedCertificate } from '../support/issue-certificate.js'
import { type NatsProcess, startNats } from '../support/nats-process.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { pause, until } from '../support/until.js'
import { type Activity, group, type Subject } from './activity.js'
import { measured } from './processes.js'
import { fillHistory, startMeasured } from './start-measured.js'

const FLAGS = '/apis/distributary.io/v1/flags'
const RESOURCE = '--resource=flags=/config/flags/'

/** Waiting for another server to come back takes seconds. */
const restarts = { times: 5, atOnce: 1 } as const

interface AtEtcd extends Subject {
  readonly server: ServerProcess
  readonly etcds: readonly EtcdProcess[]
  readonly writer: EtcdWriter
}

/** Writes to etcd and waits until the server has it, with what it takes to serve it. */
async function isCurrent({ server, writer }: Pick<AtEtcd, 'server' | 'writer'>, i: number): Promise<void> {
  // Right after a loss etcd may have no leader.
  await until(async () => (await writer.tryCommit({ '/config/flags/a': `${i}` })) !== null, 'etcd takes a write')
  await until(async () => {
    const response = await fetch(`${server.url}${FLAGS}/a`)
    return (await response.text()).includes(`"value":${i}`)
  }, 'the server has it')
}

async function atEtcd(t: Test, etcds: readonly EtcdProcess[], flags: readonly string[] = []): Promise<AtEtcd> {
  const writer = new EtcdWriter(etcds)
  await writer.put('/config/flags/a', 'true')
  const urls = etcds.map(({ url }) => url).join(',')
  const server = await startMeasured(t, ['--etcd-servers', urls, RESOURCE, ...flags])
  await fillHistory(writer, { '/config/flags/a': 'true' })
  // Watches go on meanwhile.
  for (const transport of ['HTTP/1.1', 'SSE', 'WebSocket'] as const) {
    const held = await hold(server.url, transport, `${FLAGS}?watch=1`)
    t.teardown(() => held.close())
  }
  return { ...measured(server), server, etcds, writer }
}

export const etcd = group<AtEtcd>({
  name: 'etcd',
  start: async (t) => await atEtcd(t, [await startEtcd(t)]),
  activities: [
    {
      name: 'etcd killed and restarted',
      ...restarts,
      async once(subject, i) {
        await subject.etcds[0]!.restart()
        await isCurrent(subject, i)
      },
      isNightly: true,
    },
    {
      name: 'etcd stopped for a second',
      ...restarts,
      async once(subject, i) {
        await subject.etcds[0]!.kill('SIGSTOP')
        await pause(1_000)
        await subject.etcds[0]!.kill('SIGCONT')
        await isCurrent(subject, i)
      },
      isNightly: true,
    },
    {
      name: 'etcd compacted',
      atOnce: 1,
      async once(subject, i) {
        const revision = await subject.writer.put('/config/flags/a', `${i}`)
        await subject.etcds[0]!.compact(revision)
        await isCurrent(subject, i)
      },
    },
    {
      name: 'consistency checks',
      atOnce: 1,
      async once({ server }) {
        const response = await fetch(`${server.url}/consistency-check`, { method: 'POST' })
        await response.arrayBuffer()
        if (!response.ok) throw new Error(`the check: ${response.status}`)
      },
    },
  ],
})

export const cluster = group<AtEtcd>({
  name: 'a cluster of etcd',
  start: async (t) => await atEtcd(t, await startEtcdCluster(t)),
  activities: [
    {
      name: 'the leader of etcd moved',
      ...restarts,
      async once(subject, i) {
        const states = await Promise.all(
          subject.etcds.map(async (member) => {
            const { header, leader } = (await member.call('maintenance/status', {})) as unknown as {
              header: { member_id: string }
              leader: string
            }
            return { member, id: header.member_id, isLeader: leader === header.member_id }
          }),
        )
        const leader = states.find(({ isLeader }) => isLeader)
        const other = states.find(({ isLeader }) => !isLeader)
        if (leader !== undefined) await leader.member.call('maintenance/transfer-leadership', { targetID: other!.id })
        await isCurrent(subject, i)
      },
      isNightly: true,
    },
    {
      name: 'a member of etcd killed and restarted',
      ...restarts,
      async once(subject, i) {
        await subject.etcds[i % 3]!.restart()
        await isCurrent(subject, i)
      },
      isNightly: true,
    },
  ],
})

/** Tokens last a second. */
export const etcdWithUsers = group<AtEtcd>({
  name: 'etcd with users',
  async start(t) {
    const folder = mkdtempSync(join(tmpdir(), 'distributary-growth-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const password = join(folder, 'password')
    writeFileSync(password, 'secret')
    const one = await startEtcd(t, { flags: ['--auth-token-ttl=1'] })
    await one.call('auth/role/add', { name: 'root' })
    await one.call('auth/user/add', { name: 'root', password: 'secret' })
    await one.call('auth/user/grant', { user: 'root', role: 'root' })
    const subject = await atEtcd(t, [one], ['--etcd-username=root', '--etcd-password-file', password])
    await one.call('auth/enable', {})
    return subject
  },
  activities: [
    {
      name: 'the token of etcd expired',
      ...restarts,
      async once({ server }) {
        await pause(1_200)
        // A consistent list asks etcd for its revision.
        await until(async () => {
          const response = await fetch(`${server.url}${FLAGS}?resourceVersion=`)
          await response.arrayBuffer()
          return response.ok
        }, 'a consistent list')
      },
      isNightly: true,
    },
  ],
})

interface Behind extends Subject {
  readonly server: ServerProcess
  readonly writer: EtcdWriter
  restartOther(): Promise<void>
  /** Gives the server another token for the one behind it. */
  changeToken(i: number): void
}

const kubeconfigWith = (token: string): string =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'c',
    contexts: [{ name: 'c', context: { cluster: 'k', user: 'u' } }],
    clusters: [{ name: 'k', cluster: { server: 'http://ignored.example' } }],
    users: [{ name: 'u', user: { token } }],
  })

export const upstream = group<Behind>({
  name: 'upstream',
  async start(t) {
    const one = await startEtcd(t)
    const writer = new EtcdWriter([one])
    await writer.put('/config/flags/a', 'true')
    const port = await freePort()
    const folder = mkdtempSync(join(tmpdir(), 'distributary-growth-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const [tokens, kubeconfig] = [join(folder, 'tokens.csv'), join(folder, 'kubeconfig')]
    writeFileSync(tokens, Array.from({ length: 1_000 }, (_, i) => `token-${i},edge,1\n`).join(''))
    const changeToken = (i: number): void => writeFileSync(kubeconfig, kubeconfigWith(`token-${i % 1_000}`))
    changeToken(0)
    const access = [`--token-auth-file=${tokens}`, '--authorization-mode=AlwaysAllow']
    const startOther = (): Promise<ServerProcess> =>
      startServer(t, { flags: ['--etcd-servers', one.url, RESOURCE, `--port=${port}`, ...access] })
    let other = await startOther()
    const server = await startMeasured(t, [`--upstream=${other.url}`, `--kubeconfig=${kubeconfig}`])
    await fillHistory(writer, { '/config/flags/a': 'true' })
    return {
      ...measured(server),
      server,
      writer,
      changeToken,
      async restartOther() {
        await other.kill()
        other = await startOther()
      },
    }
  },
  activities: [
    {
      name: 'the server behind --upstream killed and restarted',
      ...restarts,
      async once(subject, i) {
        await subject.restartOther()
        await isCurrent(subject, i)
      },
      isNightly: true,
    },
    { name: 'events through --upstream', atOnce: 1, once: isCurrent },
    {
      name: 'the kubeconfig rewritten',
      times: 8,
      atOnce: 1,
      async once(subject, i) {
        subject.changeToken(i)
        await pause(250)
        await isCurrent(subject, i)
      },
      isNightly: true,
    },
  ],
})

interface Fleet extends Subject {
  readonly server: ServerProcess
  readonly writer: EtcdWriter
  readonly nats: NatsProcess
  restartPublisher(): Promise<void>
}

/** A candidate and an edge, both measured, and another candidate that comes and goes. */
export const fleet = group<Fleet>({
  name: 'NATS',
  async start(t) {
    const one = await startEtcd(t)
    const writer = new EtcdWriter([one])
    await writer.put('/config/flags/a', 'true')
    const nats = await startNats(t)
    const flags = [`--nats-servers=${nats.url}`, '--nats-lease=1s', '--nats-stream-bytes=4Mi', RESOURCE]
    const startOther = (): Promise<ServerProcess> => startServer(t, { flags: ['--etcd-servers', one.url, ...flags] })
    let other = await startOther()
    const candidate = await startMeasured(t, ['--etcd-servers', one.url, ...flags])
    const server = await startMeasured(t, [...flags, '--nats-role=edge'])
    await fillHistory(writer, { '/config/flags/a': 'true' })
    return {
      ...measured(server, () => [...server.pids(), ...candidate.pids()]),
      server,
      writer,
      nats,
      async restartPublisher() {
        await other.kill()
        other = await startOther()
      },
    }
  },
  activities: [
    { name: 'events through NATS', atOnce: 1, once: isCurrent },
    {
      name: 'NATS killed and restarted',
      ...restarts,
      async once(subject, i) {
        await subject.nats.restart()
        await isCurrent(subject, i)
      },
      isNightly: true,
    },
    {
      name: 'a candidate killed and restarted',
      ...restarts,
      async once(subject, i) {
        await subject.restartPublisher()
        await isCurrent(subject, i)
      },
      isNightly: true,
    },
  ],
})

export const workers = group<AtEtcd>({
  name: 'workers',
  needsNode: true,
  async start(t) {
    const subject = await atEtcd(t, [await startEtcd(t)], ['--workers=2'])
    // New workers have compiled nothing yet: only what the primary keeps of the old ones is of interest.
    return { ...subject, ...measured(subject.server, () => [subject.server.pid]) }
  },
  activities: [
    {
      name: 'a worker killed',
      ...restarts,
      async once({ server }) {
        const [, worker = 0] = server.pids()
        process.kill(worker, 'SIGKILL')
        await until(() => {
          const now = server.pids()
          return now.length === 3 && !now.includes(worker)
        }, 'another worker')
        await until(async () => (await fetch(`${server.url}/readyz`)).ok, 'it is ready')
      },
      isNightly: true,
    },
    {
      name: 'requests to workers',
      async once({ server }) {
        await (await fetch(`${server.url}${FLAGS}`, { headers: { connection: 'close' } })).arrayBuffer()
        const held = await hold(server.url, 'HTTP/1.1', `${FLAGS}?watch=1`)
        held.close()
      },
    },
  ],
})

interface Forwarding extends Subject {
  readonly server: ServerProcess
  readonly behind: ApiServerStandIn
}

const EXEC = '/api/v1/namespaces/a/pods/x/exec?command=sh'

/** Opens a tunnel through the server. */
async function tunnel({ server }: Forwarding): Promise<net.Socket> {
  const socket = net.connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true })
  socket.on('error', () => {})
  socket.write(
    `POST ${EXEC} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n`,
  )
  const head = await new Promise<Buffer>((resolve, reject) => {
    const onClose = (): void => reject(new Error('the tunnel was closed'))
    socket.once('close', onClose).once('data', (bytes: Buffer) => {
      socket.off('close', onClose)
      resolve(bytes)
    })
  })
  if (!head.toString().startsWith('HTTP/1.1 101')) throw new Error(head.toString())
  return socket
}

/** Ends its side by itself only if the activity says so. */
function acceptTunnels(behind: ApiServerStandIn, onEnd: (socket: Duplex) => void): void {
  behind.upgrade = (_request, socket) => {
    ;(socket as net.Socket).allowHalfOpen = true
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n')
    socket.on('data', (bytes: Buffer) => socket.write(bytes))
    socket.on('end', () => onEnd(socket))
  }
}

const forwarded =
  (path: string, method = 'GET'): Activity<Forwarding>['once'] =>
  async ({ server }) => {
    const response = await fetch(server.url + path, { method, headers: { connection: 'close' } })
    await response.arrayBuffer()
  }

async function startForwarding(t: Test, tls: ServerOptions | null, flags: readonly string[]): Promise<Forwarding> {
  const behind = await startApiServer(t, tls)
  const one = await startEtcd(t)
  await new EtcdWriter([one]).put('/config/flags/a', 'true')
  const common = ['--etcd-servers', one.url, RESOURCE, '--passthrough', behind.url, '--authorization-mode=AlwaysAllow']
  const server = await startMeasured(t, [...common, ...flags])
  behind.answer = (request, response) => {
    if (request.url?.includes('never') === true) return
    response.end('{}')
  }
  return { ...measured(server), server, behind }
}

const forwards: readonly Activity<Forwarding>[] = [
  { name: 'forwarded requests', once: forwarded('/api/v1/nodes/n/proxy/x') },
  { name: 'forwarded writes', once: forwarded('/api/v1/namespaces/a/pods', 'POST') },
  {
    name: 'forwarded requests whose clients go',
    async once({ server }) {
      const socket = net.connect(server.port, '127.0.0.1')
      socket.on('error', () => {})
      socket.write('GET /api/v1/nodes/n/proxy/never HTTP/1.1\r\nHost: localhost\r\n\r\n')
      await pause(30)
      socket.destroy()
    },
  },
  {
    name: 'tunnels that their client ends',
    async once(subject) {
      acceptTunnels(subject.behind, (socket) => socket.end())
      const socket = await tunnel(subject)
      const closed = new Promise((resolve) => socket.once('close', resolve))
      socket.resume().end('last')
      await closed
    },
  },
  {
    name: 'tunnels that their client breaks',
    async once(subject, i) {
      acceptTunnels(subject.behind, (socket) => socket.end())
      const socket = await tunnel(subject)
      if (i % 2 === 0) socket.destroy()
      else socket.resetAndDestroy()
    },
  },
  {
    name: 'tunnels whose client goes while the other side stays half open',
    async once(subject) {
      acceptTunnels(subject.behind, () => {})
      const socket = await tunnel(subject)
      socket.destroy()
    },
  },
  {
    name: 'tunnels that the other side breaks',
    async once(subject) {
      subject.behind.upgrade = (_request, socket) => {
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n')
        // A TLS socket cannot be reset.
        setTimeout(() => ('encrypted' in socket ? socket.destroy() : (socket as net.Socket).resetAndDestroy()), 10)
      }
      const socket = await tunnel(subject)
      socket.once('end', () => socket.end())
      await new Promise((resolve) => socket.resume().once('close', resolve))
    },
  },
  {
    name: 'tunnels that are refused',
    async once(subject) {
      subject.behind.upgrade = (_request, socket) =>
        void socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno')
      await tunnel(subject).catch(() => {})
    },
  },
]

export const passthrough = group<Forwarding>({
  name: 'pass-through',
  start: async (t) => await startForwarding(t, null, []),
  activities: forwards,
})

export const passthroughOverTls = group<Forwarding>({
  name: 'pass-through over TLS',
  async start(t) {
    const folder = mkdtempSync(join(tmpdir(), 'distributary-growth-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const { cert, key } = selfSignedCertificate()
    const file = join(folder, 'ca.crt')
    writeFileSync(file, cert)
    return await startForwarding(t, { cert, key }, ['--passthrough-cafile', file])
  },
  activities: forwards.map((activity) => ({ ...activity, name: `${activity.name}, over TLS`, isNightly: true })),
})
