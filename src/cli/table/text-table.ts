/** Lays out rows that are all known in advance, with columns as wide as their widest cell. */

/** Returns one line per row. @param isRight whether a column is right-aligned, as numbers are. */
export function tableLines(
  rows: readonly (readonly string[])[],
  isRight: (column: number) => boolean = () => false,
): readonly string[] {
  const widths = rows[0]!.map((_, column) => rows.reduce((width, row) => Math.max(width, row[column]!.length), 0))
  return rows.map((row) =>
    row
      .map((cell, column) => (isRight(column) ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!)))
      .join('  ')
      .trimEnd(),
  )
}
