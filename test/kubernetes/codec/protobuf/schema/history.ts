/**
 * Tables of messages over several releases. etcd may hold what API servers of ten releases ago wrote, so what a release
 * has removed stays in the table: kinds, messages and fields. What a release defines is taken from that release.
 */

interface Package {
  readonly apiVersion: string
  /** Lines by the message's name. */
  readonly messages: Map<string, string>
}

interface Table {
  readonly aliases: readonly string[]
  readonly packages: Map<string, Package>
}

function parse(text: string): Table {
  const aliases: string[] = []
  const packages = new Map<string, Package>()
  let messages = new Map<string, string>()
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    const [first = '', name = '', apiVersion = ''] = line.split(' ')
    if (first === '=') aliases.push(line)
    else if (first === '@') packages.set(name, { apiVersion, messages: (messages = new Map()) })
    else messages.set(/^\w+/.exec(line)![0], line)
  }
  return { aliases, packages }
}

/** Returns the table of a release, plus everything that earlier tables had and this one lacks. */
export function withHistory(release: string, history: string): string {
  const now = parse(release)
  const before = parse(history)
  const lines = [...now.aliases]
  const names = [...now.packages.keys(), ...[...before.packages.keys()].filter((name) => !now.packages.has(name))]
  for (const name of names) {
    const present = now.packages.get(name)
    const past = before.packages.get(name)
    lines.push(`@ ${name} ${(present ?? past)!.apiVersion}`)
    const messages = new Set([...(present?.messages.keys() ?? []), ...(past?.messages.keys() ?? [])])
    for (const message of [...messages].toSorted()) {
      const line = present?.messages.get(message)
      const old = past?.messages.get(message)
      lines.push(line === undefined ? old! : old === undefined ? line : withOldFields(line, old))
    }
  }
  return `${lines.join('\n')}\n`
}

function withOldFields(line: string, old: string): string {
  const fields = line.split(' ')
  const numbers = new Set(fields.slice(1).map(numberOf))
  const names = new Set(fields.slice(1).map(nameOf))
  const removed = old
    .split(' ')
    .slice(1)
    .filter((field) => !numbers.has(numberOf(field)) && (nameOf(field) === '' || !names.has(nameOf(field))))
  return [...fields, ...removed.map(asRemoved)].join(' ')
}

function numberOf(field: string): string {
  return field.split(':')[1]!
}

function nameOf(field: string): string {
  return field.split(/[?:]/)[0]!
}

/** Only what is there is written: today's Go does not know the field, so it writes no empty one. */
function asRemoved(field: string): string {
  const [, name = '', number = '', label = '', type = ''] = /^([^?:]*)\??:(\d+):(\*|\[\]|\{\})?(.+)$/.exec(field)!
  const isScalar = /^(string|bytes|bool|int32|int64|double)$/.test(type)
  return `${name}?:${number}:${label === '' && !isScalar ? '*' : label}${type}`
}
