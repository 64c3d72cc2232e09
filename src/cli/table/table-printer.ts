/**
 * Prints rows in columns as they arrive. The column widths come from the first rows and grow when wider cells arrive,
 * so that a watch can be printed without knowing the rows to come.
 */
import { JsonNumber } from '../../kubernetes/codec/json-tree.js'
import type { Row } from './table-codec.js'

export interface TablePrinterOptions {
  readonly isWide: boolean
  /** Whether there is a namespace column; `auto` decides from the first rows. */
  readonly withNamespace: boolean | 'auto'
  readonly withHeader: boolean
}

const GAP = '   '

export class TablePrinter {
  readonly #options: TablePrinterOptions
  #widths: number[] = []
  #header: readonly string[] | null = null
  #withNamespace: boolean | null = null

  constructor(options: TablePrinterOptions) {
    this.#options = options
  }

  /**
   * Returns lines for these rows, with the header before the first of them (and again when the columns change).
   *
   * @param types the type of the event of each row, as a column of its own; null for no such column.
   */
  lines(rows: readonly Row[], types: readonly string[] | null = null): string[] {
    const lines: string[][] = []
    const { withNamespace } = this.#options
    this.#withNamespace ??= withNamespace === 'auto' ? rows.some(({ namespace }) => namespace !== '') : withNamespace
    for (const [at, row] of rows.entries()) {
      const shown = row.columns.flatMap(({ priority }, index) =>
        priority === 0 || this.#options.isWide ? [index] : [],
      )
      const names = shown.map((index) => row.columns[index]!.name.toUpperCase())
      const lead = [...(types === null ? [] : [types[at]!]), ...(this.#withNamespace ? [row.namespace] : [])]
      const leadNames = [...(types === null ? [] : ['EVENT']), ...(this.#withNamespace ? ['NAMESPACE'] : [])]
      const header = [...leadNames, ...names]
      if (!isSame(header, this.#header)) {
        this.#header = header
        this.#widths = []
        if (this.#options.withHeader) lines.push([...header])
      }
      lines.push([...lead, ...shown.map((index) => cellText(row.cells[index]))])
    }
    for (const line of lines) {
      for (const [index, cell] of line.entries()) {
        this.#widths[index] = Math.max(this.#widths[index] ?? 0, cell.length)
      }
    }
    return lines.map((line) =>
      line
        .map((cell, index) => cell.padEnd(this.#widths[index]!))
        .join(GAP)
        .trimEnd(),
    )
  }
}

function isSame(header: readonly string[], other: readonly string[] | null): boolean {
  return other !== null && header.length === other.length && header.every((name, index) => name === other[index])
}

/** Returns the text on one line, without characters that would move the cursor. */
function cellText(value: unknown): string {
  if (value === null || value === undefined) return '<none>'
  const text = typeof value === 'string' ? value : value instanceof JsonNumber ? value.text : JSON.stringify(value)
  // oxlint-disable-next-line no-control-regex -- that is what it is for
  return text.replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ')
}
