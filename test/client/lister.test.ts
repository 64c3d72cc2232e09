import t from 'tap'
import { Indexer, type KubeObject, labelMatcher, type LabelSelectorObject, Lister } from '../../src/client/index.js'

const store = new Indexer<KubeObject>({ indexes: { namespace: ({ metadata }) => [metadata.namespace ?? ''] } })
for (const [key, labels] of [
  ['shop/cart-0', { app: 'cart', tier: 'web', build: '41' }],
  ['shop/cart-1', { app: 'cart', tier: 'db', build: '7' }],
  ['shop/none', undefined],
  ['lab/canary', { app: 'cart', canary: '' }],
] as const) {
  const [namespace = '', name = ''] = key.split('/')
  store.set(key, { metadata: { name, namespace, ...(labels === undefined ? {} : { labels }) } })
}
const lister = new Lister(store)
const names = (selector: string | LabelSelectorObject, namespace?: string): string =>
  lister
    .list({ selector, ...(namespace === undefined ? {} : { namespace }) })
    .map(({ metadata }) => metadata.name)
    .join(' ')

void t.test('a lister selects with the grammar of Kubernetes', (t) => {
  for (const [selector, expected] of [
    ['', 'cart-0 cart-1 none canary'],
    ['app=cart', 'cart-0 cart-1 canary'],
    ['app==cart,tier in (web, db)', 'cart-0 cart-1'],
    ['app,tier!=db', 'cart-0 canary'],
    ['tier notin (web)', 'cart-1 none canary'],
    ['!app', 'none'],
    ['canary', 'canary'],
    ['build>8', 'cart-0'],
    ['build<8', 'cart-1'],
    ['constructor', ''],
  ] as const) {
    t.equal(names(selector), expected, selector)
  }
  t.equal(names('app', 'lab'), 'canary')
  t.same(
    lister.list({ labels: { app: 'cart' }, selector: '!tier' }).map(({ metadata }) => metadata.name),
    ['canary'],
    'labels and a selector must both hold',
  )
  t.throws(() => names('app in web'), { message: /expected: '\('/ })
  t.end()
})

void t.test('a lister selects with matchLabels and matchExpressions', (t) => {
  const one = (key: string, operator: string, ...values: string[]): LabelSelectorObject => ({
    matchExpressions: [{ key, operator, ...(values.length === 0 ? {} : { values }) }],
  })
  t.equal(names({}), 'cart-0 cart-1 none canary')
  t.equal(names({ matchLabels: { app: 'cart', tier: 'db' } }), 'cart-1')
  t.equal(names({ matchLabels: { app: 'cart' }, ...one('tier', 'Exists') }), 'cart-0 cart-1')
  t.equal(names(one('tier', 'In', 'web', 'x')), 'cart-0')
  t.equal(names(one('tier', 'NotIn', 'web', 'x')), 'cart-1 none canary')
  t.equal(names(one('app', 'DoesNotExist')), 'none')
  for (const [selector, message] of [
    [one('app', 'Gt', '1'), /operator "Gt" is not one of In, NotIn, Exists, DoesNotExist/],
    [one('app', 'constructor'), /operator "constructor" is not one of/],
    [one('app', 'In'), /In of app takes at least one value/],
    [one('app', 'Exists', 'x'), /Exists of app takes no values/],
    [one('-app', 'Exists'), /matchExpressions: "-app"/],
    [{ matchLabels: { app: 'a b' } }, /matchLabels: "a b"/],
  ] as const) {
    t.throws(() => labelMatcher(selector), { message })
  }
  t.end()
})
