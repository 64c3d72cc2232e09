/**
 * Permissions change under load: Roles and bindings come and go at random, while every identity requests everything on
 * every transport and holds watches. The reference (`test/server/auth/rbac-reference.ts`, written from Kubernetes'
 * documentation) says what each may do in each state.
 *
 * While permissions change, a response must be right for some state between its arrival and a settling time before the
 * request. When they rest, the whole matrix must be right, and each watch must still run or have ended, as its
 * permission says.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { type Random, randomInteger, seededRandom } from '../../src/support/random.js'
import { type BindingObject, mayDo, type Question, type RoleObject, type World } from '../server/auth/rbac-reference.js'
import { type AppHarness, startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'
import { type Held, TRANSPORTS, type Transport, ask, hold } from './support/transports.js'
import { testSeeds } from '../support/test-seeds.js'

/** Permissions are read from caches slightly behind the store; this is far more than the lag under any load. */
const SETTLE_MS = 5_000
const CHANGES = 25

const USERS = ['u0', 'u1', 'u2', 'u3'] as const
const GROUPS: Readonly<Record<string, readonly string[]>> = { u0: ['g0'], u1: ['g0', 'g1'], u2: ['g1'], u3: [] }
const NAMESPACES = ['a', 'ab', 'b'] as const
const API = 'rbac.authorization.k8s.io'

interface Cell {
  readonly user: string
  readonly transport: Transport
  readonly verb: 'get' | 'list' | 'watch'
  readonly resource: 'pods' | 'configmaps'
  readonly namespace: string
}

const CELLS: readonly Cell[] = USERS.flatMap((user) =>
  TRANSPORTS.flatMap((transport) =>
    (['get', 'list', 'watch'] as const)
      .filter((verb) => verb === 'watch' || transport === 'HTTP/1.1' || transport === 'HTTP/2')
      .flatMap((verb) =>
        (['pods', 'configmaps'] as const).flatMap((resource) =>
          ['', ...NAMESPACES]
            .filter((namespace) => verb !== 'get' || namespace !== '')
            .map((namespace) => ({ user, transport, verb, resource, namespace })),
        ),
      ),
  ),
)

function questionOf({ user, verb, resource, namespace }: Cell): Question {
  const name = verb === 'get' ? { name: 'one' } : {}
  return { user, groups: [...(GROUPS[user] ?? []), 'system:authenticated'], verb, resource, namespace, ...name }
}

function pathOf({ verb, resource, namespace }: Cell, seconds: number): string {
  const collection = `/api/v1${namespace === '' ? '' : `/namespaces/${namespace}`}/${resource}`
  if (verb === 'get') return `${collection}/one`
  return verb === 'list' ? collection : `${collection}?watch=1&resourceVersion=1&timeoutSeconds=${seconds}`
}

const said = ({ user, transport, verb, resource, namespace }: Cell): string =>
  `${transport}: ${user} ${verb} ${resource} in "${namespace}"`

/** Changes the permissions of the store and of the reference together. */
class Rights {
  readonly world: World = { roles: [], clusterRoles: [], roleBindings: [], clusterRoleBindings: [] }
  /** Every state, with the time from which it was in force. */
  readonly states: { readonly world: World; readonly atMs: number }[] = []
  readonly #app: AppHarness
  readonly #random: Random
  #sequence = 0

  constructor(app: AppHarness, random: Random) {
    this.#app = app
    this.#random = random
    this.#keep()
  }

  change(): void {
    const random = this.#random
    const kinds = ['roles', 'clusterRoles', 'roleBindings', 'clusterRoleBindings'] as const
    const kind = kinds[randomInteger(random, 0, 3)]!
    const all = this.world[kind] as (RoleObject | BindingObject)[]
    const isNamespaced = kind === 'roles' || kind === 'roleBindings'
    if (all.length > 3 && random.next() < 0.5) {
      const [gone] = all.splice(randomInteger(random, 0, all.length - 1), 1)
      this.#app.delete(keyOf(kind, gone!.metadata))
    } else {
      const name =
        kind === 'roles' || kind === 'clusterRoles' ? `r${randomInteger(random, 0, 3)}` : `b${this.#sequence++}`
      const metadata = isNamespaced ? { name, namespace: pick(random, NAMESPACES) } : { name }
      const object = kind.endsWith('oles') ? { metadata, rules: [this.#rule()] } : { metadata, ...this.#binds(kind) }
      const at = all.findIndex((one) => keyOf(kind, one.metadata) === keyOf(kind, metadata))
      all.splice(at === -1 ? all.length : at, at === -1 ? 0 : 1, object as RoleObject)
      this.#put(kind, object)
    }
    this.#keep()
  }

  /** Gives the canary a permission through each of the four kinds, which shows that everything before has been read. */
  markEnd(n: number): void {
    const rule = { verbs: ['get'], apiGroups: [''], resources: ['pods'], resourceNames: [`canary-${n}`] }
    const path = { verbs: ['get'], nonResourceURLs: [`/apis/canary-${n}`] }
    const subjects = [{ kind: 'User', name: 'canary' }]
    const refTo = (kind: string) => ({ apiGroup: API, kind, name: 'canary' })
    this.#put('roles', { metadata: { name: 'canary', namespace: 'a' }, rules: [rule] })
    this.#put('clusterRoles', { metadata: { name: 'canary' }, rules: [path] })
    this.#put('roleBindings', { metadata: { name: `canary${n}`, namespace: 'a' }, roleRef: refTo('Role'), subjects })
    this.#put('clusterRoleBindings', { metadata: { name: `canary${n}` }, roleRef: refTo('ClusterRole'), subjects })
  }

  #rule() {
    const verbs = pick(this.#random, [['get'], ['list'], ['watch'], ['get', 'list', 'watch'], ['*']])
    const resources = pick(this.#random, [['pods'], ['configmaps'], ['*'], ['pods', 'configmaps']])
    const names = this.#random.next() < 0.2 ? { resourceNames: ['one'] } : {}
    return { verbs: [...verbs], apiGroups: [''], resources: [...resources], ...names }
  }

  #binds(kind: string) {
    const to = kind === 'roleBindings' && this.#random.next() < 0.5 ? 'Role' : 'ClusterRole'
    const isGroup = this.#random.next() < 0.4
    const subject = isGroup
      ? { kind: 'Group', name: pick(this.#random, ['g0', 'g1']) }
      : { kind: 'User', name: pick(this.#random, USERS) }
    return { roleRef: { apiGroup: API, kind: to, name: `r${randomInteger(this.#random, 0, 3)}` }, subjects: [subject] }
  }

  #put(kind: string, object: Named): void {
    const apiKind = `${kind[0]!.toUpperCase()}${kind.slice(1, -1)}`
    this.#app.put(keyOf(kind, object.metadata), { apiVersion: `${API}/v1`, kind: apiKind, ...object })
  }

  #keep(): void {
    this.states.push({ world: structuredClone(this.world), atMs: performance.now() })
  }

  /** Returns the reference's answers in every state that was in force during a span. */
  answersBetween(fromMs: number, toMs: number, question: Question): Set<boolean> {
    const first = this.states.findLastIndex(({ atMs }) => atMs <= fromMs)
    const said = this.states
      .slice(Math.max(0, first))
      .filter(({ atMs }) => atMs <= toMs)
      .map(({ world }) => mayDo(world, question))
    return new Set(said)
  }
}

interface Named {
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly rules?: readonly object[]
  readonly roleRef?: object
  readonly subjects?: readonly object[]
}

function keyOf(kind: string, { name, namespace }: { readonly name: string; readonly namespace?: string }): string {
  return `${kind.toLowerCase()}/${namespace === undefined ? '' : `${namespace}/`}${name}`
}

function pick<T>(random: Random, from: readonly T[]): T {
  return from[randomInteger(random, 0, from.length - 1)] as T
}

for (const seed of testSeeds(1)) {
  void t.test(`no answer differs from the reference while permissions change under load (seed ${seed})`, async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'distributary-rights-'))
    t.teardown(() => rmSync(directory, { recursive: true, force: true }))
    const tokens = [...USERS, 'canary'].map((user, i) => `t-${user},${user},${i},"${(GROUPS[user] ?? []).join(',')}"`)
    writeFileSync(join(directory, 'tokens.csv'), `${tokens.join('\n')}\n`)
    const objects: Record<string, object> = {}
    for (const namespace of NAMESPACES) {
      objects[`pods/${namespace}/one`] = pod('one', { namespace })
      objects[`configmaps/${namespace}/one`] = {
        kind: 'ConfigMap',
        apiVersion: 'v1',
        metadata: { name: 'one', namespace },
      }
    }
    const app = await startApp(t, {
      objects,
      // prettier-ignore
      flags: [
        '--token-auth-file', join(directory, 'tokens.csv'), '--authorization-mode', 'RBAC', '--requests-per-second', '100000',
      ],
    })
    const random = seededRandom(seed)
    const rights = new Rights(app, random)
    for (let i = 0; i < 12; i++) rights.change()

    const watches: { readonly cell: Cell; readonly held: Held }[] = []
    t.teardown(() => watches.forEach(({ held }) => held.close()))
    let asked = 0
    let allowed = 0
    const askOne = async (cell: Cell, isResting: boolean): Promise<void> => {
      const token = `t-${cell.user}`
      const fromMs = performance.now()
      const held = await hold(app.url, cell.transport, pathOf(cell, 600), { token })
      const toMs = performance.now()
      const may = isResting
        ? new Set([mayDo(rights.world, questionOf(cell))])
        : rights.answersBetween(fromMs - SETTLE_MS, toMs, questionOf(cell))
      asked++
      if (held.status === 200) allowed++
      if ((held.status !== 200 && held.status !== 403) || !may.has(held.status === 200)) {
        t.fail(`${said(cell)}: ${held.status}, the reference says ${[...may].join(' or ')}`)
      }
      if (held.status === 200 && cell.verb === 'watch') watches.push({ cell, held })
      else held.close()
    }

    for (let round = 0; round < 2; round++) {
      let isChanging = true
      const load = Array.from({ length: 6 }, async () => {
        while (isChanging) await askOne(pick(random, CELLS), false)
      })
      for (let i = 0; i < CHANGES; i++) {
        rights.change()
        await new Promise((resolve) => setTimeout(resolve, 15))
      }
      isChanging = false
      await Promise.all(load)
      rights.markEnd(round)
      const canary = async (path: string): Promise<number> =>
        (await ask(app.url, 'HTTP/1.1', path, { token: 't-canary' })).status
      for (const path of [`/api/v1/namespaces/a/pods/canary-${round}`, `/apis/canary-${round}`]) {
        const end = performance.now() + 20_000
        while ((await canary(path)) === 403) if (performance.now() > end) t.fail(`not read within 20 s: ${path}`)
      }
      const queue = [...CELLS]
      const lane = async (): Promise<void> => {
        for (let cell = queue.shift(); cell !== undefined; cell = queue.shift()) await askOne(cell, true)
      }
      await Promise.all(Array.from({ length: 8 }, lane))
      const mayRun = ({ cell }: { readonly cell: Cell }): boolean => mayDo(rights.world, questionOf(cell))
      const forbidden = watches.filter((watch) => !mayRun(watch))
      await until(
        () => forbidden.every(({ held }) => held.hasEnded),
        `${forbidden.length} watches without a right end`,
        30_000,
      )
      for (const { cell, held } of forbidden) {
        if (!/"code":403/.test(held.text)) t.fail(`${said(cell)} ended without a reason`)
      }
      // A watch whose permission was briefly gone may have ended then; nothing else ends a watch.
      const cut = watches.filter(({ held }) => held.hasEnded && !/"code":403/.test(held.text))
      t.same(
        cut.map(({ cell }) => said(cell)),
        [],
        'no watch ended for any other reason',
      )
      t.comment(`${asked} asked, ${allowed} allowed, ${forbidden.length} of ${watches.length} watches ended, ${rights.states.length} states`) // prettier-ignore
      for (const { held } of watches.splice(0)) held.close()
    }
    t.ok(asked > CELLS.length * 2 && allowed > asked / 20 && allowed < asked * 0.95, `${allowed} of ${asked} allowed`)
  })
}
