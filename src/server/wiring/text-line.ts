/** One line of the log as text, for a person at a terminal. */
const LEVELS: Readonly<Record<number, string>> = { 20: 'debug', 30: 'info', 40: 'WARN', 50: 'ERROR', 60: 'FATAL' }

/** @param line as pino writes it. */
export function textLine(line: string): string {
  const { level, time, msg, ...fields } = JSON.parse(line) as { level: number; time: number; msg?: string }
  const details = Object.entries(fields).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  const text = [new Date(time).toISOString(), (LEVELS[level] ?? String(level)).padEnd(5), msg ?? '', ...details]
  // Clients choose some of these values, and a terminal would obey the control characters in them.
  return text
    .join(' ')
    .replace(/\p{Cc}/gu, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
