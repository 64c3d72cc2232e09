/**
 * Shows the objects of a resource. It lists and watches them over the same API that every client uses. The watch is an
 * EventSource, which resumes by itself after an interruption. When its position is gone (ERROR), the page lists again.
 */
import { byId, button, cell, line } from './elements.js'
import type { ResourceFigures } from './figures.js'
import { changedLines } from './yaml-difference.js'

interface Shown {
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly resourceVersion: string
    readonly creationTimestamp?: string
  }
}

interface List {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string }
  readonly items: readonly Shown[]
}

/** A table with more rows would be slow and too long to read. */
const MOST_ROWS = 1_000
const AGAIN_AFTER_MS = 2_000
const MARK_MS = 1_500

export class ObjectBrowser {
  #resources: readonly ResourceFigures[] = []
  #events: EventSource | null = null
  #generation = 0
  #rows = new Map<string, HTMLTableRowElement>()
  #selected: { key: string; object: Shown } | null = null
  #yaml = ''

  constructor() {
    const begin = (event: Event): void => {
      event.preventDefault()
      this.#remember()
      void this.#start()
    }
    byId<HTMLFormElement>('filter').addEventListener('submit', begin)
    byId<HTMLSelectElement>('resource').addEventListener('change', (event) => {
      this.#selected = null
      this.#yaml = ''
      byId('object-title').textContent = 'Choose an object'
      byId('yaml').replaceChildren()
      begin(event)
    })
  }

  /** Fills the resource selector, starting with the one named in the page's address. */
  offer(resources: readonly ResourceFigures[]): void {
    const names = (all: readonly ResourceFigures[]): string => all.map(({ resource }) => resource).join()
    if (names(resources) === names(this.#resources)) return
    const isFirst = this.#resources.length === 0
    this.#resources = resources
    const select = byId<HTMLSelectElement>('resource')
    const wanted = new URLSearchParams(location.hash.slice(1))
    const chosen = select.value || (wanted.get('resource') ?? worthSeeing(resources))
    select.replaceChildren(
      ...resources.map(({ resource }) => new Option(resource, resource, false, resource === chosen)),
    )
    if (!isFirst) return
    for (const id of ['namespace', 'labels', 'fields']) byId<HTMLInputElement>(id).value = wanted.get(id) ?? ''
    void this.#start()
  }

  #value(id: string): string {
    return byId<HTMLInputElement | HTMLSelectElement>(id).value.trim()
  }

  #remember(): void {
    const parts = ['resource', 'namespace', 'labels', 'fields'].map((id) => [id, this.#value(id)] as const)
    location.replace(`#${new URLSearchParams(parts.filter(([, value]) => value !== '').map(([k, v]) => [k, v]))}`)
  }

  #path(resource: ResourceFigures, namespace: string): string {
    const scope = resource.namespaced && namespace !== '' ? `/namespaces/${encodeURIComponent(namespace)}` : ''
    return `${resource.path}${scope}/${resource.plural}`
  }

  async #start(): Promise<void> {
    const generation = ++this.#generation
    this.#events?.close()
    const resource = this.#resources.find((one) => one.resource === this.#value('resource'))
    if (resource === undefined) return
    const path = this.#path(resource, this.#value('namespace'))
    const query = new URLSearchParams()
    if (this.#value('labels') !== '') query.set('labelSelector', this.#value('labels'))
    if (this.#value('fields') !== '') query.set('fieldSelector', this.#value('fields'))
    try {
      const reply = await fetch(`${path}?${query}&limit=${MOST_ROWS}`, { headers: { accept: 'application/json' } })
      const body = (await reply.json()) as List & { readonly message?: string }
      if (generation !== this.#generation) return
      if (!reply.ok) return this.#fail(`${reply.status}: ${body.message ?? reply.statusText}`, reply.status >= 429)
      this.#show(resource, body)
      this.#watch(resource, path, query, body.metadata.resourceVersion, generation)
    } catch {
      if (generation === this.#generation) this.#fail('no connection; trying again', true)
    }
  }

  #fail(message: string, comesAgain: boolean): void {
    byId('watch-state').textContent = message
    const generation = this.#generation
    if (comesAgain) setTimeout(() => generation === this.#generation && void this.#start(), AGAIN_AFTER_MS)
  }

  #show(resource: ResourceFigures, list: List): void {
    this.#rows.clear()
    const head = document.createElement('thead')
    const titles = [...(resource.namespaced ? ['Namespace'] : []), 'Name', 'Revision']
    head.append(line(titles.map((title) => cell('th', { title, cell: () => title }, title))))
    const body = document.createElement('tbody')
    byId('objects').replaceChildren(head, body)
    for (const object of list.items) this.#put(resource, object, false)
    this.#showCount(list.metadata.continue === undefined ? '' : ` (the first ${MOST_ROWS})`)
  }

  #showCount(more = ''): void {
    byId('watch-state').textContent = `${this.#rows.size} objects${more}, watching`
  }

  #watch(resource: ResourceFigures, path: string, query: URLSearchParams, after: string, generation: number): void {
    const events = new EventSource(`${path}?${query}&watch=1&allowWatchBookmarks=1&resourceVersion=${after}`)
    this.#events = events
    const on = (type: string, act: (object: Shown) => void): void =>
      events.addEventListener(type, (event: MessageEvent<string>) => {
        if (generation === this.#generation) act(JSON.parse(event.data) as Shown)
      })
    on('ADDED', (object) => {
      this.#put(resource, object, true)
      this.#showCount()
    })
    on('MODIFIED', (object) => this.#put(resource, object, true))
    on('DELETED', (object) => {
      this.#rows.get(keyOf(object))?.remove()
      this.#rows.delete(keyOf(object))
      if (this.#selected?.key === keyOf(object)) byId('object-title').textContent = `${object.metadata.name} (deleted)`
      this.#showCount()
    })
    on('ERROR', () => {
      events.close()
      this.#fail('the history is gone; relisting', true)
    })
    events.addEventListener('open', () => generation === this.#generation && this.#showCount())
    events.addEventListener('error', () => {
      if (generation !== this.#generation) return
      if (events.readyState === EventSource.CLOSED) this.#fail('the watch was refused; trying again', true)
      else byId('watch-state').textContent = 'no connection; trying again'
    })
  }

  #put(resource: ResourceFigures, object: Shown, isEvent: boolean): void {
    const key = keyOf(object)
    const { name, namespace = '', resourceVersion } = object.metadata
    const open = button(name, () => void this.#open(resource, object.metadata.name, namespace, key))
    const cells = [...(resource.namespaced ? [namespace] : []), open, resourceVersion]
    const row = line(cells.map((content) => cell('td', { title: '', cell: () => content }, content)))
    const old = this.#rows.get(key)
    const hadFocus = old?.contains(document.activeElement) === true
    if (old === undefined) byId('objects').querySelector('tbody')!.append(row)
    else old.replaceWith(row)
    this.#rows.set(key, row)
    if (hadFocus) open.focus()
    const isSelected = this.#selected?.key === key
    row.setAttribute('aria-selected', String(isSelected))
    if (!isEvent) return
    row.classList.add('changed')
    setTimeout(() => row.classList.remove('changed'), MARK_MS)
    if (isSelected) void this.#open(resource, name, namespace, key)
  }

  async #open(resource: ResourceFigures, name: string, namespace: string, key: string): Promise<void> {
    const isSame = this.#selected?.key === key
    if (!isSame) {
      this.#rows.get(this.#selected?.key ?? '')?.setAttribute('aria-selected', 'false')
      this.#rows.get(key)?.setAttribute('aria-selected', 'true')
    }
    this.#selected = { key, object: { metadata: { name, namespace, resourceVersion: '' } } }
    const path = `${this.#path(resource, namespace)}/${encodeURIComponent(name)}?resourceVersion=0`
    const reply = await fetch(path, { headers: { accept: 'application/yaml' } }).catch(() => null)
    if (reply === null || !reply.ok || this.#selected.key !== key) return
    const yaml = (await reply.text()).trimEnd()
    const changed = isSame && this.#yaml !== '' ? changedLines(this.#yaml, yaml) : []
    this.#yaml = yaml
    byId('object-title').textContent = `${namespace === '' ? '' : `${namespace}/`}${name}`
    byId('yaml').replaceChildren(
      ...yaml.split('\n').map((text, i) => {
        const element = document.createElement(changed[i] ? 'mark' : 'span')
        element.textContent = text === '' ? ' ' : text
        return element
      }),
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

function keyOf({ metadata }: Shown): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`
}
