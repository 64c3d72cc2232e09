/**
 * Keeps track of the facts that the selectors in use need from a resource's objects, and extracts them once per object
 * and schema version.
 *
 * Names and scopes are in the key. Attributes are the same in every version, so they are read from the stored object.
 * Other fields are read in the requested version, so an object that is stored in another version is read twice.
 *
 * The kept facts form a table with a bounded number of columns, because each column takes room in every object's row.
 * One identity may add only a share of the columns; fields that every cluster selects by do not count. A selector
 * beyond the limit reads its facts from each object every time, which is slower but takes no memory.
 *
 * Objects with the same values (such as node and phase) share a row, which is common. A row per object would take as
 * much memory as the rest of a small object.
 *
 * A path that no selector has used for a while loses its column, and so does every unused one when memory is short.
 * Objects keep their extracted facts in between, because many clients come back with the same selector.
 *
 * A new path becomes a new column at the end, and the facts already extracted stay valid. An object whose row lacks the
 * column is read only when a selector needs that fact, so a missing fact always means *look at the object*, never *no
 * match*.
 */
import { type FactPlan, Facts, extractFacts, planFacts } from '../facts/json-facts.js'
import { isAttributePath } from '../facts/field-path.js'
import type { FactSource } from '../model/fact-source.js'
import type { StoredObject } from '../model/stored-object.js'
import { ByteCache } from '../../support/byte-cache.js'
import { Slice } from '../../support/turns.js'
import { ShardHashes } from './shard-hashes.js'
import { MAX_PATHS, MAX_PATHS_PER_IDENTITY, SHARED_ROWS_BYTES, SHARED_ROW_BYTES } from '../model/limits.js'

/** How a selector sees objects. */
export interface FactUse {
  /** Whether the facts are kept with the objects, which makes them cheap enough for an index to read at every event. */
  readonly isKept: boolean
  /** @param schemaVersion the requested version; '' if all the paths are the same in every version. */
  subject(object: StoredObject, schemaVersion: string): Facts
  release(): void
}

const EMPTY = Buffer.from('{}')
const NO_VALUES: Facts['values'] = []

/** When the table has this many columns, it starts over without the unused ones. */
const MAX_COLUMNS = 2 * MAX_PATHS

const ROW_OVERHEAD_BYTES = 200
/** The time for freeing rows in one turn of the event loop. */
const SWEEP_MS = 1

/** The facts of an object in a version other than the stored one. Fields are read when first needed. */
class FactsOfVersion extends Facts {
  #fields: Facts | null = null

  constructor(
    stored: Facts,
    readonly schemaVersion: string,
    readonly readFields: () => Facts,
  ) {
    super(stored.plan, stored.values, stored.known)
  }

  override field(path: string): string {
    const { name, scope } = this.plan.names!
    if (path === name || path === scope) return super.field(path)
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
  readonly #source: FactSource
  readonly #objects: () => Iterable<StoredObject>
  /** Unused paths that were in use since the last call of `tidy`. */
  readonly #recent = new Set<string>()
  /** The objects whose rows may belong to an earlier table. */
  #stale: Iterator<StoredObject> | null = null
  #counted = 0
  #plan: FactPlan
  /** Replaced when the table starts over. */
  #table: object = {}
  /** Keyed by the joined values. */
  readonly #rows = new ByteCache<string, FactRow>({ maxBytes: SHARED_ROWS_BYTES, sizeOf: rowBytes })
  /** Plans for the missing columns, by the number of columns that an object has. */
  readonly #additions = new Map<number, FactPlan>()

  /** @param objects the objects whose facts are kept. */
  constructor(source: FactSource, objects: () => Iterable<StoredObject> = () => []) {
    this.#source = source
    this.#plan = planFacts([], source.paths)
    this.#objects = objects
    this.shards = new ShardHashes((object) => source.identity(object))
  }

  get paths(): FactSource['paths'] {
    return this.#source.paths
  }

  /** The number of attributes and fields in use whose facts are kept with objects. */
  get pathsInUse(): number {
    return this.#inUse.size
  }

  /** @param identity the caller with the selector; the new columns count towards its share. */
  use(paths: readonly string[], identity = ''): FactUse {
    const wanted = [...new Set(paths)].filter((path) => !this.isInKey(path))
    return this.#hasRoomFor(wanted, identity) ? this.#keep(wanted, identity) : this.#readEachTime(wanted)
  }

  /** Whether an object's key contains the fact. */
  isInKey(path: string): boolean {
    const { name, scope } = this.paths
    return path === name || path === scope
  }

  /** Returns the version in which these paths are read; '' if every version has the same facts. */
  versionRead(paths: readonly string[], schemaVersion: string): string {
    return paths.every((path) => this.isInKey(path) || isAttributePath(path)) ? '' : schemaVersion
  }

  /** Drops all extracted facts; each object is read again when next needed. */
  forget(): void {
    this.#recent.clear()
    this.#startOver()
  }

  /** Drops the columns that are not in use and were not since the last call. Call it every few minutes. */
  tidy(): void {
    const isWanted = (path: string): boolean => this.#inUse.has(path) || this.#recent.has(path)
    if (!this.#plan.paths.every(isWanted)) this.#startOver()
    this.#recent.clear()
  }

  /** Drops the columns that are not in use. */
  relieveMemory(): void {
    this.#recent.clear()
    this.tidy()
  }

  #startOver(): void {
    const hadColumns = this.#plan.paths.length > 0
    this.#plan = planFacts(new Set([...this.#inUse.keys(), ...this.#recent]), this.paths)
    this.#additions.clear()
    this.#rows.clear()
    this.#table = {}
    if (!hadColumns) return
    if (this.#stale === null) setImmediate(this.#sweep)
    this.#stale = this.#objects()[Symbol.iterator]()
  }

  /** Frees the rows of earlier tables. Most objects are not read again soon, and would keep theirs. */
  readonly #sweep = (): void => {
    const slice = new Slice(SWEEP_MS)
    while (!slice.isOver) {
      const next = this.#stale!.next()
      if (next.done === true) {
        this.#stale = null
        return
      }
      const { notes } = next.value
      if (notes.facts instanceof FactRow && notes.facts.table !== this.#table) notes.facts = null
    }
    setImmediate(this.#sweep)
  }

  #hasRoomFor(paths: readonly string[], identity: string): boolean {
    const added = paths.filter((path) => !this.#inUse.has(path) && !this.paths.common.has(path)).length
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
      subject: (object, schemaVersion) => {
        if (table !== this.#table) {
          table = this.#table
          columns = Math.max(0, ...paths.map((path) => this.#plan.slotOf.get(path)! + 1))
        }
        return this.#subject(object, schemaVersion, columns)
      },
      release: () => {
        for (const path of paths) this.#leave(path)
      },
    }
  }

  #bring(path: string, identity: string): void {
    const counts = !this.paths.common.has(path)
    this.#inUse.set(path, { users: 1, identity: counts ? identity : null })
    if (!counts) return
    this.#counted++
    this.#shares.set(identity, (this.#shares.get(identity) ?? 0) + 1)
  }

  #leave(path: string): void {
    const column = this.#inUse.get(path)!
    if (--column.users > 0) return
    this.#inUse.delete(path)
    this.#recent.add(path)
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
    const plan = planFacts(paths, this.paths)
    return {
      isKept: false,
      subject: (object, schemaVersion) => {
        const stored = this.#extract(object, plan.onlyAttributes, '', plan)
        if (isStoredAs(object, schemaVersion)) return stored
        return new FactsOfVersion(stored, schemaVersion, () => this.#extract(object, false, schemaVersion, plan))
      },
      release: () => {},
    }
  }

  /** @param columns the number of columns that the row must have. */
  #subject(object: StoredObject, schemaVersion: string, columns: number): Facts {
    const { notes } = object
    const { facts } = notes
    let row = facts instanceof FactRow && facts.table === this.#table ? facts : null
    if (row === null || row.values.length < columns) {
      row = this.#sharedRow(this.#complete(object, row?.values ?? NO_VALUES))
      notes.facts = row
    }
    if (isStoredAs(object, schemaVersion)) return this.#factsOf(object, row)
    return this.#otherVersion(object, row, schemaVersion)
  }

  #factsOf(object: StoredObject, { values }: FactRow): Facts {
    return new Facts(this.#plan, values, object)
  }

  #sharedRow(values: Facts['values']): FactRow {
    const row = new FactRow(this.#table, values)
    if (rowBytes(row) > SHARED_ROW_BYTES) return row
    const key = values.join('\n')
    const found = this.#rows.get(key)
    // The key does not distinguish an absent attribute from an empty one, and a value may contain the separator.
    if (found !== undefined && isSameRow(found.values, values)) return found
    if (found === undefined) this.#rows.set(key, row)
    return row
  }

  /** Extracts all columns of an object. @param before the values extracted so far. */
  #complete(object: StoredObject, before: Facts['values']): Facts['values'] {
    const from = before.length
    let addition = this.#additions.get(from)
    if (addition === undefined) {
      addition = from === 0 ? this.#plan : planFacts(this.#plan.paths.slice(from), this.paths)
      this.#additions.set(from, addition)
    }
    const added = this.#extract(object, addition.onlyAttributes, '', addition)
    return from === 0 ? added.values : [...before, ...added.values]
  }

  #otherVersion(object: StoredObject, row: FactRow, schemaVersion: string): Facts {
    let { others } = row
    if (others === null) {
      const own = new FactRow(row.table, row.values)
      others = own.others = []
      object.notes.facts = own
    }
    let found = others.find((one) => one.schemaVersion === schemaVersion)
    if (found === undefined) {
      const stored = this.#factsOf(object, row)
      found = new FactsOfVersion(stored, schemaVersion, () => this.#extract(object, false, schemaVersion, stored.plan))
      others.push(found)
    }
    return found
  }

  #extract(object: StoredObject, onlyAttributes: boolean, schemaVersion: string, plan: FactPlan): Facts {
    const json = plan.paths.length === 0 ? EMPTY : (this.#source.json(object, onlyAttributes, schemaVersion) ?? EMPTY)
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
function isStoredAs(object: StoredObject, schemaVersion: string): boolean {
  return schemaVersion === '' || object.schemaVersion === '' || object.schemaVersion === schemaVersion
}
