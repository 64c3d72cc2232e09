/** The course of a run: fill, ask, watch and write, change definitions, ask again. */
import { setTimeout as delay } from 'node:timers/promises'
import { type Answer, type Question, tryAsk } from './ask.js'
import { compareAnswers, type Difference } from './compare.js'
import type { Definition } from './definition.js'
import type { Change, DefinitionSet } from './definition-set.js'
import { makeObject, postedObjects } from './objects.js'
import { fixedQuestions, getQuestion, listQuestion, type Moment, watchQuestion } from './questions.js'
import { Random } from './random.js'
import { Report, isExcepted } from './report.js'
import { readMoment } from './moment.js'
import { Streams } from './streams.js'
import {
  changeDefinition,
  createDefinition,
  deleteDefinition,
  get,
  post,
  send,
  settle,
  store,
  untilServed,
  type World,
} from './world.js'

/**
 * The number of questions at one time, so that one that waits (for a revision of the future) does not delay the others.
 */
const AT_ONCE = 12

export class Comparison {
  readonly #report: Report
  readonly #world: World
  readonly #set: DefinitionSet
  readonly #random: Random
  #definitions: readonly Definition[]

  constructor(world: World, set: DefinitionSet, seed: number, report: Report) {
    this.#world = world
    this.#set = set
    this.#definitions = set.definitions
    this.#report = report
    this.#random = new Random(seed)
  }

  /** @param withinMs for the questions of the seed: those that are left then are not asked. */
  async run(questions: number, withinMs: number): Promise<void> {
    const step = stepTimer()
    await fill(this.#world, this.#set, this.#random, 1)
    step('filled')
    const moment = await readMoment(this.#world, this.#set, this.#definitions)
    await this.#askAll(fixedQuestions(moment, this.#definitions))
    step('asked the fixed questions')
    const left = await this.#askAll(madeUpQuestions(this.#random, moment, questions), withinMs)
    step(`asked ${questions - left} of ${questions} questions of the seed`)
    for (const shelf of moment.shelves)
      await this.#walkPages(shelf.objects.length, `/apis/${shelf.group}/${shelf.version}/${shelf.plural}`)
    step('walked pages')
    await this.#watchAndWrite(moment, 400)
    step('watched under writes')
    for (const change of this.#set.changes) {
      await this.#change(change)
      step(`changed a definition: ${change.what}`)
    }
  }

  /** How many are left when the time is over. */
  async #askAll(questions: readonly Question[], withinMs = Infinity): Promise<number> {
    const deadline = performance.now() + withinMs
    const left = [...questions].reverse()
    const askOn = async (): Promise<void> => {
      while (performance.now() < deadline) {
        const question = left.pop()
        if (question === undefined) return
        await this.#compare(question)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, askOn))
    return left.length
  }

  /**
   * A question is asked again when the difference may come from time passing, or when one of the two servers timed out.
   */
  async #compare(question: Question): Promise<void> {
    let found: Difference[] = []
    for (let look = 1; look <= 3; look++) {
      if (look > 1) await delay(look * 150)
      // How many of hundreds of events come within the second of a short watch is a matter of speed.
      const asked =
        look === 1 ? question : { ...question, path: question.path.replace('timeoutSeconds=1', 'timeoutSeconds=6') }
      const [theirs, ours] = await Promise.all([tryAsk(this.#world.theirs, asked), tryAsk(this.#world.ours, asked)])
      found = compareAnswers(question, theirs, ours)
      const differs = found.some((difference) => !isExcepted(difference, question))
      if (!differs && look > 1) this.#report.addSecondLook()
      // What only time makes different is equal when it is asked again; how often that was is told.
      const isLate = [theirs, ours].some(({ code }) => code === 0 || code === 504)
      if (!isLate && !differs) break
    }
    this.#report.add(question, found)
  }

  /** Each with its own tokens, and with those of the other. */
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
          const [theirs, ours] = await Promise.all([
            tryAsk(this.#world.theirs, at(theirToken)),
            tryAsk(this.#world.ours, at(ourToken)),
          ])
          this.#report.add(at(theirToken), compareAnswers(at(theirToken), theirs, ours))
          if (page > 0) for (const token of [theirToken, ourToken]) await this.#compare(at(token))
          ;[theirToken, ourToken] = [tokenOf(theirs), tokenOf(ours)]
          if (theirToken === '' || ourToken === '') break
        }
      }
    }
  }

  async #watchAndWrite(moment: Moment, writes: number): Promise<void> {
    const streams = new Streams(this.#world.theirs, this.#world.ours, this.#report)
    try {
      await streams.open(moment.shelves, moment.revision)
      await write(this.#world, this.#set, this.#random, writes)
      await streams.compare()
    } finally {
      streams.close()
    }
  }

  async #change({ definition, isDeleted = false }: Change): Promise<void> {
    const changed = isDeleted ? unserved(definition) : definition
    this.#definitions = this.#definitions.map((one) => (one.plural === changed.plural ? changed : one))
    await (isDeleted ? deleteDefinition : changeDefinition)(this.#world, definition)
    await untilServed(this.#world, [changed])
    // Their storage is made anew a moment after the definition was accepted.
    await delay(2_000)
    const moment = await readMoment(this.#world, this.#set, [changed])
    await this.#askAll(fixedQuestions(moment, [changed]))
    await this.#askAll(madeUpQuestions(this.#random, moment, 150))
    const whole = await readMoment(this.#world, this.#set, this.#definitions)
    const shelves = whole.shelves.filter(({ plural }) => plural === changed.plural)
    await this.#watchAndWrite({ ...whole, shelves }, 150)
  }
}

/** As many different ones as asked for. */
export function madeUpQuestions(random: Random, moment: Moment, count: number): Question[] {
  const made = new Map<string, Question>()
  for (let tries = 0; made.size < count && tries < count * 3; tries++) {
    const chance = random.next()
    const question = (chance < 0.04 ? watchQuestion : chance < 0.34 ? getQuestion : listQuestion)(random, moment)
    made.set(JSON.stringify(question), question)
  }
  return [...made.values()]
}

/** New objects, changed and deleted ones, of every resource that the API server can write. */
export async function write(world: World, set: DefinitionSet, random: Random, count: number): Promise<void> {
  const live: string[] = []
  const written = Object.keys(set.counts).filter((plural) => set.counts[plural]! > 0)
  for (let index = 0; index < count; index++) {
    const chance = random.next()
    if (live.length === 0 || chance < 0.45) {
      const plural = random.pick(written)
      // Never a name again, from one round of writes to the next.
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

/** Definitions, objects, and values that only an older definition explains. */
export async function fill(world: World, set: DefinitionSet, random: Random, scale: number): Promise<void> {
  for (const definition of set.definitions) await createDefinition(world, definition)
  await untilServed(
    world,
    set.definitions.filter(({ isRefused = false }) => !isRefused),
  )
  for (const object of postedObjects(set, random, scale)) await post(world, object)
  for (const object of set.stored) await store(world, object)
  await settle(world)
}

/** Asked for, but gone: what is left are its paths. */
function unserved(definition: Definition): Definition {
  return { ...definition, versions: definition.versions.map((version) => ({ ...version, served: false })) }
}

function tokenOf({ body }: Answer): string {
  try {
    return (JSON.parse(body.toString()) as { metadata?: { continue?: string } }).metadata?.continue ?? ''
  } catch {
    return ''
  }
}

function stepTimer(): (what: string) => void {
  const start = performance.now()
  return (what) => process.stdout.write(`${((performance.now() - start) / 1_000).toFixed(1)} s: ${what}\n`)
}
