/** Patroni with a real PostgreSQL through disruptions, for the tests that start the servers. */
import { spawnSync } from 'node:child_process'
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { freePort } from '../../support/free-port.js'
import { until } from '../../support/until.js'
import type { Disruption } from './disruptions.js'
import { accountOf, postgresFolder } from './postgres.js'
import { type RunningProcess, startProcess } from './start-process.js'
import type { Stage } from './stage.js'
import { list } from './survive.js'

interface Lock {
  readonly metadata: { readonly annotations: Readonly<Record<string, string>> }
}

export interface LockOptions {
  /** The name of Patroni's pod, which nothing else changes. */
  readonly pod: string
  /** How long Patroni retries before it demotes PostgreSQL. Default: Patroni's own, 10 s. */
  readonly retrySeconds?: number
}

export interface PatroniOptions extends LockOptions {
  /** The API server that Patroni uses. Default: the one in its pod's settings. */
  readonly url?: string
  /** Returns the command line that runs a program in the pod. Default: the program itself. */
  readonly run?: (...command: readonly string[]) => readonly string[]
}

export interface Patroni {
  readonly process: RunningProcess
  /** Returns PostgreSQL's output, or its error. */
  readonly sql: (command: string) => string
}

/** Starts Patroni with a new PostgreSQL. */
export async function startPatroni(t: Test, options: PatroniOptions): Promise<Patroni> {
  const { pod, retrySeconds = 10, url, run = (...command) => command } = options
  const folder = mkdtempSync(join(tmpdir(), 'distributary-patroni-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  // PostgreSQL refuses to run as root.
  const account = accountOf('postgres')
  if (account !== null) chownSync(folder, account.uid, account.gid)
  const [port, restPort] = [await freePort(), await freePort()]
  const kubeconfig = join(folder, 'kubeconfig')
  const context = { cluster: 'c', user: 'u' }
  if (url !== undefined) {
    writeJson(kubeconfig, {
      clusters: [{ name: 'c', cluster: { server: url } }],
      users: [{ name: 'u', user: {} }],
      contexts: [{ name: 'x', context }],
      'current-context': 'x',
    })
  }
  const authentication = { superuser: { username: 'admin' }, replication: { username: 'replicator' } }
  writeJson(join(folder, 'patroni.json'), {
    scope: 'demo',
    name: pod,
    kubernetes: {
      namespace: 'default',
      labels: { application: 'patroni' },
      scope_label: 'cluster-name',
      role_label: 'role',
      pod_ip: '127.0.0.1',
      ...(url === undefined ? {} : { context: 'x' }),
    },
    restapi: { listen: `127.0.0.1:${restPort}`, connect_address: `127.0.0.1:${restPort}` },
    bootstrap: {
      dcs: { ttl: 3 * retrySeconds, loop_wait: 2, retry_timeout: retrySeconds },
      initdb: ['data-checksums'],
    },
    postgresql: {
      listen: `127.0.0.1:${port}`,
      connect_address: `127.0.0.1:${port}`,
      data_dir: join(folder, 'data'),
      bin_dir: postgresFolder(),
      pgpass: join(folder, 'pgpass'),
      authentication,
      parameters: { unix_socket_directories: folder },
      pg_hba: ['local all all trust', 'host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust'],
    },
  })
  const identity =
    account === null ? [] : ['setpriv', `--reuid=${account.uid}`, `--regid=${account.gid}`, '--clear-groups']
  const environment = url === undefined ? [] : [`KUBECONFIG=${kubeconfig}`]
  const command = run('env', `HOME=${folder}`, ...environment, ...identity, 'patroni', join(folder, 'patroni.json'))
  const patroni = startProcess(t, command)
  // When Patroni ends, it also ends PostgreSQL.
  t.teardown(async () => await patroni.end())
  const sql = (command: string): string => {
    const args = ['-h', '127.0.0.1', '-p', String(port), '-U', 'admin', '-d', 'postgres', '-Atc', command]
    const { status, stdout, stderr } = spawnSync(join(postgresFolder(), 'psql'), args, { encoding: 'utf8' })
    return status === 0 ? stdout.trim() : stderr
  }
  return { process: patroni, sql }
}

/**
 * Patroni keeps its lock, a ConfigMap: PostgreSQL is the primary throughout, is never demoted or restarted, and
 * continues to accept writes.
 */
export async function keepLock<S extends Stage>(
  t: Test,
  stage: S,
  disruptions: readonly Disruption<S>[],
  options: LockOptions,
): Promise<void> {
  const { pod } = options
  const { process: patroni, sql } = await startPatroni(t, { ...options, url: stage.url })
  const lock = async (): Promise<Readonly<Record<string, string>>> =>
    (await list<Lock>(stage, '/api/v1/namespaces/default/configmaps/demo-leader')).metadata.annotations
  await until(
    () =>
      lock().then(
        () => true,
        () => false,
      ),
    () => `the lock is held: ${patroni.printed()}`,
    120_000,
  )
  const renews = async (): Promise<void> => {
    const { renewTime } = await lock()
    await until(
      async () => (await lock())['renewTime'] !== renewTime,
      () => `the lock is renewed: ${patroni.printed()}`,
      60_000,
    )
    t.match(await lock(), { leader: pod, transitions: '0' })
    t.equal(sql('SELECT pg_is_in_recovery()'), 'f', `PostgreSQL is the primary`)
  }
  await until(
    () => patroni.hasEnded() || sql('SELECT pg_is_in_recovery()') === 'f',
    () => `PostgreSQL is the primary: ${patroni.printed()}`,
    120_000,
  )
  t.notOk(patroni.hasEnded(), patroni.printed())
  await renews()
  const started = sql('SELECT pg_postmaster_start_time()')
  sql('CREATE TABLE moments (n int)')
  for (const [i, disruption] of disruptions.entries()) {
    await disruption.disrupt(stage)
    await renews()
    t.equal(sql(`INSERT INTO moments VALUES (${i}) RETURNING n`).split('\n')[0], String(i), disruption.name)
  }
  t.equal(sql('SELECT pg_postmaster_start_time()'), started, 'PostgreSQL was not restarted')
  t.notMatch(patroni.printed(), /demot/i)
}

function writeJson(path: string, value: object): void {
  writeFileSync(path, JSON.stringify(value), { mode: 0o644 })
}
