/**
 * The API server's answers as data, so that `npm test` holds them without Go: the history of an etcd, every revision of it, and
 * what the API server over it answered. Loaded into an empty etcd the history gives the same revisions again, so nothing in
 * the answers has to be translated; of ages alone only their form is compared.
 */
import http from 'node:http'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { LineSplitter } from '../support/json-lines.js'
import type { EtcdProcess } from '../support/etcd-process.js'
import { type Answer, ask, type Question } from './ask.js'
import { HEADERS } from './compare.js'
import { fill, madeUpQuestions, write } from './comparison.js'
import type { DefinitionSet } from './definition-set.js'
import { readMoment } from './moment.js'
import { fixedQuestions } from './questions.js'
import { Random } from './random.js'
import { settle, type World } from './world.js'

/** @param set its name. */
function folderOf(set: string): string {
  return fileURLToPath(new URL(`../../../test/data/kube-apiserver-0.37/${set}/`, import.meta.url))
}

export interface Recorded {
  readonly question: Question
  readonly answer: Answer
}

/** One revision: the API server writes one key at a time. */
export interface Written {
  readonly revision: number
  readonly key: string
  /** null: deleted. */
  readonly value: string | null
}

/** Small enough to read, large enough that each kind of question is in it several times. */
const SCALE = 0.1
const FIXED = 330
const MADE_UP = 420
const MOST_BYTES = 10_000

export async function record(world: World, name: string, set: DefinitionSet, seed: number): Promise<void> {
  const random = new Random(seed)
  await fill(world, set, random, SCALE)
  await write(world, set, random, 40)
  const moment = await readMoment(world, set, set.definitions)
  const questions = [
    ...random.some(fixedQuestions(moment, set.definitions), FIXED),
    ...madeUpQuestions(random, moment, MADE_UP),
  ]
  const lines: string[] = []
  for (const question of questions) {
    const { code, headers, body } = await ask(world.theirs, question)
    if (body.length > MOST_BYTES) continue
    const kept = Object.fromEntries(
      HEADERS.filter((name) => headers[name] !== undefined).map((name) => [name, headers[name]]),
    )
    const text = body.toString()
    const bytes = Buffer.from(text).equals(body) ? { body: text } : { base64: body.toString('base64') }
    lines.push(JSON.stringify({ question, code, headers: kept, ...bytes }))
  }
  const history = await readHistory(world.etcd, await settle(world))
  const folder = folderOf(name)
  mkdirSync(folder, { recursive: true })
  writeFileSync(`${folder}answers.jsonl`, `${lines.join('\n')}\n`)
  writeFileSync(`${folder}history.jsonl`, `${history.map((written) => JSON.stringify(written)).join('\n')}\n`)
  process.stdout.write(`${lines.length} answers and ${history.length} revisions are in ${folder}\n`)
}

export function readRecording(set: string): {
  readonly history: readonly Written[]
  readonly answers: readonly Recorded[]
} {
  const folder = folderOf(set)
  const linesOf = (name: string): unknown[] =>
    readFileSync(`${folder}${name}`, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown)
  const answers = linesOf('answers.jsonl').map((line): Recorded => {
    const { question, code, headers, body, base64 } = line as Omit<Answer, 'body'> & {
      question: Question
      body?: string
      base64?: string
    }
    return {
      question,
      answer: { code, headers, body: body === undefined ? Buffer.from(base64 ?? '', 'base64') : Buffer.from(body) },
    }
  })
  return { history: linesOf('history.jsonl') as Written[], answers }
}

/** @throws Error when a revision is not the one it was. */
export async function loadHistory(etcd: EtcdProcess, history: readonly Written[]): Promise<void> {
  for (const { revision, key, value } of history) {
    const named = { key: Buffer.from(key).toString('base64') }
    const call =
      value === null
        ? etcd.call('kv/deleterange', named)
        : etcd.call('kv/put', { ...named, value: Buffer.from(value).toString('base64') })
    const { header } = (await call) as { header: { revision: string } }
    if (Number(header.revision) !== revision)
      throw new Error(`${key} was written at ${revision}, now at ${header.revision}`)
  }
}

/** Everything up to `revision`, from etcd's own watch. */
async function readHistory(etcd: EtcdProcess, revision: number): Promise<Written[]> {
  interface Told {
    readonly result?: {
      readonly events?: readonly {
        readonly type?: string
        readonly kv: { readonly key: string; readonly value?: string; readonly mod_revision: string }
      }[]
    }
  }
  return await new Promise((resolve, reject) => {
    const history: Written[] = []
    const request = http.request(new URL('/v3/watch', etcd.url), { method: 'POST', agent: false }, (response) => {
      const lines = new LineSplitter((line) => {
        for (const { type, kv } of (JSON.parse(line) as Told).result?.events ?? []) {
          const value = type === 'DELETE' ? null : Buffer.from(kv.value ?? '', 'base64').toString()
          history.push({ revision: Number(kv.mod_revision), key: Buffer.from(kv.key, 'base64').toString(), value })
        }
        if (history.at(-1)?.revision !== revision) return
        resolve(history)
        request.destroy()
      })
      response.on('data', (chunk: Buffer) => lines.push(chunk))
      response.on('error', reject)
    })
    request.on('error', reject)
    request.end(JSON.stringify({ create_request: { key: 'AA==', range_end: 'AA==', start_revision: '1' } }))
  })
}
