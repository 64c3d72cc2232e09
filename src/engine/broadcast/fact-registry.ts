/**
 * Keeps track of the facts that the selectors in use need from a resource's objects, and extracts them once per object
 * and API version.
 *
 * Names, namespaces and labels are the same in every version, so they are read from the stored object. Other fields are
 * read in the requested version, so an object that is stored in another version is read twice.
 *
 * The kept facts form a table with a bounded number of columns, because each column takes room in every object's row.
 * One identity may add only a share of the columns; fields that every cluster selects by do not count. A selector
 * beyond the limit reads its facts from each object every time, which is slower but takes no memory.
 *
 * Objects with the same values (such as node and phase) share a row, which is common. A row per object would take as
 * much memory as the rest of a small object.
 *
 * A new path becomes a new column at the end, and the facts already extracted stay valid. An object whose row lacks the
 * column is read only when a selector needs that fact, so a missing fact always means *look at the object*, never *no
 * match*.
 */
import { type FactPlan, Facts, extractFacts, planFacts } from '../facts/json-facts.js'
import { labelKeyOfPath } from '../facts/field-path.js'
import type { StoredObject } from '../model/stored-object.js'
import { ByteCache } from '../../support/byte-cache.js'
import { ShardHashes } from './shard-hashes.js'

/**
 * Returns the object as JSON, or null when the object cannot be read. With `onlyMetadata`, the result for an object not
 * stored as JSON may have nothing but metadata.
 *
 * @param apiVersion the version in which to read the object; '' for the stored version.
 */
export type JsonOf = (object: StoredObject, onlyMetadata: boolean, apiVersion: string) => Buffer | null

/** How a selector sees objects. */
export interface FactUse {
  /** Whether the facts are kept with the objects, which makes them cheap enough for an index to read at every event. */
  readonly isKept: boolean
  /** @param apiVersion the requested version; '' if all the paths are the same in every version. */
  subject(object: StoredObject, apiVersion: string): Facts
  release(): void
}

const EMPTY = Buffer.from('{}')
const NO_VALUES: Facts['values'] = []

/**
 * The controllers of a busy cluster use about twenty paths. At this limit, an object with its own row takes 2 KB more.
 */
export const MAX_PATHS = 256
/** The limit for one identity, which leaves room for others. */
export const MAX_PATHS_PER_IDENTITY = MAX_PATHS / 4
/** Unused columns stay until the table has this many columns. Then it starts over. */
const MAX_COLUMNS = 2 * MAX_PATHS

/**
 * Byte budget for one resource's shared rows, enough for a few thousand nodes. Beyond it, the least recently used rows
 * are no longer shared with new objects.
 */
export const SHARED_ROWS_BYTES = 1024 * 1024
/** Rows longer than this are unlikely to be shared. */
export const SHARED_ROW_BYTES = 4 * 1024
const ROW_OVERHEAD_BYTES = 200

/** Facts that the key itself contains. */
export const NAMESPACE_PATH = 'metadata.namespace'
export const NAME_PATH = 'metadata.name'

/** Fields of built-in kinds by which kubelets, schedulers and controllers select. */
const RESERVED: ReadonlySet<string> = new Set([
  NAMESPACE_PATH,
  NAME_PATH,
  'spec.nodeName',
  'spec.schedulerName',
  'spec.serviceAccountName',
  'spec.serviceAccount',
  'spec.restartPolicy',
  'spec.hostNetwork',
  'spec.unschedulable',
  'spec.signerName',
  'spec.type',
  'status.phase',
  'status.podIP',
  'status.nominatedNodeName',
  'status.replicas',
  'status.succeeded',
  'type',
  'reason',
  'involvedObject.kind',
  'involvedObject.namespace',
  'involvedObject.name',
  'involvedObject.uid',
])

/** Whether the fact is the same in every version of an object. */
export function isSameInEveryVersion(path: string): boolean {
  return path === NAME_PATH || path === NAMESPACE_PATH || labelKeyOfPath(path) !== null
}

/** The facts of an object in a version other than the stored one. Fields are read when first needed. */
class FactsOfVersion extends Facts {
  #fields: Facts | null = null

  constructor(
    stored: Facts,
    readonly apiVersion: string,
    readonly readFields: () => Facts,
  ) {
    super(stored.plan, stored.values, stored.labels, stored.known)
  }

  override field(path: string): string {
    if (isSameInEveryVersion(path)) return super.field(path)
    this.#fields ??= this.readFields()
    return this.#fields.field(path)
  }
}

/** The facts kept with an object. */
class FactRow {
  /**
   * The fields of this object in other versions, with at most one entry per served version. null if the row may be
   * shared.
   */
  others: FactsOfVersion[] | null = null

  constructor(
    /** The table to which the facts belong. */
    readonly table: object,
    /** Indexed by column. */
    readonly values: Facts['values'],
  ) {}
}

/** A path that a selector uses. */
interface Column {
  users: number
  /** The identity that added the path; null if the path counts towards no share. */
  readonly identity: string | null
}

export class FactRegistry {
  readonly shards: ShardHashes
  readonly #inUse = new Map<string, Column>()
  /** The number of columns in each identity's share. */
  readonly #shares = new Map<string, number>()
  readonly #jsonOf: JsonOf
  #counted = 0
  #plan: FactPlan = planFacts([])
  /** Replaced when the table starts over. */
  #table: object = {}
  /** Keyed by the joined values. */
  readonly #rows = new ByteCache<string, FactRow>({ maxBytes: SHARED_ROWS_BYTES, sizeOf: rowBytes })
  /** Plans for the missing columns, by the number of columns that an object has. */
  readonly #additions = new Map<number, FactPlan>()

  constructor(jsonOf: JsonOf) {
    this.#jsonOf = jsonOf
    this.shards = new ShardHashes((object) => jsonOf(object, true, ''))
  }

  /** The number of labels and fields in use whose facts are kept with objects. */
  get pathsInUse(): number {
    return this.#inUse.size
  }

  /** @param identity the caller with the selector; the new columns count towards its share. */
  use(paths: readonly string[], identity = ''): FactUse {
    const wanted = [...new Set(paths)]
    return this.#hasRoomFor(wanted, identity) ? this.#keep(wanted, identity) : this.#readEachTime(wanted)
  }

  /** Drops all extracted facts; each object is read again when next needed. */
  forget(): void {
    this.#plan = planFacts(this.#inUse.keys())
    this.#additions.clear()
    this.#rows.clear()
    this.#table = {}
  }

  #hasRoomFor(paths: readonly string[], identity: string): boolean {
    const added = paths.filter((path) => !this.#inUse.has(path) && !RESERVED.has(path)).length
    if (added === 0) return true
    return this.#counted + added <= MAX_PATHS && (this.#shares.get(identity) ?? 0) + added <= MAX_PATHS_PER_IDENTITY
  }

  #keep(paths: readonly string[], identity: string): FactUse {
    const added: string[] = []
    for (const path of paths) {
      const column = this.#inUse.get(path)
      if (column === undefined) this.#bring(path, identity)
      else column.users++
      if (!this.#plan.slotOf.has(path)) added.push(path)
    }
    this.#add(added)
    let table: object | null = null
    let columns = 0
    return {
      isKept: true,
      subject: (object, apiVersion) => {
        if (table !== this.#table) {
          table = this.#table
          columns = Math.max(0, ...paths.map((path) => this.#plan.slotOf.get(path)! + 1))
        }
        return this.#subject(object, apiVersion, columns)
      },
      release: () => {
        for (const path of paths) this.#leave(path)
        // Columns stay in the table until there are too many, so that objects keep their extracted facts.
      },
    }
  }

  #bring(path: string, identity: string): void {
    const counts = !RESERVED.has(path)
    this.#inUse.set(path, { users: 1, identity: counts ? identity : null })
    if (!counts) return
    this.#counted++
    this.#shares.set(identity, (this.#shares.get(identity) ?? 0) + 1)
  }

  #leave(path: string): void {
    const column = this.#inUse.get(path)!
    if (--column.users > 0) return
    this.#inUse.delete(path)
    if (column.identity === null) return
    this.#counted--
    const share = this.#shares.get(column.identity)! - 1
    if (share === 0) this.#shares.delete(column.identity)
    else this.#shares.set(column.identity, share)
  }

  #add(paths: readonly string[]): void {
    if (paths.length === 0) return
    if (this.#plan.paths.length + paths.length > MAX_COLUMNS) {
      this.forget()
      return
    }
    for (const path of paths) this.#plan.add(path)
    this.#additions.clear()
  }

  /** Serves a selector for which the table has no room. */
  #readEachTime(paths: readonly string[]): FactUse {
    const plan = planFacts(paths)
    return {
      isKept: false,
      subject: (object, apiVersion) => {
        const stored = this.#extract(object, plan.onlyLabels, '', plan)
        if (isStoredAs(object, apiVersion)) return stored
        return new FactsOfVersion(stored, apiVersion, () => this.#extract(object, false, apiVersion, plan))
      },
      release: () => {},
    }
  }

  /** @param columns the number of columns that the row must have. */
  #subject(object: StoredObject, apiVersion: string, columns: number): Facts {
    const { notes } = object
    const { facts } = notes
    let row = facts instanceof FactRow && facts.table === this.#table ? facts : null
    if (row === null || row.values.length < columns) {
      row = this.#sharedRow(this.#complete(object, row?.values ?? NO_VALUES))
      notes.facts = row
    }
    if (isStoredAs(object, apiVersion)) return this.#factsOf(object, row)
    return this.#otherVersion(object, row, apiVersion)
  }

  #factsOf(object: StoredObject, { values }: FactRow): Facts {
    return new Facts(this.#plan, values, null, object)
  }

  #sharedRow(values: Facts['values']): FactRow {
    const row = new FactRow(this.#table, values)
    if (rowBytes(row) > SHARED_ROW_BYTES) return row
    const key = values.join('\n')
    const found = this.#rows.get(key)
    // The key does not distinguish an absent label from an empty one, and a value may contain the separator.
    if (found !== undefined && isSameRow(found.values, values)) return found
    if (found === undefined) this.#rows.set(key, row)
    return row
  }

  /** Extracts all columns of an object. @param before the values extracted so far. */
  #complete(object: StoredObject, before: Facts['values']): Facts['values'] {
    const from = before.length
    let addition = this.#additions.get(from)
    if (addition === undefined) {
      addition = from === 0 ? this.#plan : planFacts(this.#plan.paths.slice(from))
      this.#additions.set(from, addition)
    }
    const added = this.#extract(object, addition.onlyLabels, '', addition)
    return from === 0 ? added.values : [...before, ...added.values]
  }

  #otherVersion(object: StoredObject, row: FactRow, apiVersion: string): Facts {
    let { others } = row
    if (others === null) {
      const own = new FactRow(row.table, row.values)
      others = own.others = []
      object.notes.facts = own
    }
    let found = others.find((one) => one.apiVersion === apiVersion)
    if (found === undefined) {
      const stored = this.#factsOf(object, row)
      found = new FactsOfVersion(stored, apiVersion, () => this.#extract(object, false, apiVersion, stored.plan))
      others.push(found)
    }
    return found
  }

  #extract(object: StoredObject, onlyMetadata: boolean, apiVersion: string, plan: FactPlan): Facts {
    const json = plan.paths.length === 0 ? EMPTY : (this.#jsonOf(object, onlyMetadata, apiVersion) ?? EMPTY)
    return extractFacts(json, plan, object)
  }
}

/** Approximate bytes of a row and its key. */
function rowBytes({ values }: FactRow): number {
  return values.reduce((bytes, value) => bytes + 8 + 2 * (value?.length ?? 0), ROW_OVERHEAD_BYTES)
}

function isSameRow(a: Facts['values'], b: Facts['values']): boolean {
  return a.length === b.length && a.every((value, i) => value === b[i])
}

/** An object that does not state its version is taken to have the requested one. */
function isStoredAs(object: StoredObject, apiVersion: string): boolean {
  return apiVersion === '' || object.apiVersion === '' || object.apiVersion === apiVersion
}
