/** Reads comma-separated values with the quirks of Go's encoding/csv, on which token files rely. */

const BLANK_LINE = /\r?\n/y
const QUOTED = /"([^"]*(?:""[^"]*)*)"(?!")/y
/** A carriage return belongs to the field unless the line or the file ends behind it. */
const PLAIN = /(?:[^,\r\n]|\r(?!\n|$))*/y
const FIELD_END = /,|\r?\n|\r?$/y

/**
 * Returns one array for each record. Blank lines are skipped and fields are not trimmed.
 * @throws Error with the line of a stray or unclosed quote, so that half a token file is not taken for a complete one.
 */
export function parseCsv(text: string): readonly (readonly string[])[] {
  const records: string[][] = []
  let at = 0
  const take = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at
    const found = pattern.exec(text)
    at += found?.[0].length ?? 0
    return found
  }
  const wrong = (what: string): Error => new Error(`line ${text.slice(0, at).split('\n').length}: ${what}`)
  const readField = (): string => {
    const quoted = take(QUOTED)
    if (quoted !== null) return quoted[1]!.replaceAll('""', '"').replaceAll('\r\n', '\n')
    if (text[at] === '"') throw wrong('a quoted field is not closed')
    const [plain] = take(PLAIN)!
    if (plain.includes('"')) throw wrong('a quote inside a field that does not begin with one')
    return plain
  }
  while (at < text.length) {
    if (take(BLANK_LINE) !== null) continue
    const record: string[] = []
    let end = ','
    while (end === ',') {
      record.push(readField())
      const found = take(FIELD_END)
      if (found === null) throw wrong('something follows a closing quote')
      end = found[0]
    }
    records.push(record)
  }
  return records
}
