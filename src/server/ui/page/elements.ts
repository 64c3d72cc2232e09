/**
 * The few DOM operations that the page needs. Text is inserted as text and never as HTML, because names and values come
 * from the authors of objects.
 */

export function byId<E extends HTMLElement>(id: string): E {
  return document.getElementById(id) as E
}

export interface Column<R> {
  readonly title: string
  readonly isNumber?: boolean
  /** Whether long content is wrapped, so that it pushes no other column out of sight. */
  readonly isText?: boolean
  /** Whether a narrow screen hides the column. */
  readonly isWide?: boolean
  readonly cell: (row: R) => string | Node
}

/** Makes an element with these properties and contents. */
export function make<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  properties: Partial<HTMLElementTagNameMap[Name]>,
  ...contents: readonly (string | Node)[]
): HTMLElementTagNameMap[Name] {
  const element = Object.assign(document.createElement(name), properties)
  element.append(...contents)
  return element
}

/** Replaces the content of a table. @param none the text for a table without rows. */
export function fillTable<R>(
  table: HTMLElement,
  columns: readonly Column<R>[],
  rows: readonly R[],
  none: string,
): void {
  const head = columns.map((column) => cell('th', column, column.title))
  const body = rows.map((item) => make('tr', {}, ...columns.map((column) => cell('td', column, column.cell(item)))))
  if (rows.length === 0) body.push(make('tr', {}, make('td', { colSpan: columns.length }, none)))
  table.replaceChildren(make('thead', {}, make('tr', {}, ...head)), make('tbody', {}, ...body))
}

/** Fills a description list. */
export function fillList(list: HTMLElement, values: readonly (readonly [name: string, value: string | Node])[]): void {
  list.replaceChildren(...values.map(([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, value))))
}

export function cell(
  name: 'td' | 'th',
  { isNumber, isText, isWide }: Omit<Column<never>, 'cell' | 'title'>,
  content: string | Node,
): HTMLTableCellElement {
  const classes = [isNumber === true && 'number', isText === true && 'text', isWide === true && 'wide']
  const className = classes.filter((one) => one !== false).join(' ')
  return make(name, { className, ...(name === 'th' ? { scope: 'col' } : {}) }, content)
}

export function button(text: string, onClick: () => void): HTMLButtonElement {
  return make('button', { type: 'button', className: 'link', onclick: onClick }, text)
}

export function marked(text: string, className: string): HTMLElement {
  return make('span', { className }, text)
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** The reader's choices. They are in the page's address, so that a reload or a sent link shows the same. */
export function chosen(name: string): string {
  return new URLSearchParams(location.hash.slice(1)).get(name) ?? ''
}

export function choose(choices: Readonly<Record<string, string>>): void {
  const all = new URLSearchParams(location.hash.slice(1))
  for (const [name, value] of Object.entries(choices)) {
    if (value === '') all.delete(name)
    else all.set(name, value)
  }
  history.replaceState(null, '', `#${all}`)
}

const numbers = new Intl.NumberFormat()

export function formatNumber(value: number): string {
  return numbers.format(value >= 100 ? Math.round(value) : Math.round(value * 10) / 10)
}

/** `3 watchers`, `1 watcher` */
export function formatCount(count: number, name: string): string {
  return `${formatNumber(count)} ${name}${count === 1 ? '' : 's'}`
}

/** The local date and time as in ISO 8601, which every reader understands: `2026-11-29 18:07:10`. */
export function formatTime(ms: number): string {
  const local = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000)
  return local.toISOString().slice(0, 19).replace('T', ' ')
}

/** `18:07:10` */
export function formatClock(ms: number): string {
  return formatTime(ms).slice(11)
}

export function formatSeconds(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.round(seconds / 360) / 10} h`
  return `${Math.round(seconds / 8640) / 10} d`
}

export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`
  if (bytes < 2 ** 20) return `${Math.round(bytes / 1024)} KiB`
  return `${formatNumber(bytes / 2 ** 20)} MiB`
}
