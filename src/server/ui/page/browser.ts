/**
 * Shows the objects of a resource, with the columns that `kubectl get` has. It lists and watches them over the same API
 * that every client uses. When a watch ends, for whatever reason, the page lists again.
 */
import {
  button,
  byId,
  cell,
  choose,
  chosen,
  formatClock,
  formatCount,
  formatSeconds,
  formatTime,
  make,
} from './elements.js'
import type { ResourceFigures } from './figures.js'
import { get, keepFollowing, linesOf } from './session.js'
import { changedLines } from './yaml-difference.js'

interface Metadata {
  readonly name: string
  readonly namespace?: string
  readonly resourceVersion: string
  readonly creationTimestamp?: string
}

interface Row {
  readonly cells: readonly (string | number | boolean | null)[]
  readonly object: { readonly metadata: Metadata }
}

/** A Table of meta.k8s.io/v1. Only the first one of a watch has column definitions. */
interface Table {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string }
  readonly columnDefinitions: readonly { readonly name: string; readonly priority: number }[] | null
  readonly rows: readonly Row[]
}

interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR'
  readonly object: Table
}

/** A table with more rows would be slow and too long to read. */
const MOST_ROWS = 1_000
const MARK_MS = 1_500
const AS_TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io'
const FIELDS = ['resource', 'namespace', 'labels', 'fields'] as const

export class ObjectBrowser {
  #resources: readonly ResourceFigures[] = []
  #resource: ResourceFigures | null = null
  #following = new AbortController()
  /** The positions of the columns that are shown. */
  #columns: readonly number[] = []
  #rows = new Map<string, HTMLTableRowElement>()
  #yaml = ''
  #more = ''
  /** Why the rows may be out of date, and since when; null while the watch runs. */
  #broken: { readonly reason: string; readonly atMs: number } | null = { reason: 'listing', atMs: Date.now() }

  constructor() {
    byId<HTMLFormElement>('filter').addEventListener('submit', (event) => {
      event.preventDefault()
      this.#begin()
    })
    byId<HTMLSelectElement>('resource').addEventListener('change', () => this.#begin())
    addEventListener('hashchange', () => this.#restore())
  }

  /** Fills the resource selector, starting with the resource named in the page's address. */
  offer(resources: readonly ResourceFigures[]): void {
    const names = (all: readonly ResourceFigures[]): string => all.map(({ resource }) => resource).join()
    const isFirst = this.#resources.length === 0
    const isSame = names(resources) === names(this.#resources)
    this.#resources = resources
    this.#showState()
    if (isSame) return
    const select = byId<HTMLSelectElement>('resource')
    const wanted = [select.value, chosen('resource'), worthSeeing(resources)].find((name) => find(resources, name))
    select.replaceChildren(
      ...resources.map(({ resource }) => new Option(resource, resource, false, resource === wanted)),
    )
    if (isFirst) this.#restore()
  }

  #restore(): void {
    for (const id of FIELDS) {
      const value = chosen(id)
      if (id !== 'resource' || find(this.#resources, value)) byId<HTMLInputElement>(id).value = value
    }
    this.#begin(chosen('object'))
  }

  #value(id: (typeof FIELDS)[number]): string {
    return byId<HTMLInputElement | HTMLSelectElement>(id).value.trim()
  }

  /** Starts with what the form says. @param object the key of the object to open; '' for none. */
  #begin(object = ''): void {
    this.#following.abort()
    this.#following = new AbortController()
    choose({ ...Object.fromEntries(FIELDS.map((id) => [id, this.#value(id)])), object })
    this.#yaml = ''
    byId('object').hidden = object === ''
    const resource = find(this.#resources, this.#value('resource'))
    if (resource === undefined) return
    this.#resource = resource
    this.#rows.clear()
    byId('objects').replaceChildren()
    this.#break('listing')
    const { signal } = this.#following
    void keepFollowing(
      () => this.#follow(resource, signal),
      (reason) => this.#break(reason),
      signal,
    )
    if (object !== '') void this.#open(object)
  }

  async #follow(resource: ResourceFigures, signal: AbortSignal): Promise<void> {
    const path = pathOf(resource, this.#value('namespace'))
    const query = new URLSearchParams()
    if (this.#value('labels') !== '') query.set('labelSelector', this.#value('labels'))
    if (this.#value('fields') !== '') query.set('fieldSelector', this.#value('fields'))
    const { objects, stalenessSeconds } = find(this.#resources, resource.resource) ?? resource
    // The cache answers while the upstream is away, but always with all objects. Pages come only from a list that the
    // upstream has confirmed.
    const isCached = objects <= MOST_ROWS || stalenessSeconds > 0
    const part = isCached ? 'resourceVersion=0' : `limit=${MOST_ROWS}`
    const list = (await (await get(`${path}?${query}&${part}`, AS_TABLE, { signal })).json()) as Table
    this.#show(resource, list)
    query.set('resourceVersion', list.metadata.resourceVersion)
    const watch = await get(`${path}?${query}&watch=1&allowWatchBookmarks=1`, AS_TABLE, { signal })
    this.#broken = null
    this.#showState()
    for await (const text of linesOf(watch)) {
      const { type, object } = JSON.parse(text) as WatchEvent
      if (type === 'ERROR') return
      if (type === 'BOOKMARK') continue
      for (const row of object.rows) {
        if (type === 'DELETED') this.#remove(row)
        else this.#put(resource, row, true)
      }
      this.#showState()
    }
  }

  #break(reason: string): void {
    this.#broken = { reason, atMs: this.#broken?.atMs ?? Date.now() }
    this.#showState()
  }

  /** Says how current the rows are, and dims them when they are not. */
  #showState(): void {
    const seconds = find(this.#resources, this.#resource?.resource)?.stalenessSeconds ?? 0
    const count = `${formatCount(this.#rows.size, 'object')}${this.#more}`
    const [broken, hasRows] = [this.#broken, this.#rows.size > 0]
    const text =
      broken !== null
        ? `${hasRows ? `${count} as of ${formatClock(broken.atMs)}; ` : ''}${broken.reason}`
        : seconds > 0
          ? `${count} from the cache, not confirmed for ${formatSeconds(seconds)}`
          : `${count}, watching`
    byId('browser').classList.toggle('old', broken !== null || seconds > 0)
    if (byId('watch-state').textContent !== text) byId('watch-state').textContent = text
  }

  #show(resource: ResourceFigures, { columnDefinitions, rows, metadata }: Table): void {
    const definitions = [...(columnDefinitions ?? [])].map(({ name, priority }, i) => ({ name, priority, i }))
    // An age would be that of the list, so the page shows the date instead.
    const columns = definitions.filter(({ name, priority }) => priority === 0 && name !== 'Age')
    this.#columns = columns.map(({ i }) => i)
    this.#rows.clear()
    const titles = [...(resource.namespaced ? ['Namespace'] : []), ...columns.map(({ name }) => name)]
    const cells = titles.map((title, i) => cell('th', { isWide: isExtra(resource, i) }, title))
    cells.push(...['Created', 'Revision'].map((title) => cell('th', { isWide: true }, title)))
    byId('objects').replaceChildren(make('thead', {}, make('tr', {}, ...cells)), make('tbody', {}))
    this.#more = metadata.continue === undefined && rows.length <= MOST_ROWS ? '' : ` (the first ${MOST_ROWS})`
    for (const row of rows.slice(0, MOST_ROWS)) this.#put(resource, row, false)
    this.#showState()
  }

  #put(resource: ResourceFigures, { cells, object: { metadata } }: Row, isEvent: boolean): void {
    const key = keyOf(metadata)
    const old = this.#rows.get(key)
    if (old === undefined && this.#rows.size >= MOST_ROWS) return
    const { name, namespace = '', resourceVersion, creationTimestamp } = metadata
    const open = button(name, () => {
      choose({ object: key })
      this.#yaml = ''
      void this.#open(key)
    })
    const [, ...others] = this.#columns
    const contents: (string | Node)[] = [...(resource.namespaced ? [namespace] : []), open]
    for (const i of others) contents.push(String(cells[i] ?? ''))
    const created = creationTimestamp === undefined ? '–' : formatTime(Date.parse(creationTimestamp))
    const row = make(
      'tr',
      {},
      ...contents.map((content, i) => cell('td', { isText: true, isWide: isExtra(resource, i) }, content)),
      cell('td', { isWide: true }, created),
      cell('td', { isNumber: true, isWide: true }, resourceVersion),
    )
    const hadFocus = old?.contains(document.activeElement) === true
    if (old === undefined) byId('objects').querySelector('tbody')!.append(row)
    else old.replaceWith(row)
    this.#rows.set(key, row)
    if (hadFocus) open.focus()
    const isSelected = chosen('object') === key
    row.setAttribute('aria-selected', String(isSelected))
    if (!isEvent) return
    row.classList.add('changed')
    setTimeout(() => row.classList.remove('changed'), MARK_MS)
    if (isSelected) void this.#open(key)
  }

  #remove({ object: { metadata } }: Row): void {
    const key = keyOf(metadata)
    this.#rows.get(key)?.remove()
    this.#rows.delete(key)
    if (chosen('object') === key) byId('object-title').textContent = `${titleOf(key)} (deleted)`
  }

  async #open(key: string): Promise<void> {
    for (const [other, row] of this.#rows) row.setAttribute('aria-selected', String(other === key))
    const [, namespace = '', name = ''] = /^([^/]*)\/(.*)$/.exec(key) ?? []
    const { signal } = this.#following
    const path = `${pathOf(this.#resource!, namespace)}/${encodeURIComponent(name)}?resourceVersion=0`
    const reply = await get(path, 'application/yaml', { signal }).catch(() => null)
    const yaml = (await reply?.text().catch(() => ''))?.trimEnd() ?? ''
    if (yaml === '' || signal.aborted || chosen('object') !== key) return
    const changed = this.#yaml === '' ? [] : changedLines(this.#yaml, yaml)
    this.#yaml = yaml
    byId('object').hidden = false
    byId('object-title').textContent = titleOf(key)
    byId('yaml').replaceChildren(
      ...yaml.split('\n').map((text, i) => make(changed[i] ? 'mark' : 'span', {}, text === '' ? ' ' : text)),
    )
  }
}

/**
 * Chooses the resource to show first. Most users look for pods. If there are none, another resource with objects is
 * chosen.
 */
function worthSeeing(resources: readonly ResourceFigures[]): string {
  const filled = resources.filter(({ objects }) => objects > 0)
  return (filled.find(({ resource }) => resource === 'pods') ?? filled[0] ?? resources[0])?.resource ?? ''
}

function find(all: readonly ResourceFigures[], name: string | undefined): ResourceFigures | undefined {
  return all.find(({ resource }) => resource === name)
}

function pathOf({ path, plural, namespaced }: ResourceFigures, namespace: string): string {
  return `${path}${namespaced && namespace !== '' ? `/namespaces/${encodeURIComponent(namespace)}` : ''}/${plural}`
}

/** Whether a narrow screen has no place for a column: it shows the name and the two columns after it. */
function isExtra({ namespaced }: ResourceFigures, position: number): boolean {
  return position > (namespaced ? 3 : 2)
}

function keyOf({ namespace = '', name }: Metadata): string {
  return `${namespace}/${name}`
}

function titleOf(key: string): string {
  return key.replace(/^\//, '')
}
