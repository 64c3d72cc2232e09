/**
 * A random sequence of verbs gives the same codes, the same messages and the same objects on the in-process store and
 * on a real etcd. Each side has its own uids and revisions.
 */
import t from 'tap'
import { randomInteger, seededRandom } from '../../../../src/support/random.js'
import { silentLogger } from '../../../../src/support/log.js'
import { createEmbeddedUpstream } from '../../../support/faulty-store.js'
import { connectEtcd } from '../../../../src/engine/upstream/etcd/etcd-upstream.js'
import { startEtcd } from '../../../support/etcd-process.js'
import { type Asked, type Said, writerOver } from '../writer-over.js'
import { testSeed } from '../../../support/test-seeds.js'

const STEPS = 600
const seed = testSeed(1)
const UID = /[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g

void t.test(`random verbs have the same answers over both upstreams (seed ${seed})`, async (t) => {
  const embedded = createEmbeddedUpstream()
  t.teardown(() => embedded.close())
  const etcd = await startEtcd(t)
  const real = connectEtcd({ endpoints: [etcd.url], logger: silentLogger })
  t.teardown(() => real.close())
  // Both sides share one clock, because managed fields are ordered by time.
  let seconds = 1_800_000_000
  const sides = [embedded, real].map((upstream) => ({
    writer: writerOver(upstream, () => seconds * 1_000),
    /** The latest known version of each name: each side has its own revisions. */
    versions: new Map<string, string>(),
    uids: new Map<string, string>(),
  }))
  const random = seededRandom(seed)
  const codes = new Map<number, number>()
  for (let step = 0; step < STEPS; step++) {
    const asked = randomVerb(random)
    seconds++
    const said: { code: number; text: string }[] = []
    for (const side of sides) {
      const answer = await side.writer.ask(withVersions(asked, side))
      remember(answer, side)
      said.push({ code: answer.code, text: named(answer) })
    }
    const [a, b] = said
    codes.set(a!.code, (codes.get(a!.code) ?? 0) + 1)
    if (a!.code !== b!.code || a!.text !== b!.text) {
      t.same(b, a, `step ${step}: ${JSON.stringify(asked)}`)
      return
    }
  }
  t.comment(JSON.stringify([...codes]))
  for (const code of [200, 201, 404, 409, 422]) t.ok((codes.get(code) ?? 0) > 0, `some answers were ${code}`)
})

type Random = ReturnType<typeof seededRandom>

function pick<T>(random: Random, values: readonly T[]): T {
  return values[randomInteger(random, 0, values.length - 1)]!
}

/**
 * Returns a random write. `$VERSION` and `$UID` stand for the side's own values of the name, and `$OLD` for a
 * version that never existed.
 */
function randomVerb(random: Random): Asked {
  const name = pick(random, ['a', 'b', 'c'])
  const data = { [pick(random, ['x', 'y', 'z'])]: String(randomInteger(random, 0, 3)) }
  const version = pick(random, [undefined, undefined, '$VERSION', '$OLD'])
  const finalizers = pick(random, [undefined, undefined, undefined, ['example.com/f'], []])
  const labels = pick(random, [undefined, { app: 'web' }, { app: null }, { 'not ok': 'x' }])
  const metadata = { name, resourceVersion: version, finalizers, labels }
  const query = pick(random, ['', '', '', 'dryRun=All', 'fieldManager=m1', 'fieldManager=m2'])
  switch (
    pick(random, ['create', 'create', 'update', 'merge', 'merge', 'json', 'apply', 'apply', 'delete', 'collection'])
  ) {
    case 'create':
      return {
        verb: 'create',
        query,
        body: { metadata: { name, finalizers, labels: labels?.app === null ? {} : labels }, data },
      }
    case 'update':
      return { verb: 'update', name, query, body: { metadata: { ...metadata, labels: {} }, data } }
    case 'merge':
      return { verb: 'patch', name, query, contentType: 'application/merge-patch+json', body: { metadata, data } }
    case 'json': {
      const path = `/data/${pick(random, ['x', 'y'])}`
      const body = [
        { op: pick(random, ['add', 'replace', 'remove', 'test']), path, value: '1' },
        { op: 'copy', from: path, path: '/data/copied' },
      ]
      return { verb: 'patch', name, query, contentType: 'application/json-patch+json', body }
    }
    case 'apply': {
      const force = pick(random, ['', '&force=true'])
      const manager = pick(random, ['m1', 'm2', 'm3'])
      const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data }
      return {
        verb: 'patch',
        name,
        query: `fieldManager=${manager}${force}`,
        contentType: 'application/apply-patch+yaml',
        body,
      }
    }
    case 'delete': {
      const preconditions = pick(random, [
        undefined,
        { uid: '$UID' },
        { uid: 'other' },
        { resourceVersion: '$VERSION' },
      ])
      return { verb: 'delete', name, body: { kind: 'DeleteOptions', preconditions } }
    }
    default:
      return {
        verb: 'deletecollection',
        query: pick(random, ['labelSelector=app=web', 'fieldSelector=metadata.name=c']),
      }
  }
}

interface Side {
  readonly versions: Map<string, string>
  readonly uids: Map<string, string>
}

function withVersions(asked: Asked, side: Side): Asked {
  const body = asked.body as { metadata?: { name: string } } | undefined
  const name = asked.name ?? body?.metadata?.name ?? ''
  const text = JSON.stringify(asked.body ?? null)
    .replaceAll('$VERSION', side.versions.get(name) ?? '1')
    .replaceAll('$OLD', '1')
    .replaceAll('$UID', side.uids.get(name) ?? 'none')
  return { ...asked, body: asked.body === undefined ? undefined : text }
}

function remember({ body }: Said, side: Side): void {
  const { name, resourceVersion, uid } = (body['metadata'] ?? {}) as Record<string, string | undefined>
  if (name === undefined) return
  if (resourceVersion !== undefined) side.versions.set(name, resourceVersion)
  if (uid !== undefined) side.uids.set(name, uid)
}

function named({ body }: Said): string {
  return JSON.stringify(body)
    .replaceAll(/"resourceVersion":"\d+",?/g, '')
    .replaceAll(UID, 'uid')
    .replaceAll(/(precondition|object meta): \d+/g, '$1: version')
}
