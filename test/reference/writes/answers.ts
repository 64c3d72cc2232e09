/**
 * `node .build/test/reference/writes/answers.js URL TOKEN`: sends the scenarios to a kube-apiserver, and records its
 * responses as data. The caller needs all permissions, and the server only its namespace `default`.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import {
  canonicalText,
  isRecord,
  type Json,
  parseJsonTree,
  record,
  textMember,
} from '../../../src/kubernetes/codec/json-tree.js'
import { type Answer, serverAt, type Server, tryAsk } from '../ask.js'
import { DEFINITION, type Scenario, SCENARIOS, type Step, THINGS } from './scenarios.js'

/** A response without what differs from one run to the next. */
export interface WriteAnswer {
  readonly code: number
  readonly warnings: readonly string[]
  /** JSON with sorted members, or text. */
  readonly body: string
}

export interface Recorded {
  readonly name: string
  readonly answers: readonly WriteAnswer[]
}

const FILE = fileURLToPath(new URL('../../../../test/data/kube-apiserver-1.37/writes.jsonl', import.meta.url))

export function recordedWrites(): readonly Recorded[] {
  return readFileSync(FILE, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Recorded)
}

const DEFINITIONS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'

/** Creates the definition of the things, and waits until they are served. @throws Error */
export async function prepare(server: Server): Promise<void> {
  await send(server, { method: 'POST', path: DEFINITIONS, body: JSON.stringify(DEFINITION) })
  for (let attempt = 0; attempt < 600; attempt++) {
    const body = JSON.stringify({ apiVersion: 'writes.example.com/v1', kind: 'Thing', metadata: { name: 'first' } })
    const { code } = await send(server, { method: 'POST', path: THINGS, body })
    if (code === 201 || code === 409) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error('no thing can be created')
}

async function send(server: Server, { method, path, body, type = 'application/json' }: Step): Promise<Answer> {
  const headers = {
    accept: 'application/json',
    'user-agent': 'writes/1',
    ...(body === undefined || type === '' ? {} : { 'content-type': type }),
  }
  return await tryAsk(server, { method, path, headers }, body === undefined ? undefined : Buffer.from(body))
}

export async function answersTo(server: Server, { steps }: Scenario): Promise<readonly WriteAnswer[]> {
  const answers: WriteAnswer[] = []
  for (const step of steps) answers.push(normalized(await send(server, step)))
  return answers
}

function normalized({ code, headers, body }: Answer): WriteAnswer {
  const warnings = [...(headers['warning'] ?? '').matchAll(/299 - ("(?:[^"\\]|\\.)*")/g)]
  return {
    code,
    warnings: warnings.map(([, text = '']) => steady(JSON.parse(text) as string)),
    body: bodyOf(body),
  }
}

function bodyOf(body: Buffer): string {
  try {
    return canonicalText(steadyTree(parseJsonTree(body).value))
  } catch {
    return steady(body.toString())
  }
}

function steadyTree(value: Json, name = ''): Json {
  if (typeof value === 'string') return name === 'resourceVersion' && /^\d+$/.test(value) ? 'VERSION' : steady(value)
  if (Array.isArray(value)) return value.map((item) => steadyTree(item))
  if (!isRecord(value)) return value
  const copy = record()
  for (const member in value) copy[member] = steadyTree(value[member]!, member)
  const base = textMember(copy, 'generateName')
  if (name === 'metadata' && base !== '' && textMember(copy, 'name').length === Math.min(base.length, 58) + 5) {
    copy['name'] = `${textMember(copy, 'name').slice(0, -5)}*****`
  }
  return copy
}

/** Times that a scenario names are in 2020. */
function steady(text: string): string {
  return text
    .replace(/\b[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}\b/g, 'UID')
    .replace(/\b20(?!20)\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, 'TIME')
    .replace(/\b(made\.|A_)[a-z\d]{5}\b/g, '$1*****')
    .replace(/in record \(\d+\)/g, 'in record (VERSION)')
}

async function recordAnswers([url = '', token = '']: readonly string[]): Promise<void> {
  const server = serverAt('theirs', url, token)
  await prepare(server)
  const lines: string[] = []
  for (const scenario of SCENARIOS) {
    lines.push(JSON.stringify({ name: scenario.name, answers: await answersTo(server, scenario) }))
  }
  server.agent.destroy()
  writeFileSync(FILE, `${lines.join('\n')}\n`)
  process.stdout.write(`the answers to ${lines.length} scenarios are in ${FILE}\n`)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await recordAnswers(process.argv.slice(2))
