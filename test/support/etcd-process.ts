/**
 * A real etcd for one test, with its own data directory and free loopback ports; it ends with the test, however that
 * ends.
 *
 * `ETCD_BIN` names the binary, else `etcd` from PATH. A kill leaves the data directory, so that `restart` continues
 * with the same etcd on the same ports. Administration (compaction, users, roles) goes through etcd's JSON gateway, so
 * that tests are set up without the client under test.
 */
import { execFile, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { endsWithUs } from './ends-with-us.js'
import { freePorts } from './free-port.js'
import { until } from './until.js'

export const etcdBinary = process.env['ETCD_BIN'] ?? 'etcd'

/** In memory where possible: etcd before 3.5 cannot skip fsync, which is slow on disks. */
const dataRoot = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()

export interface EtcdOptions {
  /** Further flags, after the default ones. */
  readonly flags?: readonly string[]
  /** Serve clients over TLS, and require client certificates when `clientCa` is set. Paths of PEM files. */
  readonly tls?: { readonly cert: string; readonly key: string; readonly clientCa?: string }
  /** The peer ports that members advertise, given those on which they listen. Default: the same. */
  readonly peerPorts?: (ports: readonly number[]) => Promise<readonly number[]>
  /** The hosts on which the members run, instead of this machine's loopback. */
  readonly hosts?: readonly EtcdHost[]
  /** The folder of the data, instead of one in memory. */
  readonly dataRoot?: string
}

export interface EtcdHost {
  readonly address: string
  /** The prefix that runs a program there: `ip netns exec NAME`. */
  readonly command: readonly string[]
}

const LOOPBACK: EtcdHost = { address: '127.0.0.1', command: [] }

export interface EtcdProcess {
  /** The URL for clients: `http://127.0.0.1:PORT`, or https. */
  readonly url: string
  /** Serves /metrics and /health over plain HTTP, whatever the client port speaks. */
  readonly metricsUrl: string
  readonly pid: number
  /** SIGKILL by default; returns after the exit for signals that kill, at once for SIGSTOP and SIGCONT. */
  kill(signal?: NodeJS.Signals): Promise<void>
  /**
   * Restarts it on the same data and ports, killing it first if it runs; `flags` replace those of its options. Returns
   * when it answers.
   */
  restart(flags?: readonly string[]): Promise<void>
  stop(): Promise<void>
  /** Every sample of /metrics by its name with labels: `name{label="x"}`. */
  metrics(): Promise<ReadonlyMap<string, number>>
  /** Calls etcd's JSON gateway: `call('kv/compaction', { revision: 5 })`. */
  call(path: string, body: object, token?: string): Promise<Record<string, unknown>>
  /** Compacts the history below `revision`, and returns when that is done. */
  compact(revision: number): Promise<void>
  /** Saves a backup with etcdctl. @param path of a file that does not exist yet. */
  saveSnapshot(path: string): Promise<void>
  /**
   * Kills it, replaces its data with a backup, and starts it again, by default with its first flags, which give it the
   * same cluster id as before; another `token` gives it another. `flags` are further flags of the restoring program.
   */
  restoreSnapshot(path: string, token?: string, flags?: readonly string[]): Promise<void>
  /**
   * A disk backup: stops it, copies its data, and starts it again.
   *
   * @param path of a folder that does not exist yet.
   */
  saveData(path: string): Promise<void>
  /** Kills it, replaces its data with such a copy, and starts it again. */
  restoreData(path: string): Promise<void>
  /** Kills it, removes its data, and starts it again: with the same cluster id, at revision 1. */
  loseData(): Promise<void>
  /** The last lines of its log, for failure messages. */
  output(): string
}

/** Starts a single etcd, and waits until it answers. */
export async function startEtcd(t: Test, options: EtcdOptions = {}): Promise<EtcdProcess> {
  const [etcd] = await startCluster(t, 1, options)
  return etcd!
}

/** Starts a cluster of three members, and waits for a leader. */
export async function startEtcdCluster(t: Test, options: EtcdOptions = {}): Promise<readonly EtcdProcess[]> {
  return startCluster(t, 3, options)
}

async function startCluster(t: Test, size: number, options: EtcdOptions): Promise<readonly EtcdProcess[]> {
  const directory = await mkdtemp(join(options.dataRoot ?? dataRoot, 'distributary-etcd-'))
  const hostOf = (i: number): EtcdHost => options.hosts?.[i] ?? LOOPBACK
  const members: Member[] = []
  t.teardown(async () => {
    await Promise.all(members.map((member) => member.stop()))
    await rm(directory, { recursive: true, force: true })
  })
  // Ports are free when they are chosen, not when etcd binds them: if another test's server took one, try again.
  for (let attempt = 1; ; attempt++) {
    const ports = await freePorts(size * 3)
    const peerPorts = Array.from({ length: size }, (_, i) => ports[i * 3 + 1]!)
    const advertised = (await options.peerPorts?.(peerPorts)) ?? peerPorts
    const peers = advertised.map((port, i) => `m${i}=http://${hostOf(i).address}:${port}`).join(',')
    members.length = 0
    for (let i = 0; i < size; i++) {
      members.push(
        new Member(
          {
            name: `m${i}`,
            dataDirectory: join(directory, `${attempt}-m${i}`),
            peers,
            peerPort: advertised[i]!,
            host: hostOf(i),
          },
          ports.slice(i * 3, i * 3 + 3),
          options,
        ),
      )
    }
    try {
      await Promise.all(members.map((member) => member.start()))
      return members
    } catch (error) {
      await Promise.all(members.map((member) => member.stop()))
      if (attempt === 3) throw error
    }
  }
}

/**
 * Adds a learner, a non-voting member, to a running cluster.
 *
 * @returns the running process and the id with which the cluster promotes or removes it.
 */
export async function startLearner(
  t: Test,
  cluster: EtcdProcess,
  options: EtcdOptions = {},
): Promise<{ readonly member: EtcdProcess; readonly id: string }> {
  const directory = await mkdtemp(join(dataRoot, 'distributary-etcd-'))
  const [client = 0, peerPort = 0, metrics = 0] = await freePorts(3)
  const add = { peerURLs: [`http://127.0.0.1:${peerPort}`], isLearner: true }
  let answer = null as AddedMember | null
  // A newly formed cluster rejects new members for a while.
  await until(async () => {
    answer = (await cluster.call('cluster/member/add', add)) as unknown as AddedMember
    return true
  }, 'the cluster takes a new member')
  if (answer === null) throw new Error('no new member')
  const peers = answer.members.map(({ name = 'learner', peerURLs }) => `${name}=${peerURLs[0]}`).join(',')
  const identity = { name: 'learner', dataDirectory: join(directory, 'data'), peers, peerPort, host: LOOPBACK }
  const flags = [...(options.flags ?? []), '--initial-cluster-state=existing']
  const member = new Member(identity, [client, peerPort, metrics], { ...options, flags })
  t.teardown(async () => {
    await member.stop()
    await rm(directory, { recursive: true, force: true })
  })
  await member.start()
  return { member, id: answer.member.ID }
}

interface AddedMember {
  readonly member: { readonly ID: string }
  readonly members: readonly { readonly name?: string; readonly peerURLs: readonly string[] }[]
}

interface MemberIdentity {
  readonly name: string
  readonly dataDirectory: string
  readonly peers: string
  readonly peerPort: number
  readonly host: EtcdHost
}

class Member implements EtcdProcess {
  readonly url: string
  readonly metricsUrl: string
  readonly #dataDirectory: string
  readonly #identity: readonly string[]
  readonly #token: string
  readonly #arguments: readonly string[]
  readonly #command: readonly string[]
  #flags: readonly string[]
  #child: ChildProcess | null = null
  #output = ''

  constructor(
    { name, dataDirectory, peers, peerPort, host: { address, command } }: MemberIdentity,
    ports: number[],
    options: EtcdOptions,
  ) {
    const { tls, flags = [] } = options
    this.#command = [...command, etcdBinary]
    this.url = `${tls ? 'https' : 'http'}://${address}:${ports[0]}`
    const peerUrl = `http://${address}:${peerPort}`
    this.metricsUrl = `http://${address}:${ports[2]}`
    this.#dataDirectory = dataDirectory
    this.#token = dirname(dataDirectory)
    this.#identity = [`--name=${name}`, `--initial-advertise-peer-urls=${peerUrl}`, `--initial-cluster=${peers}`]
    this.#arguments = [
      ...this.#identity,
      `--data-dir=${dataDirectory}`,
      `--listen-client-urls=${this.url}`,
      `--advertise-client-urls=${this.url}`,
      `--listen-peer-urls=http://${address}:${ports[1]}`,
      `--listen-metrics-urls=${this.metricsUrl}`,
      `--initial-cluster-token=${this.#token}`,
      '--log-level=warn',
      ...(tls ? [`--cert-file=${tls.cert}`, `--key-file=${tls.key}`] : []),
      ...(tls?.clientCa ? [`--trusted-ca-file=${tls.clientCa}`, '--client-cert-auth'] : []),
      ...(knowsFlag('unsafe-no-fsync') ? ['--unsafe-no-fsync'] : []),
      ...(knowsFlag('enable-v2') ? ['--enable-v2=false'] : []),
    ]
    this.#flags = flags
  }

  get pid(): number {
    const pid = this.#child?.pid
    if (pid === undefined) throw new Error('etcd is not running')
    return pid
  }

  async start(): Promise<void> {
    const environment = Object.entries(process.env).filter(([name]) => !name.startsWith('ETCD_'))
    const [program = '', ...before] = this.#command
    const child = spawn(program, [...before, ...this.#arguments, ...this.#flags], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...Object.fromEntries(environment), ETCD_UNSUPPORTED_ARCH: process.arch },
    })
    this.#child = child
    const keep = (chunk: Buffer): void => {
      this.#output = (this.#output + chunk.toString()).slice(-2_000)
    }
    child.stdout?.on('data', keep)
    child.stderr?.on('data', keep)
    let failure: Error | null = null
    child.once('error', (error) => {
      failure = error
    })
    endsWithUs(child)
    child.once('exit', (code, signal) => {
      failure ??= new Error(`etcd ended (${signal ?? code}): ${this.#output}`)
    })
    const deadline = Date.now() + 30_000
    for (;;) {
      if (failure) throw failure
      if (await this.#isHealthy()) return
      if (Date.now() > deadline) throw new Error(`etcd is not healthy after 30 s: ${this.#output}`)
      await delay(40)
    }
  }

  /** etcd's health is a linearizable read: it has a leader, and answers. */
  async #isHealthy(): Promise<boolean> {
    try {
      const response = await fetch(`${this.metricsUrl}/health`, { signal: AbortSignal.timeout(2_000) })
      return ((await response.json()) as { health?: unknown }).health === 'true'
    } catch {
      return false
    }
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    child.kill(signal)
    if (signal === 'SIGSTOP' || signal === 'SIGCONT') return
    await once(child, 'exit')
  }

  async restart(flags?: readonly string[]): Promise<void> {
    await this.kill()
    if (flags) this.#flags = flags
    await this.start()
  }

  async stop(): Promise<void> {
    await this.kill('SIGKILL')
  }

  async metrics(): Promise<ReadonlyMap<string, number>> {
    const response = await fetch(`${this.metricsUrl}/metrics`)
    const samples = new Map<string, number>()
    for (const line of (await response.text()).split('\n')) {
      const space = line.lastIndexOf(' ')
      if (space > 0 && !line.startsWith('#')) samples.set(line.slice(0, space), Number(line.slice(space + 1)))
    }
    return samples
  }

  async call(path: string, body: object, token?: string): Promise<Record<string, unknown>> {
    const response = await fetch(`${this.url}/v3/${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json', ...(token === undefined ? {} : { authorization: token }) },
    })
    const answer = (await response.json()) as Record<string, unknown>
    if (!response.ok) throw new Error(`etcd ${path}: ${response.status} ${JSON.stringify(answer)}`)
    return answer
  }

  async compact(revision: number): Promise<void> {
    await this.call('kv/compaction', { revision: String(revision), physical: true })
  }

  async saveSnapshot(path: string): Promise<void> {
    await run('etcdctl', ['--endpoints', this.url, 'snapshot', 'save', path])
  }

  async restoreSnapshot(path: string, token = this.#token, flags: readonly string[] = []): Promise<void> {
    await this.kill()
    await rm(this.#dataDirectory, { recursive: true, force: true })
    const where = [`--data-dir=${this.#dataDirectory}`, `--initial-cluster-token=${token}`]
    const restore = ['snapshot', 'restore', path, ...this.#identity, ...where, ...flags]
    // Each version can read only backups of its own time.
    await (restoresItself() ? run(etcdBinary, restore) : run('etcdctl', restore))
    await this.start()
  }

  async saveData(path: string): Promise<void> {
    await this.kill('SIGTERM')
    await cp(this.#dataDirectory, path, { recursive: true })
    await this.start()
  }

  async restoreData(path: string): Promise<void> {
    await this.kill()
    await rm(this.#dataDirectory, { recursive: true, force: true })
    await cp(path, this.#dataDirectory, { recursive: true })
    await this.start()
  }

  async loseData(): Promise<void> {
    await this.kill()
    await rm(this.#dataDirectory, { recursive: true, force: true })
    await this.start()
  }

  output(): string {
    return this.#output
  }
}

async function run(command: string, args: readonly string[]): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const environment = { ...process.env, ETCDCTL_API: '3' }
    execFile(command, args, { env: environment }, (error) => (error === null ? resolve() : reject(error)))
  })
}

/** The binaries built by `npm run judge -- etcd` include the restore command of etcdutl. */
function restoresItself(): boolean {
  const { stdout, stderr } = spawnSync(etcdBinary, ['snapshot', 'restore', '--help'], { encoding: 'utf8' })
  return `${stdout}${stderr}`.includes('--bump-revision')
}

let help: string | null = null

/** etcd refuses to start with an unknown flag, and its versions know different ones. */
function knowsFlag(name: string): boolean {
  help ??= ((): string => {
    const run = spawnSync(etcdBinary, ['--help'], { encoding: 'utf8' })
    return `${run.stdout}${run.stderr}`
  })()
  return new RegExp(`--(experimental-)?${name}\\b`).test(help)
}

/** A flag that was experimental in older versions of etcd. @param flag without dashes: `name=value`. */
export function graduatedFlag(flag: string): string {
  const name = flag.split('=', 1)[0]!
  return knowsFlag(name) && !knowsFlag(`experimental-${name}`) ? `--${flag}` : `--experimental-${flag}`
}
