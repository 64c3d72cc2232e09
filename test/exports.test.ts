/** What a module exports is used elsewhere: by other modules, or by tests where a list below says so. */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { filesIn } from './support/imports.js'

const root = fileURLToPath(new URL('../../', import.meta.url))
/** Types are left out: they belong to the signature of what is exported beside them. */
const EXPORTED = /^export (?:abstract )?(?:async )?(?:function\*?|class|const|let) (\w+)/gm
const NAMED = /(?:^|\n)(?:import|export)(?: type)?\s+\{([^}]*)\}\s+from\s+'(\.[^']+)'/g
/** `import * as`, `export *` and `await import()` may use everything. */
const WHOLE = /(?:\*(?: as \w+)? from |import\()'(\.[^']+)'/g
/** What `package.json` publishes. */
const PUBLISHED = ['src/client/index.ts', 'src/client/browser.ts', 'src/client/react.ts']

/**
 * Values that only tests import: a test asks a function what could only be seen after hours, or through a program of
 * its own. The list may only become shorter.
 */
const FOR_TESTS: readonly string[] = [
  'src/engine/broadcast/shard-index.ts#nodesOf',
  'src/server/limits/limit.ts#LIMITS',
  'src/engine/model/shard.ts#compareHashes',
  'src/engine/model/shared-limits.ts#SEMAPHORE_NAMES',
  'src/fleet/stream/stream-feeds.ts#StreamFeed',
  'src/fleet/workers/link.ts#decodeFrame',
  'src/fleet/workers/link.ts#frameSplitter',
  'src/kubernetes/codec/json-path/parse.ts#parseParts',
  'src/kubernetes/codec/protobuf/schema.ts#isPackageOf',
  'src/kubernetes/codec/versions/renamed-kinds.ts#RENAMED',
  'src/kubernetes/dialect/openapi-protobuf.ts#openApiMessage',
  'src/server/auth/peer-certificate.ts#describePeer',
  'src/server/config/help.ts#rangeOf',
  'src/server/config/reload.ts#RELOADABLE',
  'src/server/config/yaml-file.ts#RESOURCE_FIELDS',
  'src/server/transports/api/poll-handler.ts#nextCursor',
  'src/server/wiring/heap-flags.ts#heapFlags',
  'src/server/wiring/memory-target.ts#defaultMemoryTarget',
  'src/support/turns.ts#Turns',
]

/** The names that these files import, as `src/a.ts#name`, and with `*` for everything. */
function importedBy(files: readonly string[]): ReadonlySet<string> {
  const found = new Set<string>()
  for (const file of files) {
    const text = readFileSync(join(root, file), 'utf8')
    const at = (path: string): string => join(dirname(file), path).replace(/\.js$/, '.ts')
    for (const [, names, path] of text.matchAll(NAMED)) {
      for (const name of names!.split(',')) found.add(`${at(path!)}#${/^(?:type )?(\w*)/.exec(name.trim())![1]}`)
    }
    for (const [, path] of text.matchAll(WHOLE)) found.add(`${at(path!)}#*`)
  }
  return found
}

function unusedBy(files: readonly string[]): string[] {
  const imported = importedBy(files)
  return filesIn('src').flatMap((file) => {
    if (PUBLISHED.includes(file) || imported.has(`${file}#*`)) return []
    const names = [...readFileSync(join(root, file), 'utf8').matchAll(EXPORTED)].map(([, name]) => `${file}#${name}`)
    return names.filter((name) => !imported.has(name))
  })
}

void t.test('every exported value is imported, and not by tests alone', (t) => {
  t.same(unusedBy(['src', 'test', 'bench'].flatMap(filesIn)), [], 'export what another file imports')
  t.same(unusedBy(filesIn('src')).sort(), [...FOR_TESTS].sort(), 'the list of those for tests')
  t.end()
})
