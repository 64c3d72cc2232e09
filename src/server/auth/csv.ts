/** Reads comma-separated values with the quirks of Go's encoding/csv, on which token files rely. */

/**
 * Returns one array for each record. Blank lines are skipped and fields are not trimmed.
 * @throws Error with the line of a stray or unclosed quote, so that half a token file is not taken for a complete one.
 */
export function parseCsv(text: string): readonly (readonly string[])[] {
  const records: string[][] = []
  let at = 0
  let line = 1
  while (at < text.length) {
    const record: string[] = []
    const blank = /\r?\n/y
    blank.lastIndex = at
    if (blank.test(text)) {
      at = blank.lastIndex
      line++
      continue
    }
    for (;;) {
      if (text[at] === '"') {
        const start = line
        let field = ''
        at++
        for (;;) {
          const quote = text.indexOf('"', at)
          if (quote === -1) throw new Error(`line ${start}: a quoted field is not closed`)
          field += text.slice(at, quote)
          at = quote + 1
          if (text[at] !== '"') break
          field += '"'
          at++
        }
        line += field.split('\n').length - 1
        record.push(field.replaceAll('\r\n', '\n'))
        if (at < text.length && text[at] !== ',' && !atLineEnd(text, at)) {
          throw new Error(`line ${line}: something follows a closing quote`)
        }
      } else {
        const end = fieldEnd(text, at)
        const field = text.slice(at, end)
        if (field.includes('"')) throw new Error(`line ${line}: a quote inside a field that does not begin with one`)
        record.push(field)
        at = end
      }
      if (text[at] !== ',') break
      at++
    }
    if (text[at] === '\r') at++
    at++
    line++
    records.push(record)
  }
  return records
}

function atLineEnd(text: string, at: number): boolean {
  return text[at] === '\n' || (text[at] === '\r' && (at + 1 === text.length || text[at + 1] === '\n'))
}

function fieldEnd(text: string, start: number): number {
  let at = start
  while (at < text.length && text[at] !== ',' && !atLineEnd(text, at)) at++
  return at
}
