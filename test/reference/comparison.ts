/** The course of a run: fill, ask, watch and write, change definitions, ask again. */
import { setTimeout as delay } from 'node:timers/promises'
import { type Answer, type Question, tryAsk } from './ask.js'
import { eachAtOnce } from './at-once.js'
import { compareAnswers, type Difference } from './compare.js'
import type { Definition } from '../support/definition.js'
import type { Change, DefinitionSet } from './definition-set.js'
import { makeObject, postedObjects } from './objects.js'
import { serverQuestions, shelfQuestions, unservedQuestions } from './fixed-questions.js'
import { getQuestion, listQuestion, type Moment, root, watchQuestion } from './questions.js'
import { Random } from './random.js'
import type { Report } from './report.js'
import { compareDecisions, fillDecisions } from './decisions.js'
import { discover } from './discovered.js'
import { churn, Kubelet, letNamespacesEnd } from './churn.js'
import { isNamed, readMoment } from './moment.js'
import { type Grown, seed } from './seed.js'
import { Streams } from './streams.js'
import { compareTokens } from './tokens.js'
import {
  changeDefinition,
  createDefinition,
  deleteDefinition,
  get,
  post,
  revisionFor,
  send,
  store,
  untilServed,
  type World,
} from './world.js'

/** Concurrent questions, so that one that waits (for a future revision) does not delay the others. */
const AT_ONCE = 12

/** The number of decisions compared for RBAC, and again for nodes. */
const DECISIONS = 2_000

export interface ComparisonOptions {
  readonly seed: number
  /** `pods`, `deployments.apps`: only these resources. Empty: all. */
  readonly only: readonly string[]
  /** Whether to watch the resources in `only` while the controllers work. Without `only`, this is always done. */
  readonly isWithControllers: boolean
  /** Whether the API server also answers in CBOR, which distributary does not: nothing is asked in it. */
  readonly isCbor: boolean
}

export class Comparison {
  readonly #report: Report
  readonly #world: World
  readonly #set: DefinitionSet
  readonly #random: Random
  readonly #only: readonly string[]
  readonly #isWithControllers: boolean
  readonly #isCbor: boolean
  #definitions: readonly Definition[]

  constructor(
    world: World,
    set: DefinitionSet,
    { seed, only, isWithControllers, isCbor }: ComparisonOptions,
    report: Report,
  ) {
    this.#world = world
    this.#set = set
    this.#only = only
    this.#isWithControllers = isWithControllers
    this.#isCbor = isCbor
    this.#definitions = set.definitions
    this.#report = report
    this.#random = new Random(seed)
  }

  /** @param withinMs for the questions of the seed: those that are left then are not asked. */
  async run(questions: number, withinMs: number): Promise<void> {
    const step = stepTimer()
    const own = (await discover(this.#world.theirs)).filter((kind) => isNamed(kind, this.#only))
    printGrown(await seed(this.#world, own))
    step('filled with Kubernetes’ own kinds')
    await fill(this.#world, this.#set, this.#random, 1)
    step('filled with custom resources')
    const moment = await this.#moment()
    if (this.#only.length === 0) await this.#askAll(serverQuestions(moment))
    await this.#askAll(this.#definitions.flatMap(unservedQuestions))
    await this.#askAll(moment.shelves.flatMap(shelfQuestions))
    step('asked the fixed questions')
    if (this.#only.length === 0) {
      await this.#askCallers(own)
      step('asked for decisions and tokens')
    }
    const left = await this.#askAll(madeUpQuestions(this.#random, moment, questions), withinMs)
    step(`asked ${questions - left} of ${questions} questions of the seed`)
    await eachAtOnce(
      moment.shelves,
      AT_ONCE,
      async (shelf) => await this.#walkPages(shelf.objects.length, root(shelf, null)),
    )
    step('walked pages')
    await this.#watchAndWrite(moment, 400)
    step('watched under writes')
    for (const change of this.#set.changes) {
      await this.#change(change)
      step(`changed a definition: ${change.what}`)
    }
    if (this.#only.length === 0 || this.#isWithControllers) {
      await this.#watchControllers()
      step('watched the controllers at work, and a restart')
    }
    if (this.#only.length === 0) this.#report.requireKnown()
  }

  /** Compares only what concerns callers: who they are, and what they may do. */
  async runCallers(): Promise<void> {
    const step = stepTimer()
    const team = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'team-a' } }
    await send(this.#world, 'POST', '/api/v1/namespaces', JSON.stringify(team))
    await this.#askCallers(await discover(this.#world.theirs))
    step('asked for decisions and tokens')
  }

  /** Compares only what the server says about itself: discovery, OpenAPI, health. */
  async runServer(): Promise<void> {
    const step = stepTimer()
    // An APIService makes a group of its own.
    printGrown(await seed(this.#world, await discover(this.#world.theirs)))
    await define(this.#world, this.#set)
    step('filled with Kubernetes’ own kinds and with definitions')
    await this.#askAll(serverQuestions(await this.#moment()))
    step('asked about the server')
  }

  async #askCallers(kinds: Parameters<typeof compareDecisions>[3]): Promise<void> {
    await fillDecisions(this.#world)
    await compareDecisions(this.#world, this.#report, this.#random, kinds, DECISIONS)
    await compareTokens(this.#world, this.#report)
  }

  async #moment(): Promise<Moment> {
    return await readMoment(this.#world, this.#set.values, (served) => isNamed(served, this.#only))
  }

  /** Returns how many are left when the time is over. */
  async #askAll(questions: readonly Question[], withinMs = Infinity): Promise<number> {
    const deadlineMs = performance.now() + withinMs
    const all = this.#isCbor ? questions.filter(({ headers }) => !headers['accept']?.includes('cbor')) : questions
    return await eachAtOnce(all, AT_ONCE, async (question) => await this.#compare(question), deadlineMs)
  }

  /**
   * A question is repeated when the difference may come from the passing of time, or when one of the two servers timed
   * out.
   */
  async #compare(question: Question): Promise<void> {
    let found: Difference[] = []
    for (let look = 1; look <= 3; look++) {
      if (look > 1) await delay(look * 150)
      // How many of hundreds of events arrive within a short watch's second depends on speed.
      const asked =
        look === 1 ? question : { ...question, path: question.path.replace('timeoutSeconds=1', 'timeoutSeconds=6') }
      const [theirs, ours] = await Promise.all([tryAsk(this.#world.theirs, asked), tryAsk(this.#world.ours, asked)])
      found = compareAnswers(question, theirs, ours)
      const differs = found.some((difference) => !this.#report.isExplained(difference, question))
      if (!differs && look > 1) this.#report.addSecondLook()
      // A difference caused by timing disappears on a second attempt; such attempts are counted.
      const isLate = [theirs, ours].some(({ code }) => code === 0 || code === 504)
      if (!isLate && !differs) break
    }
    this.#report.add(question, found)
  }

  /** Asks both servers at one revision, because something may be written between two responses. */
  async #askAtOnce(theirs: Question, ours: Question): Promise<readonly [Answer, Answer]> {
    for (let look = 1; ; look++) {
      const answers = await Promise.all([tryAsk(this.#world.theirs, theirs), tryAsk(this.#world.ours, ours)])
      // Not with a pattern: in lists of custom resources the items precede the metadata.
      const [a, b] = answers.map((answer) => listMetaOf(answer).resourceVersion)
      if (a === b || look === 20) return answers
      await delay(look * 10)
    }
  }

  /** Reads a list in pages from each server, with its own page tokens and with those of the other. */
  async #walkPages(objects: number, path: string): Promise<void> {
    for (const limit of [1, 3, 50].filter((limit) => limit < objects)) {
      for (const rest of ['', '&labelSelector=app']) {
        const first = `${path}?limit=${limit}${rest}`
        let [theirToken, ourToken] = ['', '']
        for (let page = 0; page < 8; page++) {
          const at = (token: string): Question => ({
            method: 'GET',
            path: token === '' ? first : `${first}&continue=${encodeURIComponent(token)}`,
            headers: { accept: 'application/json' },
          })
          const [theirs, ours] = await this.#askAtOnce(at(theirToken), at(ourToken))
          this.#report.add(at(theirToken), compareAnswers(at(theirToken), theirs, ours))
          if (page > 0) for (const token of [theirToken, ourToken]) await this.#compare(at(token))
          ;[theirToken, ourToken] = [theirs, ours].map((answer) => listMetaOf(answer).continue ?? '') as [
            string,
            string,
          ]
          if (theirToken === '' || ourToken === '') break
        }
      }
    }
  }

  async #watchAndWrite(moment: Moment, writes: number): Promise<void> {
    const streams = new Streams(this.#world.theirs, this.#world.ours, this.#report)
    try {
      await streams.open(moment.shelves, (plural) => revisionFor(this.#world, plural))
      await write(this.#world, this.#set, this.#random, writes)
      await streams.compare()
    } finally {
      streams.close()
    }
  }

  /**
   * Compares every stream while controllers roll out, scale and clean up, with a restart of ours in between where it
   * has its history from etcd; and the final state.
   */
  async #watchControllers(): Promise<void> {
    await letNamespacesEnd(this.#world)
    // The storage of a changed definition is rebuilt a moment later.
    await delay(2_000)
    const { shelves } = await this.#moment()
    const streams = new Streams(this.#world.theirs, this.#world.ours, this.#report)
    const kubelet = new Kubelet(this.#world)
    try {
      await streams.open(shelves, (plural) => revisionFor(this.#world, plural))
      this.#world.startControllers()
      await kubelet.start()
      await churn(this.#world, 'churn-one', async () => {
        // Behind an API server, a restarted server has no history from before, and watches end.
        if (this.#world.behind === 'api-server') return
        await this.#world.restartOurs()
        await streams.resume()
      })
      await churn(this.#world, 'churn-two', async () => {})
      await streams.compare()
    } finally {
      streams.close()
      kubelet.stop()
    }
    const questions: Question[] = []
    for (const shelf of shelves) {
      const exact = `resourceVersion=${await revisionFor(this.#world, shelf.plural)}&resourceVersionMatch=Exact`
      questions.push({ method: 'GET', path: `${root(shelf, null)}?${exact}`, headers: { accept: 'application/json' } })
    }
    await this.#askAll(questions)
  }

  async #change({ definition, isDeleted = false }: Change): Promise<void> {
    const changed = isDeleted ? unserved(definition) : definition
    this.#definitions = this.#definitions.map((one) => (one.plural === changed.plural ? changed : one))
    await (isDeleted ? deleteDefinition : changeDefinition)(this.#world, definition)
    await untilServed(this.#world, [changed])
    // The API server rebuilds the storage a moment after it has accepted a definition.
    await delay(2_000)
    const moment = await this.#moment()
    const shelves = moment.shelves.filter((shelf) => isNamed(shelf, [`${changed.plural}.${changed.group}`]))
    if (shelves.length > 0) {
      await this.#askAll([...shelves.flatMap(shelfQuestions), ...unservedQuestions(changed)])
      await this.#askAll(madeUpQuestions(this.#random, { ...moment, shelves }, 150))
    }
    await this.#watchAndWrite({ ...moment, shelves }, 150)
  }
}

/** Prints the kinds that had to be grown. */
export function printGrown(grown: readonly Grown[]): void {
  for (const { of, writes, missing, failure } of grown)
    process.stdout.write(
      `grown: ${of.plural}.${of.version}.${of.group}: ${failure ?? `${writes.length} writes, ${missing.length} fields in no object`}\n`,
    )
}

/** `count` different questions. */
export function madeUpQuestions(random: Random, moment: Moment, count: number): Question[] {
  const made = new Map<string, Question>()
  for (let tries = 0; made.size < count && tries < count * 3; tries++) {
    const chance = random.next()
    const question = (chance < 0.04 ? watchQuestion : chance < 0.34 ? getQuestion : listQuestion)(random, moment)
    made.set(JSON.stringify(question), question)
  }
  return [...made.values()]
}

/** Creates, changes and deletes objects of every resource that the API server can write. */
export async function write(world: World, set: DefinitionSet, random: Random, count: number): Promise<void> {
  const live: string[] = []
  const written = Object.keys(set.counts).filter((plural) => set.counts[plural]! > 0)
  for (let index = 0; index < count && written.length > 0; index++) {
    const chance = random.next()
    if (live.length === 0 || chance < 0.45) {
      const plural = random.pick(written)
      // Names are never reused between rounds of writes.
      const { isDeleted: _, ...object } = makeObject(
        set,
        random,
        plural,
        index,
        `live-${Math.floor(random.next() * 1e9)}`,
      )
      if ((await get(world.theirs, `${object.path}?limit=1`)).code !== 200) continue
      await post(world, object)
      const { metadata } = JSON.parse(object.body) as { metadata: { name: string } }
      live.push(`${object.path}/${metadata.name}`)
    } else if (chance < 0.8) {
      const label = random.pick(['"web"', '"api"', 'null'])
      const body = `{"metadata":{"labels":{"app":${label}},"annotations":{"turn":"${index}"}},"spec":{"note":"${index}"}}`
      await send(world, 'PATCH', random.pick(live), body)
    } else {
      const [path] = live.splice(random.below(live.length), 1)
      await send(world, 'DELETE', path!, '{}')
    }
  }
}

async function define(world: World, { definitions }: DefinitionSet): Promise<void> {
  for (const definition of definitions) await createDefinition(world, definition)
  await untilServed(
    world,
    definitions.filter(({ isRefused = false }) => !isRefused),
  )
}

/** Creates definitions, objects, and values that only an older definition explains. */
export async function fill(world: World, set: DefinitionSet, random: Random, scale: number): Promise<void> {
  await define(world, set)
  for (const object of postedObjects(set, random, scale)) await post(world, object)
  for (const object of set.stored) await store(world, object)
}

/** A resource that is no longer served; its paths are still requested. */
function unserved(definition: Definition): Definition {
  return { ...definition, versions: definition.versions.map((version) => ({ ...version, served: false })) }
}

function listMetaOf({ body }: Answer): { readonly continue?: string; readonly resourceVersion?: string } {
  try {
    return (JSON.parse(body.toString()) as { metadata?: object }).metadata ?? {}
  } catch {
    return {}
  }
}

function stepTimer(): (what: string) => void {
  const start = performance.now()
  return (what) => process.stdout.write(`${((performance.now() - start) / 1_000).toFixed(1)} s: ${what}\n`)
}
