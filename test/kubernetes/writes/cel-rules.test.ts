import t from 'tap'
import { startApp } from '../../support/app.js'
import { until } from '../../support/until.js'

const schema = {
  type: 'object',
  'x-kubernetes-validations': [{ rule: 'has(self.spec)' }],
  properties: {
    spec: {
      type: 'object',
      'x-kubernetes-validations': [{ rule: 'self.least <= self.most', message: 'least is above most' }],
      properties: {
        least: { type: 'integer' },
        most: { type: 'integer' },
        ports: { type: 'array', items: { type: 'integer', 'x-kubernetes-validations': [{ rule: 'self > 0' }] } },
        names: {
          type: 'object',
          additionalProperties: { type: 'string', 'x-kubernetes-validations': [{ rule: 'self != ""' }] },
        },
      },
    },
  },
}

function definition(openAPIV3Schema: object): object {
  const names = { plural: 'ranges', singular: 'range', kind: 'Range', listKind: 'RangeList' }
  const versions = [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema } }]
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'ranges.example.com' },
    spec: { group: 'example.com', scope: 'Namespaced', names, versions },
  }
}

void t.test(
  'CEL rules are never silently ignored: a definition with them, and its objects, get a Warning',
  async (t) => {
    const { url } = await startApp(t, { flags: ['--enable-writes'] })
    const post = async (path: string, body: object): Promise<{ code: number; warning: string }> => {
      const headers = { 'content-type': 'application/json' }
      const answer = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
      await answer.text()
      return { code: answer.status, warning: answer.headers.get('warning') ?? '' }
    }
    const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
    const made = await post(definitions, definition(schema))
    t.equal(made.code, 201)
    const words = 'rules in x-kubernetes-validations are not evaluated here'
    t.match(made.warning, words)
    t.match(made.warning, 'has(self.spec)', 'names the rule')
    t.match(made.warning, 'and 1 more')
    const objects = '/apis/example.com/v1/namespaces/default/ranges'
    const object = (name: string): object => ({
      apiVersion: 'example.com/v1',
      kind: 'Range',
      metadata: { name },
      spec: { least: 2, most: 1 },
    })
    let last = { code: 0, warning: '' }
    await until(async () => (last = await post(objects, object('a'))).code === 201, 'the definition is served')
    t.match(last.warning, words)
    t.match(last.warning, 'self.least <= self.most')
    const { 'x-kubernetes-validations': _, ...rest } = schema
    const plain = definition({ ...rest, properties: { spec: { type: 'object' } } })
    const without = JSON.parse(
      JSON.stringify(plain).replaceAll('range', 'plain').replaceAll('Range', 'Plain'),
    ) as object
    t.same(await post(definitions, without), { code: 201, warning: '' })
  },
)
