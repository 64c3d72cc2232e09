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
  let current: readonly Package[] = []
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    if (line.startsWith('=')) aliases.push(line)
    else if (line.startsWith('@')) {
      current = line
        .slice('@ '.length)
        .split(' @ ')
        .flatMap((group) => {
          const [name = '', apiVersion = '', ...others] = group.split(' ')
          return [versionOf(name), ...others].map((version) => {
            const [inPackage, inApi] = [name, apiVersion].map((one) => one.replace(/\w+$/, version))
            const known = packages.get(inPackage!) ?? { apiVersion: inApi!, messages: new Map<string, string>() }
            packages.set(inPackage!, known)
            return known
          })
        })
    } else for (const { messages } of current) messages.set(/^\w+/.exec(line)![0], line)
  }
  return { aliases, packages }
}

const groupOf = (packageName: string): string => packageName.replace(/\w+$/, '')
const versionOf = (packageName: string): string => /\w+$/.exec(packageName)![0]

/** Returns every kind of a table. */
export function kindsIn(table: string): readonly (readonly [apiVersion: string, kind: string])[] {
  return [...parse(table).packages.values()].flatMap(({ apiVersion, messages }) =>
    [...messages].filter(([, line]) => /^\w+\*/.test(line)).map(([kind]) => [apiVersion, kind] as const),
  )
}

/** Returns the table of a release, plus everything that earlier tables had and this one lacks. */
export function withHistory(release: string, history: string): string {
  const now = parse(release)
  const before = parse(history)
  const packages = new Map<string, Package>()
  for (const name of new Set([...now.packages.keys(), ...before.packages.keys()])) {
    const present = now.packages.get(name)
    const past = before.packages.get(name)
    const messages = new Map(past?.messages)
    for (const [message, line] of present?.messages ?? []) {
      const old = messages.get(message)
      messages.set(message, old === undefined ? line : withOldFields(line, old))
    }
    packages.set(name, { apiVersion: (present ?? past)!.apiVersion, messages })
  }
  return `${[...now.aliases, ...linesOf(packages)].join('\n')}\n`
}

/** A message that is the same in several packages has one line. */
function linesOf(packages: ReadonlyMap<string, Package>): string[] {
  const sections = new Map<string, string[]>()
  for (const name of [...packages.keys()].toSorted()) {
    for (const [message, line] of [...packages.get(name)!.messages].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      const alike = [...packages.keys()].filter((one) => packages.get(one)!.messages.get(message) === line).toSorted()
      if (alike[0] !== name) continue
      const head = alike
        .map((one, index) => {
          const isOfSameGroup = index > 0 && groupOf(one) === groupOf(alike[index - 1]!)
          return isOfSameGroup ? versionOf(one) : `@ ${one} ${packages.get(one)!.apiVersion}`
        })
        .join(' ')
      sections.set(head, [...(sections.get(head) ?? [head]), line])
    }
  }
  return [...sections.values()].flat()
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
