/**
 * Generates `src/kubernetes/writes/merge-keys.txt` from the API's published facts. Run it by hand when the API has
 * changed:
 *
 *     node .build/test/support/generate-merge-keys.js kubernetes/api@COMMIT=DIR kubernetes/apimachinery@COMMIT=DIR … \
 *       > src/kubernetes/writes/merge-keys.txt
 *
 * Each argument is a checked-out repository. The markers in the comments of `generated.proto` say which lists are
 * merged, and by what: `+listType`, `+listMapKey`, `+patchStrategy`, `+patchMergeKey`, `+structType`, `+mapType`. Only
 * these facts are copied; no text is.
 */
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

interface Markers {
  readonly listType: string
  readonly listKeys: readonly string[]
  readonly patchStrategies: readonly string[]
  readonly patchKey: string
  readonly isAtomic: boolean
}

const MARKER = /\+(listType|listMapKey|patchStrategy|patchMergeKey|structType|mapType)=(\S+)/

function markersOf(comments: readonly string[]): Markers {
  const found = new Map<string, string[]>()
  for (const comment of comments) {
    const match = MARKER.exec(comment)
    if (match) found.set(match[1]!, [...(found.get(match[1]!) ?? []), match[2]!])
  }
  const first = (name: string): string => found.get(name)?.[0] ?? ''
  return {
    listType: first('listType'),
    listKeys: found.get('listMapKey') ?? [],
    patchStrategies: first('patchStrategy')
      .split(',')
      .filter((word) => word !== ''),
    patchKey: first('patchMergeKey'),
    isAtomic: first('structType') === 'atomic' || first('mapType') === 'atomic',
  }
}

/** One line per message: its name, `!` when it is atomic, then `field=what` for each field with markers. */
function* readProto(text: string): Generator<string> {
  let comments: string[] = []
  let message = ''
  let fields: string[] = []
  let isAtomic = false
  for (const raw of text.split('\n')) {
    const line = raw.trim()
    if (line.startsWith('//')) {
      comments.push(line)
      continue
    }
    const start = /^message (\w+) \{/.exec(line)
    const field = /^(?:optional |repeated )?(?:map<[^>]+>|[\w.]+) (\w+) = \d+;/.exec(line)
    if (start) {
      message = start[1]!
      fields = []
      isAtomic = markersOf(comments).isAtomic
    } else if (field && message !== '') {
      const what = describe(markersOf(comments))
      if (what !== '') fields.push(`${field[1]}=${what}`)
    } else if (line === '}' && message !== '') {
      if (fields.length > 0 || isAtomic) yield [`${message}${isAtomic ? '!' : ''}`, ...fields].join(' ')
      message = ''
    }
    comments = []
  }
}

/**
 * `s` a set, `k(name,port)` a list by keys, `!` atomic; then `p` merged by a strategic patch, `p(name)` by a key; `r`
 * retains the keys given.
 */
function describe({ listType, listKeys, patchStrategies, patchKey, isAtomic }: Markers): string {
  const list = listType === 'set' ? 's' : listType === 'map' ? `k(${listKeys.join(',')})` : isAtomic ? '!' : ''
  const merge = patchStrategies.includes('merge') ? (patchKey === '' ? 'p' : `p(${patchKey})`) : ''
  return `${list}${merge}${patchStrategies.includes('retainKeys') ? 'r' : ''}`
}

const sources: string[] = []
const packages: string[] = []
for (const argument of process.argv.slice(2)) {
  const equals = argument.indexOf('=')
  const directory = argument.slice(equals + 1)
  sources.push(argument.slice(0, equals))
  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' })
  for (const file of files.filter((path) => path.endsWith('generated.proto')).sort()) {
    const text = readFileSync(join(directory, file), 'utf8')
    const name = /^package ([\w.]+);/m.exec(text)?.[1]
    const lines = [...readProto(text)]
    if (name !== undefined && lines.length > 0) packages.push(`@ ${name}`, ...lines)
  }
}
process.stdout.write(`# Which lists of the built-in kinds are merged by what, by message and field.
# Made by \`test/support/generate-merge-keys.ts\` from the published proto files of
${sources.map((source) => `# - ${source}`).join('\n')}
# (Apache-2.0, The Kubernetes Authors.)
${packages.join('\n')}
`)
