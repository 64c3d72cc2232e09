/** PROTOCOL section 5: selectors. */
import t from 'tap'
import { pod } from '../support/pod.js'
import { type Row, checkRows, status } from './row.js'
import { overEveryUpstream } from './world.js'

const PODS = '/api/v1/pods'
const SEEDS = [
  {
    'pods/default/a': pod('a', { labels: { app: 'web', tier: '3' }, spec: { nodeName: 'n1', priority: 5 } }),
    'pods/default/b': pod('b', { labels: { app: 'db', tier: '12' }, spec: { nodeName: 'n2', hostNetwork: true } }),
    'pods/default/c': pod('c', { labels: { 'example.com/app': 'web', empty: '' }, status: { phase: 'Pending' } }),
    'pods/other/d': pod('d', { namespace: 'other', spec: { nodeName: 'a,b=c\\d' } }),
  },
]

/** Label selectors, each with the names that it selects. */
const LABELS: Readonly<Record<string, string>> = {
  '': 'abcd',
  'app=web': 'a',
  'app==web': 'a',
  ' app = web ': 'a',
  'app!=web': 'bcd',
  'app in (web,db)': 'ab',
  'app in (web, nobody)': 'a',
  'app notin (web)': 'bcd',
  app: 'ab',
  '!app': 'cd',
  'app,tier': 'ab',
  'app=web,tier>2': 'a',
  'tier>3': 'b',
  'tier<12': 'a',
  'example.com/app=web': 'c',
  'empty=': 'c',
  'app=web,app=db': '',
}

const FIELDS: Readonly<Record<string, string>> = {
  '': 'abcd',
  'metadata.name=a': 'a',
  'metadata.name==a': 'a',
  'metadata.name!=a': 'bcd',
  'metadata.namespace=other': 'd',
  'metadata.namespace=default,metadata.name=d': '',
  'spec.nodeName=n1': 'a',
  'spec.nodeName=': 'c',
  'spec.nodeName!=': 'abd',
  'spec.nodeName=a\\,b\\=c\\\\d': 'd',
  'status.phase=Pending': 'c',
  'status.phase!=Pending,metadata.namespace=default': 'ab',
  'spec.hostNetwork=true': 'b',
}

/** Field selectors for resources on which any scalar path can be selected. */
const ANY_FIELDS: Readonly<Record<string, string>> = {
  ...FIELDS,
  'spec.priority=5': 'a',
  'spec.nothing=': 'abcd',
  'spec.nothing=x': '',
  'metadata.labels.app=web': 'a',
}

const rowsOf = (parameter: string, table: Readonly<Record<string, string>>): readonly Row[] =>
  Object.entries(table).map(([selector, names]) => ({
    promise: `${parameter}=${selector} selects ${names === '' ? 'nothing' : names}`,
    path: `${PODS}?${parameter}=${encodeURIComponent(selector)}`,
    code: 200,
    names: Array.from(names),
  }))

const BAD_LABELS = [
  'a=b=c',
  'a in',
  'a in (',
  'a in (b',
  'in (b)',
  '!a=b',
  'a,,b',
  ',',
  'a b',
  '-a=b',
  'a=-b',
  'a>x',
  'a>1,a>',
  `a=${'x'.repeat(64)}`,
  '/a=b',
  'a/b/c=d',
  'Example.com/a=b',
  'a=b!',
  '(a)',
]
const BAD_FIELDS = ['a', 'a=b=c', 'a=\\', 'a=\\x', '!a', 'a,b=c', 'metadata.name>a', '=b', 'spec..x=1']
/** A typing error in a selector must not select everything. */
const UNKNOWN_FIELDS = [
  'spec.nodeNme!=x',
  'spec.priority=5',
  'metadata.labels.app=web',
  'metadata.uid=',
  'spec..x=1',
  'a b=',
]

overEveryUpstream(t, 'selectors', { seeds: SEEDS }, async (t, w) => {
  await checkRows(t, w, [
    ...rowsOf('labelSelector', LABELS),
    ...rowsOf('fieldSelector', FIELDS),
    ...BAD_LABELS.map((selector) => ({
      promise: `the labelSelector ${selector.slice(0, 20)} is 400`,
      path: `${PODS}?labelSelector=${encodeURIComponent(selector)}`,
      code: 400,
      has: status(400, 'BadRequest', /./),
    })),
    ...BAD_FIELDS.map((selector) => ({
      promise: `the fieldSelector ${selector} is 400`,
      path: `${PODS}?fieldSelector=${encodeURIComponent(selector)}`,
      code: 400,
      has: status(400, 'BadRequest', /./),
    })),
    ...UNKNOWN_FIELDS.map((selector) => {
      const [label = ''] = selector.split(/!?=/)
      return {
        promise: `a field that pods cannot be selected by, ${label}, is 400`,
        path: `${PODS}?fieldSelector=${encodeURIComponent(`metadata.name!=x,${selector}`)}`,
        code: 400,
        has: status(400, 'BadRequest', `field label not supported: ${label}`),
      }
    }),
    {
      promise: 'other options are validated before field labels',
      path: `${PODS}?fieldSelector=spec.nodeNme%3Dx&resourceVersionMatch=Exact`,
      code: 422,
      has: status(422, 'Invalid', /resourceVersionMatch is forbidden/),
    },
    {
      promise: 'the error of a bad selector names its position',
      path: `${PODS}?labelSelector=${encodeURIComponent('app=web,a in')}`,
      code: 400,
      has: status(400, 'BadRequest', /character 13/),
    },
    {
      promise: 'both selectors together',
      path: `${PODS}?labelSelector=app&fieldSelector=spec.nodeName%3Dn2`,
      code: 200,
      names: ['b'],
    },
    {
      promise: 'within a namespace',
      path: '/api/v1/namespaces/other/pods?fieldSelector=metadata.name%3Da',
      code: 200,
      names: [],
    },
  ])
})

overEveryUpstream(t, 'any field', { seeds: SEEDS, flags: ['--select-any-field'] }, async (t, w) => {
  await checkRows(t, w, rowsOf('fieldSelector', ANY_FIELDS))
})
