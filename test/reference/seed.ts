/**
 * Fills the API server with variants of every storable kind, each as rich as the server accepts: created, given a
 * status, and some of them deleted with a finalizer that keeps them.
 *
 * Growing them takes minutes, so `--grow` stores the results as data, and other runs only write them. A kind that has
 * no stored objects is grown in the run.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ask } from './ask.js'
import { eachAtOnce } from './at-once.js'
import { groupPath, readSchemas, type Schema, type Schemas, type Served } from './discovered.js'
import { Coverage, Grower, type Memory, type Value, type Verdict } from './grow.js'
import { beginning, names } from './grow-values.js'
import { CURRENT, kubernetesVersion } from './programs.js'
import type { World } from './world.js'

const file = fileURLToPath(new URL('../../../test/data/kube-apiserver-1.37/objects.jsonl', import.meta.url))

const MOST_VARIANTS = 8
const AT_ONCE = 4

/** Where the objects of a kind are created; quotas and limit ranges would reject those of others. */
const NAMESPACES = ['default', 'team-a', 'team-ab'] as const
const LIMITED = 'limited'

/** The fields that a subresource writes, by its name. */
const WRITTEN: Readonly<Record<string, readonly string[]>> = {
  status: ['status'],
  approval: ['status', 'conditions'],
  ephemeralcontainers: ['spec', 'ephemeralContainers'],
}

/** A write that the server accepted. */
interface Write {
  readonly kind: string
  readonly method: string
  readonly path: string
  readonly body: Members
}

type Members = { [name: string]: Value }

export interface Grown {
  readonly of: Served
  readonly writes: readonly Write[]
  /** Fields that no object has, and why. */
  readonly missing: readonly string[]
  /** Why there is no object at all. */
  readonly failure: string | null
}

function hasDefaultPriority({ plural, group }: Served): boolean {
  return group === 'scheduling.k8s.io' && plural !== 'priorityclasses'
}

/** Whether this file fills the kind. */
export function isStorable({ plural, group, verbs }: Served): boolean {
  const isDefinition = plural === 'customresourcedefinitions' && group === 'apiextensions.k8s.io'
  return !isDefinition && ['create', 'get', 'list'].every((verb) => verbs.includes(verb))
}

/**
 * @param isAnew grow every kind, whatever is stored.
 * @returns what was grown, without what was stored.
 */
export async function seed(world: World, kinds: readonly Served[], isAnew = false): Promise<readonly Grown[]> {
  for (const name of [...NAMESPACES.slice(1), LIMITED]) await makeNamespace(world, name)
  const kept = isAnew ? new Map<string, Write[]>() : readKept()
  const storable = kinds.filter(isStorable)
  const known = storable.filter((one) => kept.has(nameOf(one)))
  const writeAll = async (some: readonly Served[]): Promise<void> => {
    await eachAtOnce(some, AT_ONCE, async (one) => {
      for (const each of kept.get(nameOf(one))!) await writeAgain(world, each)
    })
  }
  // Groups of pods have the priority that they were grown with only as long as no class is the default.
  await writeAll(known.filter(hasDefaultPriority))
  await writeAll(known.filter((one) => !hasDefaultPriority(one)))
  const unknown = storable.filter((one) => !kept.has(nameOf(one)))
  const memory: Memory = new Map()
  const schemas = new Map<string, Schemas>()
  const grown: Grown[] = []
  const growOne = async (of: Served): Promise<void> => {
    const path = groupPath(of.group, of.version)
    if (!schemas.has(path)) schemas.set(path, await readSchemas(world.theirs, of.group, of.version))
    grown.push(await new KindSeeder(world, of, schemas.get(path)!, memory).run())
  }
  // Many kinds contain the parts of a pod: they reuse them once they are known.
  const isPod = ({ plural }: Served): boolean => plural === 'pods'
  for (const pods of unknown.filter(isPod)) await growOne(pods)
  await eachAtOnce(
    unknown.filter((one) => !isPod(one)),
    AT_ONCE,
    growOne,
  )
  return grown
}

/** Stores the grown objects for later runs, replacing those of the same kinds. */
export function keep(grown: readonly Grown[]): void {
  const kept = readKept()
  for (const { of, writes } of grown) kept.set(nameOf(of), [...writes])
  const lines = [...kept]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, writes]) => writes.map((write) => JSON.stringify(write)))
  writeFileSync(file, `${[JSON.stringify({ kubernetes: kubernetesVersion }), ...lines].join('\n')}\n`)
}

/** Returns the stored objects by kind. The map is empty if they were recorded from another release. */
function readKept(): Map<string, Write[]> {
  const kept = new Map<string, Write[]>()
  if (!existsSync(file)) return kept
  const [head, ...lines] = readFileSync(file, 'utf8').trimEnd().split('\n')
  if ((JSON.parse(head!) as { kubernetes: string }).kubernetes !== kubernetesVersion) return kept
  for (const line of lines) {
    const write = JSON.parse(line) as Write
    kept.set(write.kind, [...(kept.get(write.kind) ?? []), write])
  }
  return kept
}

function nameOf({ plural, group, version }: Served): string {
  return `${plural}.${version}.${group}`
}

async function makeNamespace(world: World, name: string): Promise<void> {
  await write(world, 'POST', '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
}

/** @throws Error with the server's message when it no longer accepts the write. */
async function writeAgain(world: World, { method, path, body }: Write): Promise<void> {
  for (let tries = 1; ; tries++) {
    // Uses the current object, whose uid and revision have changed.
    const { metadata } = (method === 'PUT' ? await read(world, path.replace(/\/[^/]+$/, '')) : null) ?? body
    const whole = { ...body, ...(metadata === undefined ? {} : { metadata }) }
    const { object, message } = await write(world, method, path, whole)
    if (object !== null) return
    // One of the server's own controllers may have written in between.
    if (message.includes('the object has been modified') && tries < 5) continue
    // An older release lacks some fields and values, and what follows from them.
    if (world.release !== CURRENT) return
    throw new Error(`${method} ${path} is refused, so run --grow again: ${message}`)
  }
}

class KindSeeder {
  readonly #world: World
  readonly #of: Served
  readonly #schemas: Schemas
  readonly #memory: Memory
  readonly #coverage = new Coverage()
  readonly #writes: Write[] = []

  constructor(world: World, of: Served, schemas: Schemas, memory: Memory) {
    this.#world = world
    this.#of = of
    this.#schemas = schemas
    this.#memory = memory
  }

  async run(): Promise<Grown> {
    const { group, version, kind } = this.#of
    const root = Object.values(this.#schemas).find((schema) =>
      schema['x-kubernetes-group-version-kind']?.some(
        (one) => one.group === group && one.version === version && one.kind === kind,
      ),
    )
    const done = (missing: readonly string[], failure: string | null): Grown => ({
      of: this.#of,
      writes: this.#writes,
      missing,
      failure: this.#writes.length > 0 ? null : failure,
    })
    if (root === undefined) return done([], 'it has no schema')
    let missing: readonly string[] = []
    try {
      for (let [variant, idle] = [0, 0]; variant < MOST_VARIANTS && idle < 2; variant++) {
        const before = this.#coverage.size
        missing = await this.#growVariant(root, variant)
        idle = this.#coverage.size === before ? idle + 1 : 0
      }
    } catch (error) {
      return done(missing, error instanceof Error ? error.message : String(error))
    }
    return done(missing, null)
  }

  /** Returns the fields that no variant has. @throws Error with the server's message when it accepts none. */
  async #growVariant(root: Schema, variant: number): Promise<readonly string[]> {
    const { group, version, kind, plural, isNamespaced, subresources } = this.#of
    const isLimiting = /^(resourcequotas|limitranges)$/.test(plural)
    const namespace = isLimiting ? LIMITED : NAMESPACES[variant % NAMESPACES.length]!
    const collection = `${groupPath(group, version)}${isNamespaced ? `/namespaces/${namespace}` : ''}/${plural}`
    const grower = this.#grower(root, variant, 'POST', collection)
    let object = await grower.start({
      apiVersion: group === '' ? version : `${group}/${version}`,
      kind,
      ...structuredClone(beginning(this.#of, variant, namespace)),
      metadata: { name: names(this.#of, variant), ...(isNamespaced ? { namespace } : {}), ...metadataOf(variant) },
    })
    object = await grower.grow(object, [], ['apiVersion', 'kind', 'metadata', 'status'])
    grower.count(object)
    const path = `${collection}/${(object['metadata'] as { name: string }).name}`
    await this.#write('POST', collection, object)
    for (const { name, verbs } of subresources) {
      const part = WRITTEN[name]
      if (part === undefined || !verbs.includes('update') || root.properties?.[part[0]!] === undefined) continue
      await this.#growPart(root, variant, path, name, part)
    }
    if (variant === 2) await this.#write('DELETE', path, {})
    return grower.missing(['apiVersion', 'kind', 'metadata'])
  }

  /** Grows the fields of a subresource, and writes them. */
  async #growPart(root: Schema, variant: number, path: string, name: string, part: readonly string[]): Promise<void> {
    const now = await read(this.#world, path)
    if (now === null) return
    const grower = this.#grower(root, variant, 'PUT', `${path}/${name}`)
    const object = await grower.growPart(now, part)
    grower.count(object)
    // One of the server's own controllers may have written in the meantime.
    await this.#write('PUT', `${path}/${name}`, object).catch(() => {})
  }

  #grower(root: Schema, variant: number, method: string, path: string): Grower {
    const dryRun = async (object: Members): Promise<Verdict> =>
      await write(this.#world, method, `${path}?dryRun=All`, object)
    return new Grower(this.#schemas, root, dryRun, { coverage: this.#coverage, memory: this.#memory, variant })
  }

  async #write(method: string, path: string, body: Members): Promise<void> {
    const { object, message } = await write(this.#world, method, path, body)
    if (object === null) throw new Error(message)
    this.#writes.push({ kind: nameOf(this.#of), method, path, body: method === 'PUT' ? withoutMetadata(body) : body })
  }
}

function withoutMetadata(object: Members): Members {
  return Object.fromEntries(Object.entries(object).filter(([name]) => name !== 'metadata'))
}

async function read(world: World, path: string): Promise<Verdict['object']> {
  const { code, body } = await ask(world.theirs, { method: 'GET', path, headers: { accept: 'application/json' } })
  return code === 200 ? (JSON.parse(body.toString()) as Verdict['object']) : null
}

interface Refusal {
  readonly message: string
  readonly details?: { readonly causes?: readonly { reason?: string; message?: string; field?: string }[] }
}

async function write(world: World, method: string, path: string, object: object): Promise<Verdict> {
  const headers = { 'content-type': 'application/json', accept: 'application/json' }
  const { code, body } = await ask(world.theirs, { method, path, headers }, Buffer.from(JSON.stringify(object)))
  const answer = JSON.parse(body.toString()) as unknown
  if (code < 300) return { object: answer as Verdict['object'], message: '', causes: [] }
  const { message, details } = answer as Refusal
  const causes = (details?.causes ?? []).map(({ reason = '', message: told = '', field = '' }) => ({
    reason,
    message: told,
    field,
  }))
  return { object: null, message, causes }
}

function metadataOf(variant: number): Members {
  const labels = { app: ['web', 'api', 'db'][variant % 3]!, tier: ['web', ''][variant % 2]! }
  const annotations = { 'example.com/note': '<b>grüße</b> & "日本語"\n\u2028 🦊' }
  if (variant === 0) return { labels, annotations }
  if (variant === 1) return { labels: { 'example.com/team': 'api' } }
  if (variant === 2) return { labels, finalizers: ['example.com/hold'] }
  const owner = {
    apiVersion: 'example.com/v1',
    kind: 'Owner',
    name: 'owner',
    uid: '0000-1',
    controller: true,
    blockOwnerDeletion: true,
  }
  return { labels, ownerReferences: [owner], annotations: { 'example.com/turn': String(variant) } }
}
