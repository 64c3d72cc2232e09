/** Resolves test names to files. */
import { readdirSync } from 'node:fs'
import { join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** Tests that need a newer etcd than Debian's, and take minutes or need root: `npm run judge -- etcd` runs them. */
const ONLY_BY_NAME = join('test', 'etcd') + sep

/**
 * Scenarios of the whole product, with several processes, faults, attacks, charts or load: `npm run test:system` runs
 * them.
 */
const SYSTEM = [
  'test/bench',
  'test/cli/doctor.test.ts',
  'test/cli/top.test.ts',
  'test/client/react.test.ts',
  'test/clients/hostile-keys.test.ts',
  'test/conformance/drop.test.ts',
  'test/conformance/random-requests.test.ts',
  'test/conformance/shards.test.ts',
  'test/docs/commands-of-pages.test.ts',
  'test/docs/flags-page.test.ts',
  'test/edge',
  'test/engine/feed/feed/etcd-gap.test.ts',
  'test/engine/feed/feed/etcd-large.test.ts',
  'test/engine/feed/feed/etcd.test.ts',
  'test/engine/pipeline/uncached-feed.test.ts',
  'test/engine/upstream/etcd/auth-token.test.ts',
  'test/engine/upstream/etcd/etcd-upstream/faults.test.ts',
  'test/etcd-api/access.test.ts',
  'test/etcd-api/etcd-api',
  'test/etcd-api/etcd-api.test.ts',
  'test/etcd-api/read-transaction.test.ts',
  'test/etcd-api/watch/watch-stream.test.ts',
  'test/etcd-api/write-rights.test.ts',
  'test/fault',
  'test/fleet/nats.test.ts',
  'test/fleet/workers.test.ts',
  'test/growth',
  'test/guarantees/live.test.ts',
  'test/integration',
  'test/kubernetes/upstream/http-resource/refused-watches.test.ts',
  'test/ops',
  'test/reference',
  'test/security',
  'test/server/ui/page.test.ts',
  'test/server/wiring/live-config.test.ts',
]

/** The sources that `npm test` runs, relative to the root. */
export function moduleTests(): string[] {
  return allTests().filter((file) => !file.startsWith(ONLY_BY_NAME) && !isUnder(file, SYSTEM))
}

export function systemTests(): string[] {
  return selectTests(SYSTEM)
}

/**
 * The sources of the tests in `names`, which are files or folders, relative to the root.
 *
 * @throws Error for a name without a test, so that none is left out unnoticed.
 */
export function selectTests(names: readonly string[]): string[] {
  const wanted = names.map((name) => relative(root, resolve(root, name)))
  const files = allTests()
  const unknown = names.filter((_, i) => !files.some((file) => isUnder(file, [wanted[i]!])))
  if (unknown.length > 0) throw new Error(`no test is called ${unknown.join(' ')}`)
  return files.filter((file) => isUnder(file, wanted))
}

function allTests(): string[] {
  return readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => join('test', file))
    .sort()
}

export function isUnder(file: string, places: readonly string[]): boolean {
  return places.some((place) => file === place || file.startsWith(`${place}/`))
}
