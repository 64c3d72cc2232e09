/**
 * The differences between two responses to one question: status, reason, headers that matter to a client, and the body
 * with every number as spelled. The order of members does not matter, that of items does. A page token is opaque: its
 * content is compared. The timing of bookmarks varies: only the one that ends the initial events is compared.
 */
import { gunzipSync } from 'node:zlib'
import { decodeObject } from '../../src/kubernetes/codec/protobuf/decode.js'
import { kubernetesSchema } from '../../src/kubernetes/codec/protobuf/schema.js'
import type { Answer, Question } from './ask.js'
import { isArray, isObject, type LosslessJson, parseLossless, show } from './lossless.js'
import { comparableOpenApi, decodeOpenApi } from './openapi.js'
import { field, fieldsOf, wireDifference } from './wire.js'
import { readYaml } from './yaml.js'

export interface Difference {
  /**
   * `code`, `reason`, `message`, `header warning`, `body .items[].spec`: the same text for the same kind of difference.
   */
  readonly where: string
  readonly theirs: string
  readonly ours: string
}

/** The headers that client-go, kubectl, browsers or caches act on. */
export const HEADERS: readonly string[] = [
  'content-type',
  'cache-control',
  'warning',
  'retry-after',
  'vary',
  'location',
  'allow',
  'content-encoding',
]

/** Differences of one kind in one response. */
const MOST = 12
const PROTOBUF = 'application/vnd.kubernetes.protobuf'

export interface CompareOptions {
  /** false: of an age in a Table, only check that it is one. Default: compare to two seconds. */
  readonly areAgesCompared?: boolean
}

export function compareAnswers(
  question: Question,
  theirs: Answer,
  ours: Answer,
  options: CompareOptions = {},
): Difference[] {
  if (theirs.code !== ours.code) return [{ where: 'code', theirs: summary(theirs), ours: summary(ours) }]
  const found: Difference[] = []
  for (const name of HEADERS) {
    const [a, b] = [theirs.headers[name], ours.headers[name]]
    if (a !== b) found.push({ where: `header ${name}`, theirs: a ?? '(absent)', ours: b ?? '(absent)' })
  }
  if (theirs.headers['content-type'] !== ours.headers['content-type']) return found
  const type = theirs.headers['content-type'] ?? ''
  const [a, b] = [read(question, type, theirs), read(question, type, ours)]
  if (typeof a === 'object' && typeof b === 'object' && a !== null && b !== null) {
    const isOpenApi = /^\/openapi\/(v2|v3\/)/.test(question.path) && theirs.code === 200
    const bodies = isOpenApi ? comparableOpenApi(a, b) : { theirs: a, ours: b }
    const differences = [...found, ...compareBodies(bodies.theirs, bodies.ours, options)]
    return differences.length > 0 ? differences : compareBytes(type, theirs.body, ours.body)
  }
  if (a !== b) found.push({ where: 'text', theirs: show(a), ours: show(b) })
  return found
}

/** Answers equal as JSON may differ in fields unknown to our schema, and in YAML formatting. */
function compareBytes(type: string, theirs: Buffer, ours: Buffer): Difference[] {
  if (isObjectType(type) && isEnveloped(theirs) && isEnveloped(ours)) {
    // The page token of a list.
    const isSame = (where: string, a: Buffer, b: Buffer): boolean =>
      where === '.2.1.3' && token(a.toString()) === token(b.toString())
    const difference = wireDifference(theirs.subarray(4), ours.subarray(4), isSame)
    return difference === null ? [] : [{ ...difference, where: `protobuf ${difference.where}` }]
  }
  if (!type.startsWith('application/yaml')) return []
  // No client depends on what is quoted, or how.
  const [one, other] = [theirs, ours].map((body) => keysOf(readYaml(body.toString()))) as [string[], string[]]
  const at = one.findIndex((key, index) => key !== other[index])
  return at === -1 ? [] : [{ where: 'yaml key', theirs: one[at]!, ours: other[at] ?? '(absent)' }]
}

/** All keys, in the order in which they are written. */
function keysOf(value: LosslessJson): string[] {
  if (isArray(value)) return value.flatMap(keysOf)
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => [key, ...keysOf(inner as LosslessJson)])
}

/** Whether one object in protobuf has this type, which names more for aggregated discovery. */
function isObjectType(type: string): boolean {
  return type.startsWith(PROTOBUF) && !type.includes('stream=')
}

function isEnveloped(body: Buffer): boolean {
  return body.subarray(0, 4).toString('latin1') === 'k8s\0'
}

function summary({ code, headers, body }: Answer): string {
  if (code < 400) return `${code} ${headers['content-type'] ?? ''} ${body.length} bytes`
  // In protobuf, only the text between the control characters is readable.
  return `${code} ${body
    .toString()
    .replaceAll(/[^\P{C}\u00AD]+|\s+/gu, ' ')
    .slice(0, 300)}`
}

/** A body in no known format is compared as text. */
function read(question: Question, type: string, { code, headers, body: sent }: Answer): LosslessJson {
  const body = headers['content-encoding'] === 'gzip' ? gunzipSync(sent) : sent
  const text = body.toString()
  try {
    if (type.startsWith('application/yaml') || type.startsWith('text/yaml')) return readYaml(text)
    if (code === 200 && type.startsWith('application/json') && /[?&]watch=(?!0|false)|\/watch\//.test(question.path))
      return readEvents(question, text)
    if (type.startsWith('application/json')) return parseLossless(text)
    if (type.includes('proto-openapi.spec')) return decodeOpenApi(body, type.includes('.v2') ? 'v2' : 'v3')
    if (isObjectType(type)) return decoded(body)
    if (code === 200 && type === `${PROTOBUF};stream=watch`)
      return orderedEvents(question, framesOf(body).map(readFrame))
  } catch {
    // Compared as it is.
  }
  return type.includes('protobuf') ? body.toString('base64') : text
}

function decoded(body: Buffer): LosslessJson {
  return readList(body) ?? parseLossless(decodeObject(body, kubernetesSchema()).bytes.toString())
}

/** A list of objects, each decoded separately; null for anything else. */
function readList(body: Buffer): LosslessJson | null {
  const unknown = new Map([...fieldsOf(body.subarray(4))].map(({ number, value }) => [number, value as Buffer]))
  const [apiVersion = '', kind = ''] = [...fieldsOf(unknown.get(1)!)].map(({ value }) => String(value))
  if (!kind.endsWith('List') || /^(APIGroupList|APIResource|Partial)/.test(kind)) return null
  const typeMeta = Buffer.concat([field(1, Buffer.from(apiVersion)), field(2, Buffer.from(kind.slice(0, -4)))])
  let metadata: LosslessJson = {}
  const items: LosslessJson[] = []
  for (const { number, value } of fieldsOf(unknown.get(2)!)) {
    const bytes = value as Buffer
    if (number === 2) items.push(decoded(Buffer.concat([body.subarray(0, 4), field(1, typeMeta), field(2, bytes)])))
    else {
      const members = new Map([...fieldsOf(bytes)].map((one) => [one.number, String(one.value)]))
      const [resourceVersion = null, next = null, remaining = null] = [2, 3, 4].map((one) => members.get(one))
      metadata = { resourceVersion, continue: next, remainingItemCount: remaining }
    }
  }
  return { kind, apiVersion, metadata, items }
}

/** The messages of a watch, each length-prefixed. */
function framesOf(body: Buffer): Buffer[] {
  const frames: Buffer[] = []
  for (let at = 0; at < body.length;) {
    const length = body.readUInt32BE(at)
    frames.push(body.subarray(at + 4, at + 4 + length))
    at += 4 + length
  }
  return frames
}

/** A WatchEvent: its type, and its object within a RawExtension. */
function readFrame(frame: Buffer): LosslessJson {
  const fields = new Map([...fieldsOf(frame)].map(({ number, value }) => [number, value]))
  const [raw] = fieldsOf(fields.get(2) as Buffer)
  return { type: String(fields.get(1)), object: decoded(raw!.value as Buffer) }
}

function readEvents(question: Question, text: string): LosslessJson {
  return orderedEvents(
    question,
    text
      .split('\n')
      .filter((line) => line !== '')
      .map(parseLossless),
  )
}

function orderedEvents({ path }: Question, all: readonly LosslessJson[]): LosslessJson {
  const events = all.filter((event) => !isPassingBookmark(event)).map(withMetadataAlone)
  const query = new URLSearchParams(path.split('?')[1])
  const resumes = !['', '0', null].includes(query.get('resourceVersion')) && query.get('sendInitialEvents') !== 'true'
  if (resumes) return withColumnsOnce(events, all)
  // The initial state may be in any order.
  const end = events.findIndex((event) => !isObject(event) || event['type'] !== 'ADDED')
  const initial = events.slice(0, end === -1 ? events.length : end)
  const sorted = initial.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
  return withColumnsOnce([...sorted, ...events.slice(initial.length)], all)
}

/** Only the metadata of a bookmark matters; theirs has the zero value of a Go type around it. */
export function withMetadataAlone(event: LosslessJson): LosslessJson {
  if (!isObject(event) || event['type'] !== 'BOOKMARK' || !isObject(event['object'])) return event
  const { kind = null, apiVersion = null, metadata = null } = event['object']
  return kind === 'Table' ? event : { type: 'BOOKMARK', object: { kind, apiVersion, metadata } }
}

/**
 * Moves a Table's columns to its first event that is not a bookmark: theirs sends them with the first event, bookmark
 * or not, and repeats them when another watcher's bytes are not available.
 *
 * @param all including the bookmarks that are not in `events`.
 */
export function withColumnsOnce(events: readonly LosslessJson[], all: readonly LosslessJson[]): LosslessJson[] {
  let columns = all.map(columnsIn).find((one) => one !== null) ?? null
  return events.map((event) => {
    if (!isObject(event) || !isObject(event['object']) || event['object']['kind'] !== 'Table') return event
    const told = event['type'] === 'BOOKMARK' ? null : columns
    if (told !== null) columns = null
    return { ...event, object: { ...event['object'], columnDefinitions: told } }
  })
}

function columnsIn(event: LosslessJson): LosslessJson {
  return isObject(event) && isObject(event['object']) ? (event['object']['columnDefinitions'] ?? null) : null
}

/** A bookmark other than the one that ends the initial events. */
export function isPassingBookmark(event: LosslessJson): boolean {
  return isObject(event) && event['type'] === 'BOOKMARK' && !JSON.stringify(event).includes('k8s.io/initial-events-end')
}

function keyOf(event: LosslessJson): string {
  const { namespace, name } = metadataOf(isObject(event) ? event['object'] : null)
  return `${show(namespace)}/${show(name)}`
}

/** Returns the metadata of an object, or of the one row of a Table. */
export function metadataOf(object: LosslessJson | undefined): { readonly [name: string]: LosslessJson } {
  if (!isObject(object)) return {}
  const row = isArray(object['rows']) ? object['rows'][0] : undefined
  if (isObject(row)) return metadataOf(row['object'])
  return isObject(object['metadata']) ? object['metadata'] : {}
}

export function compareBodies(
  theirs: LosslessJson,
  ours: LosslessJson,
  { areAgesCompared = true }: CompareOptions = {},
): Difference[] {
  const found: Difference[] = []
  const counts = new Map<string, number>()
  const isStatus = isObject(theirs) && theirs['kind'] === 'Status'
  const add = (path: string, a: LosslessJson | undefined, b: LosslessJson | undefined): void => {
    const where = isStatus && /^\.(reason|message)$/.test(path) ? path.slice(1) : `body ${path}`
    const count = (counts.get(where) ?? 0) + 1
    counts.set(where, count)
    if (count <= MOST) found.push({ where, theirs: show(a), ours: show(b) })
  }
  const walk = (path: string, one: LosslessJson | undefined, other: LosslessJson | undefined): void => {
    const [a, b] = /\.(sub)?resources$|^\.(groups|items)$/.test(path)
      ? servedByBoth(path, one, other, add)
      : [one, other]
    if (a === b || (isAge(a) && isAge(b) && (!areAgesCompared || areClose(a, b)))) return
    if (isArray(a) && isArray(b)) {
      if (a.length !== b.length) add(`${path}.length`, namesOf(a), namesOf(b))
      else if (identities(a) !== identities(b)) add(`${path} (others)`, namesOf(a), namesOf(b))
      else for (const [index, item] of a.entries()) walk(`${path}[]`, item, b[index])
      return
    }
    if (!isObject(a) || !isObject(b)) {
      if (!path.endsWith('.continue') || token(a) !== token(b)) add(path, a, b)
      return
    }
    const cells = columnsOf(a, b)
    for (const name of new Set([...Object.keys(a), ...Object.keys(b)])) {
      if (name === 'rows' && cells !== null) walkRows(`${path}.rows[]`, cells, a['rows'], b['rows'])
      else walk(`${path}.${name}`, a[name], b[name])
    }
  }
  // A cell is identified by its column.
  const walkRows = (
    path: string,
    columns: readonly string[],
    a: LosslessJson | undefined,
    b: LosslessJson | undefined,
  ): void => {
    if (!isArray(a) || !isArray(b) || a.length !== b.length) return walk(path, a, b)
    for (const [index, row] of a.entries()) {
      const other = b[index]
      if (!isObject(row) || !isObject(other)) continue
      const { cells, ...rest } = row
      const { cells: otherCells, ...otherRest } = other
      walk(path, rest, otherRest)
      if (!isArray(cells) || !isArray(otherCells) || cells.length !== otherCells.length)
        walk(`${path}.cells`, cells, otherCells)
      else for (const [at, cell] of cells.entries()) walk(`${path}.cells[${columns[at] ?? at}]`, cell, otherCells[at])
    }
  }
  walk('', theirs, ours)
  return found
}

/** Whether a cell is an age, as Tables print it. */
export function isAge(cell: LosslessJson | undefined): cell is string {
  return typeof cell === 'string' && /^(\d+[ydhms]){1,2}$/.test(cell)
}

/** On a busy machine the ages in two responses to requests of the same moment may differ by a second or two. */
function areClose(a: string, b: string): boolean {
  return Math.abs(secondsOf(a) - secondsOf(b)) <= 2
}

const SECONDS: Readonly<Record<string, number>> = { y: 365 * 86_400, d: 86_400, h: 3_600, m: 60, s: 1 }

function secondsOf(age: string): number {
  return [...age.matchAll(/(\d+)([ydhms])/g)].reduce((sum, [, n, unit = '']) => sum + Number(n) * SECONDS[unit]!, 0)
}

type Members = { readonly [name: string]: LosslessJson }

function columnsOf(a: Members, b: Members): readonly string[] | null {
  if (a['kind'] !== 'Table' || b['kind'] !== 'Table' || !isArray(a['columnDefinitions'])) return null
  return a['columnDefinitions'].map((column) =>
    isObject(column) && typeof column['name'] === 'string' ? column['name'] : '',
  )
}

/**
 * Reports a group or resource in discovery that only one server has by its name, and returns the others for comparison.
 * Resources are listed in the order of a Go map, which varies by process.
 */
function servedByBoth(
  path: string,
  one: LosslessJson | undefined,
  other: LosslessJson | undefined,
  add: (path: string, theirs: LosslessJson | undefined, ours: LosslessJson | undefined) => void,
): readonly (LosslessJson | undefined)[] {
  const [theirs, ours] = [one, other].map((list) => (isArray(list) ? list : [])) as [LosslessJson[], LosslessJson[]]
  if ([...theirs, ...ours].some((item) => servedName(item) === null)) return [one, other]
  const [there, here] = [theirs, ours].map((list) => new Set(list.map(servedName)))
  for (const name of there!) if (!here!.has(name)) add(`${path} (served)`, name, undefined)
  for (const name of here!) if (!there!.has(name)) add(`${path} (served)`, undefined, name)
  const common = (list: readonly LosslessJson[], those: ReadonlySet<string | null>): LosslessJson[] => {
    const both = list.filter((item) => those.has(servedName(item)))
    return path.endsWith('esources') ? both.sort((a, b) => (servedName(a)! < servedName(b)! ? -1 : 1)) : both
  }
  return [common(theirs, here!), common(ours, there!)]
}

/** The name of a group, resource or subresource in discovery; null for anything else. */
function servedName(item: LosslessJson): string | null {
  if (!isObject(item)) return null
  if (isArray(item['versions'])) {
    const group = item['name'] ?? metadataOf(item)['name']
    return typeof group === 'string' ? group : null
  }
  const name = item['subresource'] ?? item['resource'] ?? item['name']
  return typeof name === 'string' && isArray(item['verbs']) ? name : null
}

/** The objects, groups, columns or paths of a list, so that only corresponding ones are compared. */
function identities(items: readonly LosslessJson[]): string {
  return items.map(nameOf).join(' ')
}

function nameOf(item: LosslessJson): string {
  if (!isObject(item)) return ''
  const { namespace, name } = metadataOf(item['object'] ?? item)
  return show([namespace ?? null, name ?? item['name'] ?? item['groupVersion'] ?? null], 120)
}

/** A readable summary of two lists of unequal length. */
function namesOf(items: readonly LosslessJson[]): string {
  const names = items.map((item) => {
    if (!isObject(item)) return show(item, 40)
    const metadata = metadataOf(item['object'] ?? item)
    const name = metadata['name'] ?? item['name'] ?? item['groupVersion'] ?? null
    return `${typeof item['type'] === 'string' ? `${item['type']} ` : ''}${show(name, 60)}`
  })
  return `${items.length}: ${names.slice(0, 12).join(' ')}`
}

/**
 * Returns the content of a page token: the revision, and the key, which begins with a slash in the API server's tokens.
 */
function token(value: LosslessJson | undefined): string {
  if (typeof value !== 'string') return show(value)
  try {
    const { rv, start } = JSON.parse(Buffer.from(value, 'base64url').toString()) as { rv: number; start: string }
    return `${rv} ${start.replace(/^\//, '')}`
  } catch {
    return value
  }
}
