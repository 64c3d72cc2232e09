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
  /** Whether a narrow screen hides the column. */
  readonly isWide?: boolean
  readonly cell: (row: R) => string | Node
}

/** Replaces the content of a table. @param none the text for a table without rows. */
export function fillTable<R>(
  table: HTMLElement,
  columns: readonly Column<R>[],
  rows: readonly R[],
  none: string,
): void {
  const head = row(
    columns.map((column) => cell('th', column, column.title)),
    'thead',
  )
  for (const th of head.querySelectorAll('th')) th.scope = 'col'
  const body = document.createElement('tbody')
  for (const item of rows) body.append(line(columns.map((column) => cell('td', column, column.cell(item)))))
  if (rows.length === 0) {
    const empty = document.createElement('td')
    empty.colSpan = columns.length
    empty.textContent = none
    body.append(line([empty]))
  }
  table.replaceChildren(head, body)
}

/** Fills a description list. */
export function fillList(list: HTMLElement, values: readonly (readonly [name: string, value: string | Node])[]): void {
  list.replaceChildren(
    ...values.map(([name, value]) => {
      const pair = document.createElement('div')
      const term = document.createElement('dt')
      const text = document.createElement('dd')
      term.textContent = name
      text.append(value)
      pair.append(term, text)
      return pair
    }),
  )
}

function row(cells: HTMLElement[], part: 'thead' | 'tbody'): HTMLElement {
  const element = document.createElement(part)
  element.append(line(cells))
  return element
}

export function line(cells: HTMLElement[]): HTMLTableRowElement {
  const tr = document.createElement('tr')
  tr.append(...cells)
  return tr
}

export function cell<R>(name: 'td' | 'th', column: Column<R>, content: string | Node): HTMLElement {
  const element = document.createElement(name)
  element.append(content)
  if (column.isNumber === true) element.classList.add('number')
  if (column.isWide === true) element.classList.add('wide')
  return element
}

export function button(text: string, onClick: () => void): HTMLButtonElement {
  const element = document.createElement('button')
  element.type = 'button'
  element.className = 'link'
  element.textContent = text
  element.addEventListener('click', onClick)
  return element
}

export function marked(text: string, className: string): HTMLElement {
  const element = document.createElement('span')
  element.className = className
  element.textContent = text
  return element
}

const numbers = new Intl.NumberFormat('en')

export function formatNumber(value: number): string {
  return numbers.format(value >= 100 ? Math.round(value) : Math.round(value * 10) / 10)
}

export function formatSeconds(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`
  return `${Math.round(seconds / 360) / 10} h`
}

export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`
  if (bytes < 2 ** 20) return `${Math.round(bytes / 1024)} KiB`
  return `${formatNumber(bytes / 2 ** 20)} MiB`
}
