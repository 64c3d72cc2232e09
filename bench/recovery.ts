/**
 * Question: for how long do watchers and consistent lists wait when the etcd member that serves our watches freezes,
 * and after an etcd that was away accepts writes again?
 *
 * One of our servers with watchers of three resources is fed by three members, or by one. Each round injects one fault,
 * and changes all three resources as soon as etcd accepts the write. A round ends when every watcher has received that
 * revision.
 */
import type { EtcdProcess } from '../test/support/etcd-process.js'
import { EtcdWriter } from '../test/support/etcd-writer.js'
import { LightWatcher } from '../test/support/light-watcher.js'
import { startServer } from '../test/support/server-process.js'
import { pause, until } from '../test/support/until.js'
import { attempt, type Choice, type Question } from './support/choice.js'

/** While the leader is frozen, writes wait until the other members have elected a new leader. */
const ROLES = ['follower', 'leader'] as const
const AWAY_SECONDS = [2, 12, 35]
const RESOURCES = ['pods', 'configmaps', 'nodes'] as const
const WATCHERS_EACH = 4
/** A write that a member does not answer within this time is retried. */
const TRY_MS = 300
const MOST_MS = 60_000

/** The module reads the choice of etcd when it is loaded, so it is loaded only after that choice. */
const etcdProcesses = () => import('../test/support/etcd-process.js')

type Teardown = { teardown: (work: () => unknown) => void }

export const recovery: Question = async (choice) => {
  const rounds = choice.quick ? 1 : 5
  for (const role of ROLES) {
    await row(choice, `a ${role} of three members freezes`, (t) => frozen(t, role, rounds))
  }
  for (const seconds of choice.quick ? AWAY_SECONDS.slice(0, 1) : AWAY_SECONDS) {
    await row(choice, `etcd is away for ${seconds} s`, (t) => away(t, seconds, choice.quick ? 1 : 3))
  }
}

async function row(choice: Choice, fault: string, measure: (t: Teardown) => Promise<Figures>): Promise<void> {
  const who = { question: 'recovery', subject: 'distributary', wire: 'http1' }
  await attempt(choice, who, async () => {
    const teardowns: (() => unknown)[] = []
    try {
      const figures = await measure({ teardown: (work) => void teardowns.push(work) })
      choice.recorder.row({ ...who, fault, ...figures })
    } finally {
      for (const work of teardowns.reverse()) await work()
    }
  })
}

type Figures = Readonly<Record<string, number>>

/** Times in milliseconds, measured from the fault or from the moment at which etcd accepts writes again. */
interface Round {
  readonly takenMs: number
  readonly toldMs: number
  readonly listedMs: number
}

async function frozen(t: Teardown, role: (typeof ROLES)[number], rounds: number): Promise<Figures> {
  const { startEtcdCluster } = await etcdProcesses()
  const members = await startEtcdCluster(t as never)
  const scene = await openScene(t, members)
  const measured: Round[] = []
  for (let i = 0; i < rounds; i++) {
    const watched = await scene.watchedMember()
    const others = members.filter((member) => member !== watched)
    await makeLeader(members, role === 'leader' ? watched : others[i % 2]!)
    await scene.told(await scene.write(members))
    await watched.kill('SIGSTOP')
    measured.push(await scene.recovered(others, performance.now()))
    await watched.kill('SIGCONT')
    await scene.told(await scene.write(members))
    // The member catches up before the next fault.
    await scene.write([watched])
  }
  return summaryOf(measured)
}

async function away(t: Teardown, seconds: number, rounds: number): Promise<Figures> {
  const { startEtcd } = await etcdProcesses()
  const etcd = await startEtcd(t as never)
  const scene = await openScene(t, [etcd])
  const measured: Round[] = []
  for (let i = 0; i < rounds; i++) {
    await scene.told(await scene.write([etcd]))
    await etcd.kill()
    await pause(seconds * 1_000)
    await etcd.restart()
    measured.push(await scene.recovered([etcd], performance.now()))
  }
  return summaryOf(measured)
}

function summaryOf(rounds: readonly Round[]): Figures {
  const sorted = (name: keyof Round): number[] => rounds.map((round) => round[name]).sort((a, b) => a - b)
  const middle = (name: keyof Round): number => sorted(name)[Math.floor(rounds.length / 2)]!
  return {
    rounds: rounds.length,
    takenP50Ms: middle('takenMs'),
    toldP50Ms: middle('toldMs'),
    toldMaxMs: sorted('toldMs').at(-1)!,
    listedMaxMs: sorted('listedMs').at(-1)!,
    toldAfterTakenMaxMs: Math.max(...rounds.map(({ takenMs, toldMs }) => toldMs - takenMs)),
  }
}

interface Scene {
  /** Changes all resources. Resolves to the revision once one of the members has accepted the write. */
  write(members: readonly EtcdProcess[]): Promise<number>
  /** Resolves when every watcher has received the revision. @throws Error when a watch ends. */
  told(revision: number): Promise<void>
  /** Returns the member that serves most of our watches. */
  watchedMember(): Promise<EtcdProcess>
  /**
   * Runs one round that began with a fault at `sinceMs`: a write to these members, with consistent lists in the
   * meantime.
   */
  recovered(members: readonly EtcdProcess[], sinceMs: number): Promise<Round>
}

async function openScene(t: Teardown, members: readonly EtcdProcess[]): Promise<Scene> {
  let next = 0
  const write: Scene['write'] = async (to) => {
    const change = Object.fromEntries(RESOURCES.map((plural) => [keyOf(plural), objectOf(plural, ++next)]))
    const end = performance.now() + MOST_MS
    for (;;) {
      try {
        return await Promise.any(to.map((member) => new EtcdWriter([member]).commit(change, TRY_MS)))
      } catch (error) {
        if (performance.now() > end) throw error
        await pause(10)
      }
    }
  }
  const first = await write(members)
  const server = await startServer(t as never, {
    flags: ['--port', '0', '--etcd-servers', members.map(({ url }) => url).join(',')],
  })
  const listUrl = (plural: string): string => `${server.url}/api/v1/${plural}`
  const watchers = RESOURCES.flatMap((plural) =>
    Array.from(
      { length: WATCHERS_EACH },
      () => new LightWatcher(`${listUrl(plural)}?watch=true&resourceVersion=${first}`),
    ),
  )
  t.teardown(() => watchers.forEach((watcher) => watcher.destroy()))
  const told: Scene['told'] = async (revision) => {
    await Promise.all(watchers.map((each) => each.until(({ revisions }) => revisions.at(-1)! >= revision, MOST_MS)))
  }
  await told(await write(members))
  return {
    write,
    told,
    watchedMember: () => mostWatched(members),
    async recovered(to, sinceMs) {
      const since = (): number => performance.now() - sinceMs
      const listed = Promise.all(RESOURCES.map((plural) => listUntilAnswered(listUrl(plural)))).then(since)
      const revision = await write(to)
      const takenMs = since()
      await told(revision)
      return { takenMs, toldMs: since(), listedMs: await listed }
    },
  }
}

/** Repeats a consistent list until it succeeds. */
async function listUntilAnswered(url: string): Promise<void> {
  await until(async () => {
    const answer = await fetch(url)
    await answer.arrayBuffer()
    return answer.status === 200
  }, `a list of ${url}`)
}

async function mostWatched(members: readonly EtcdProcess[]): Promise<EtcdProcess> {
  const counts = await Promise.all(
    members.map(async (member) => (await member.metrics()).get('etcd_debugging_mvcc_watcher_total') ?? 0),
  )
  return members[counts.indexOf(Math.max(...counts))]!
}

async function makeLeader(members: readonly EtcdProcess[], wanted: EtcdProcess): Promise<void> {
  const idOf = async (member: EtcdProcess): Promise<{ id: string; leader: string }> => {
    const { header, leader } = (await member.call('maintenance/status', {})) as unknown as {
      header: { member_id: string }
      leader: string
    }
    return { id: header.member_id, leader }
  }
  const { id } = await idOf(wanted)
  await until(async () => {
    const all = await Promise.all(members.map(idOf))
    const at = all.findIndex((each) => each.id === each.leader)
    if (all[at]?.id === id && all.every(({ leader }) => leader === id)) return true
    if (at !== -1) await members[at]!.call('maintenance/transfer-leadership', { targetID: id })
    return false
  }, 'the member leads')
}

const keyOf = (plural: string): string => (plural === 'nodes' ? '/registry/minions/a' : `/registry/${plural}/default/a`)

function objectOf(plural: string, value: number): object {
  const kind = { pods: 'Pod', configmaps: 'ConfigMap', nodes: 'Node' }[plural]
  const metadata = { name: 'a', ...(plural === 'nodes' ? {} : { namespace: 'default' }), labels: { value: `${value}` } }
  return { apiVersion: 'v1', kind, metadata }
}
