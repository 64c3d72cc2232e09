/** Objects that a real kube-apiserver 1.20 had in etcd are answered as that server answered them. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { decodeObject } from '../../src/kubernetes/codec/protobuf/decode.js'
import { isProtobuf } from '../../src/kubernetes/codec/protobuf/envelope.js'
import { kubernetesSchema } from '../../src/kubernetes/codec/protobuf/schema.js'
import { apiServer120 } from '../support/protobuf-data.js'
import { overEveryUpstream } from './world.js'

const { stored, answers } = apiServer120()

interface RealTable {
  readonly path: string
  readonly columns: readonly (readonly [name: string, priority: number, type: string])[]
  readonly rows: readonly (readonly unknown[])[]
}

const tables = JSON.parse(
  readFileSync(new URL('../../../test/data/kube-apiserver-1.20/tables.json', import.meta.url), 'utf8'),
) as readonly RealTable[]

/** A column that 1.37 no longer has. */
const DROPPED = '/api/v1/serviceaccounts Secrets'

overEveryUpstream(
  t,
  'a real API server’s own data',
  {
    uncached: false,
    // Versions of that time are served only when named.
    flags: [
      'poddisruptionbudgets.v1beta1.policy',
      'flowschemas.v1beta1.flowcontrol.apiserver.k8s.io',
      'prioritylevelconfigurations.v1beta1.flowcontrol.apiserver.k8s.io',
    ].flatMap((name) => ['--resource', name]),
    seeds: stored.map(({ key, value }) => ({ [key]: value })),
  },
  async (t, w) => {
    const revisions = new Map(stored.map(({ key }, i) => [key, String(w.seeds[i])]))
    while ((await w.ask('/apis/edge.example.com/v1/caches')).code !== 200)
      await new Promise((resolve) => setImmediate(resolve))
    await t.test('every object is answered as the API server answered it', async (t) => {
      for (const [key, { path, object }] of answers) {
        const { selfLink: _, ...metadata } = object.metadata
        const expected = { ...object, metadata: { ...metadata, resourceVersion: revisions.get(key) } }
        const { code, json } = await w.ask(path)
        t.equal(code, 200, path)
        t.same(json, expected, path)
      }
      t.ok(answers.size > 25)
    })
    await t.test('every object stored in protobuf is answered in protobuf as the API server answered it', async (t) => {
      let compared = 0
      for (const { key, value } of stored) {
        const answer = answers.get(key)
        if (answer === undefined || !isProtobuf(value)) continue
        const { code, body } = await w.ask(answer.path, { headers: { accept: 'application/vnd.kubernetes.protobuf' } })
        if (code === 406) continue
        t.equal(code, 200, answer.path)
        const { selfLink: _s, resourceVersion: _r, ...metadata } = answer.object.metadata
        t.same(
          JSON.parse(decodeObject(body, kubernetesSchema()).bytes.toString()),
          { ...answer.object, metadata },
          answer.path,
        )
        compared++
      }
      t.ok(compared > 20, `${compared}`)
    })
    await t.test('every list contains the objects, in its own list kind', async (t) => {
      for (const [, { path, object }] of answers) {
        const list = await w.ask(path.slice(0, path.lastIndexOf('/')))
        t.match(list.json, { kind: `${object.kind}List`, apiVersion: object.apiVersion })
        t.ok(
          list.json.items.some(({ metadata }) => metadata.name === object.metadata['name']),
          path,
        )
      }
    })
    await t.test('every Table has the columns of the API server, and perhaps more', async (t) => {
      for (const { path, columns, rows } of tables) {
        const { code, json } = await w.ask(path, {
          headers: { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' },
        })
        t.equal(code, 200, path)
        const definitions = json['columnDefinitions'] as { name: string }[]
        const names = definitions.map(({ name }) => name)
        const wanted = columns.map(([name]) => name).filter((name) => `${path} ${name}` !== DROPPED)
        t.same(
          names.filter((name) => wanted.includes(name)),
          wanted,
          path,
        )
        const nameAt = names.indexOf('Name')
        const shown = (json['rows'] as { cells: unknown[] }[]).map(({ cells }) => cells[nameAt])
        for (const [name] of rows) t.ok(shown.includes(name), `${path} ${String(name)}`)
      }
    })
    await t.test('objects stored in an old version are served in the newer one', async (t) => {
      t.match((await w.ask('/apis/policy/v1/namespaces/team-a/poddisruptionbudgets/web')).json, {
        kind: 'PodDisruptionBudget',
        apiVersion: 'policy/v1',
      })
      t.match((await w.ask('/apis/networking.k8s.io/v1/namespaces/team-a/ingresses/web')).json, {
        kind: 'Ingress',
        apiVersion: 'networking.k8s.io/v1',
      })
    })
  },
)
