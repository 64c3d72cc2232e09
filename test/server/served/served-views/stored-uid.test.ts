/**
 * The uid by which shards divide objects is read from objects stored as protobuf too, as Kubernetes stores its own
 * kinds.
 */
import t from 'tap'
import { keyFromText } from '../../../../src/engine/model/event.js'
import { enveloped } from '../../../../src/kubernetes/codec/protobuf/resource-version-splice.js'
import { startApp } from '../../../support/app.js'
import { lengthDelimited } from '../../../support/protobuf-sample.js'
import { shardTexts, uidOf } from '../../../support/shards.js'
import { until } from '../../../support/until.js'

const text = (number: number, value: string): Buffer => lengthDelimited(number, Buffer.from(value))

function pod(name: string, uid: string): Buffer {
  const raw = lengthDelimited(1, Buffer.concat([text(1, name), text(3, 'default'), text(5, uid)]))
  return enveloped('v1', 'Pod', raw)
}

/** FNV-1a, 64 bits. */
function shardOf(uid: string, shards: number): number {
  let hash = 0xcbf29ce484222325n
  for (const byte of Buffer.from(uid)) hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & (2n ** 64n - 1n)
  return Number((hash * BigInt(shards)) >> 64n)
}

void t.test('shards of objects that are stored as protobuf', async (t) => {
  const app = await startApp(t, {})
  const names = Array.from('abcdefghijkl')
  for (const [i, name] of names.entries()) {
    const key = keyFromText(`/registry/pods/default/${name}`)
    app.upstream.commit([{ type: 'put', key, value: pod(name, uidOf(i + 12)) }])
  }
  const { revision } = app.upstream
  await until(
    () => [...app.app.sources].some(({ cache }) => cache.name === 'pods' && cache.revision >= revision),
    'pods',
  )
  const shards = shardTexts(4)
  t.ok(new Set(names.map((_, i) => shardOf(uidOf(i + 12), 4))).size > 2)
  for (const [shard, selector] of shards.entries()) {
    const answer = await fetch(`${app.url}/api/v1/pods?shardSelector=${encodeURIComponent(selector)}`)
    const { items } = (await answer.json()) as { items: { metadata: { name: string } }[] }
    t.same(
      items.map(({ metadata }) => metadata.name),
      names.filter((_, i) => shardOf(uidOf(i + 12), 4) === shard),
    )
  }
})
