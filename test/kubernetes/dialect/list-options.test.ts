import t from 'tap'

import { encodeContinueToken } from '../../../src/kubernetes/dialect/continue-token.js'
import {
  isWatch,
  parseGetParameters,
  parseListParameters,
  parseWatchParameters,
} from '../../../src/kubernetes/dialect/list-options.js'
import { parseSelector } from '../../support/parse-selector.js'
import { shardTexts } from '../../support/shards.js'
import { wellKnownResources } from '../../../src/kubernetes/dialect/well-known-resources.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { BadRequestError } from '../../../src/kubernetes/model/status.js'

const query = (text: string): URLSearchParams => new URLSearchParams(text)
const five = toRevision(5)
const token = encodeContinueToken({ revision: toRevision(3), start: keyFromText('a\0') })
const freshToken = encodeContinueToken({ revision: null, start: keyFromText('a\0') })

void t.test('the resourceVersion of a get decides how fresh the answer is', async (t) => {
  t.strictSame(parseGetParameters(query('')).read, { kind: 'consistent' })
  t.strictSame(parseGetParameters(query('resourceVersion=')).read, { kind: 'consistent' })
  t.strictSame(parseGetParameters(query('resourceVersion=0')).read, { kind: 'cached' })
  t.strictSame(parseGetParameters(query('resourceVersion=5')).read, { kind: 'not-older-than', revision: five })
  t.throws(() => parseGetParameters(query('resourceVersion=x')), {
    constructor: BadRequestError,
    message: /^invalid resource version: /,
  })
})

void t.test('every combination of a list’s parameters is understood as in the API server', async (t) => {
  const exact = { kind: 'exact', revision: five }
  const notOlder = { kind: 'not-older-than', revision: five }
  const table: [string, object, number | null][] = [
    ['', { kind: 'consistent' }, null],
    ['limit=2', { kind: 'consistent' }, 2],
    ['limit=0', { kind: 'consistent' }, null],
    ['limit=-1', { kind: 'consistent' }, null],
    ['resourceVersion=0', { kind: 'cached' }, null],
    ['resourceVersion=0&limit=2', { kind: 'cached' }, null],
    ['resourceVersion=5', notOlder, null],
    ['resourceVersion=5&limit=2', exact, 2],
    ['resourceVersion=5&limit=0', notOlder, null],
    ['resourceVersion=0&resourceVersionMatch=NotOlderThan', { kind: 'cached' }, null],
    ['resourceVersion=5&resourceVersionMatch=NotOlderThan', notOlder, null],
    ['resourceVersion=5&resourceVersionMatch=NotOlderThan&limit=2', notOlder, 2],
    ['resourceVersion=5&resourceVersionMatch=Exact', exact, null],
    ['resourceVersion=5&resourceVersionMatch=Exact&limit=2', exact, 2],
    [`continue=${token}`, { kind: 'continue', revision: 3, start: 'a\0' }, null],
    [`continue=${token}&limit=2&resourceVersion=0`, { kind: 'continue', revision: 3, start: 'a\0' }, 2],
    [`continue=${freshToken}`, { kind: 'continue', revision: null, start: 'a\0' }, null],
    ['resourceVersionMatch=&continue=', { kind: 'consistent' }, null],
    ['resourceVersion=5&resourceVersion=7', notOlder, null],
    ['resourceVersion=00', { kind: 'cached' }, null],
    ['resourceVersion=05', notOlder, null],
    [
      'resourceVersion=9223372036854775808',
      { kind: 'not-older-than', revision: toRevision(Number.MAX_SAFE_INTEGER) },
      null,
    ],
    ['nonsense=1&watch=0', { kind: 'consistent' }, null],
  ]
  for (const [text, read, limit] of table) {
    const options = parseListParameters(query(text))
    t.strictSame(options.read, read, text)
    t.equal(options.limit, limit, text)
  }
})

void t.test('forbidden combinations for a list are rejected with 422 and the API server’s causes', async (t) => {
  const table: [string, [string, RegExp][]][] = [
    ['resourceVersionMatch=Exact', [['resourceVersionMatch', /forbidden unless resourceVersion is provided/]]],
    ['resourceVersionMatch=NotOlderThan', [['resourceVersionMatch', /forbidden unless resourceVersion is provided/]]],
    ['resourceVersion=0&resourceVersionMatch=Exact', [['resourceVersionMatch', /"exact" is forbidden for/]]],
    [
      'resourceVersion=5&resourceVersionMatch=X',
      [['resourceVersionMatch', /^Unsupported value: "X": supported values: "Exact", "NotOlderThan", ""$/]],
    ],
    [
      `continue=${token}&resourceVersionMatch=Exact`,
      [
        ['resourceVersionMatch', /unless resourceVersion is provided/],
        ['resourceVersionMatch', /forbidden when continue is provided/],
      ],
    ],
    ['sendInitialEvents=true', [['sendInitialEvents', /forbidden for list/]]],
    ['sendInitialEvents=false', [['sendInitialEvents', /forbidden for list/]]],
  ]
  for (const [text, causes] of table) {
    t.throws(
      () => parseListParameters(query(text)),
      {
        name: 'InvalidError',
        code: 422,
        reason: 'Invalid',
        details: {
          kind: 'ListOptions',
          group: 'meta.k8s.io',
          causes: causes.map(([field, message]) => ({ field, message })),
        },
      },
      text,
    )
  }
  try {
    parseListParameters(query('sendInitialEvents=1'))
  } catch (error) {
    t.equal(
      (error as Error).message,
      'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list',
    )
  }
})

void t.test('malformed parameters of a list are rejected with 400', async (t) => {
  const table: [string, RegExp][] = [
    ['limit=x', /^limit: strconv.ParseInt: parsing "x": invalid syntax$/],
    ['limit=', /parsing "": invalid syntax/],
    ['limit=1e3', /invalid syntax/],
    ['limit=99999999999999999999', /value out of range/],
    ['resourceVersion=-1', /^invalid resource version: /],
    ['resourceVersion=5.0', /^invalid resource version: /],
    ['resourceVersion=18446744073709551616', /^invalid resource version: /],
    ['timeoutSeconds=abc', /strconv.ParseInt: parsing "abc": invalid syntax$/],
    ['labelSelector=a%2Fb%2Fc%3Dd&timeoutSeconds=abc', /^timeoutSeconds: strconv.ParseInt/],
    [`resourceVersion=5&continue=${token}`, /specifying resource version is not allowed when using continue/],
    ['continue=%21', /^invalid continue token: /],
    ['labelSelector=a%3D%3D%3D', /unable to parse requirement/],
    ['fieldSelector=x', /can't understand/],
    ['fields=a[0]', /fields: "a\[0\]" is not a path/],
  ]
  for (const [text, message] of table) {
    t.throws(() => parseListParameters(query(text)), { constructor: BadRequestError, message }, text)
  }
})

void t.test('the parameters of a watch decide where it starts', async (t) => {
  const initial = (freshness: object, endBookmark = false): object => ({
    kind: 'initial-state',
    freshness,
    endBookmark,
  })
  const consistent = { kind: 'consistent' }
  const cached = { kind: 'cached' }
  const notOlder = { kind: 'not-older-than', revision: five }
  const send = 'resourceVersionMatch=NotOlderThan&sendInitialEvents'
  const table: [string, object][] = [
    ['', initial(consistent)],
    ['allowWatchBookmarks=1', initial(consistent, true)],
    ['resourceVersion=0', initial(cached)],
    ['resourceVersion=0&allowWatchBookmarks=true', initial(cached, true)],
    ['resourceVersion=5', { kind: 'after', revision: 5 }],
    [`${send}=true`, initial(consistent)],
    [`${send}=true&resourceVersion=0`, initial(cached)],
    [`${send}=true&resourceVersion=5&allowWatchBookmarks=`, initial(notOlder, true)],
    [`${send}=false`, { kind: 'now', freshness: consistent }],
    [`${send}=0&resourceVersion=0`, { kind: 'now', freshness: cached }],
    [`${send}=FALSE&resourceVersion=5`, { kind: 'after', revision: 5 }],
  ]
  for (const [text, start] of table) t.strictSame(parseWatchParameters(query(text)).start, start, text)
})

void t.test('forbidden combinations for a watch are rejected with 422', async (t) => {
  const table: [string, RegExp[]][] = [
    ['sendInitialEvents=true', [/requires setting resourceVersionMatch to NotOlderThan/]],
    ['sendInitialEvents=false&resourceVersion=5', [/requires setting resourceVersionMatch/]],
    [
      'sendInitialEvents=true&resourceVersionMatch=Exact',
      [/requires setting resourceVersionMatch/, /Unsupported value: "Exact": supported values: "NotOlderThan"$/],
    ],
    [
      'resourceVersionMatch=NotOlderThan&resourceVersion=5',
      [/forbidden for watch unless sendInitialEvents is provided/],
    ],
    ['resourceVersionMatch=Exact', [/unless sendInitialEvents/, /Unsupported value/]],
    [`continue=${token}`, [/forbidden when continue is provided/]],
  ]
  for (const [text, messages] of table) {
    t.throws(
      () => parseWatchParameters(query(text)),
      {
        name: 'InvalidError',
        details: { causes: messages.map((message) => ({ field: 'resourceVersionMatch', message })) },
      },
      text,
    )
  }
})

void t.test('timeout, bookmarks and compression of a watch are parsed, and malformed ones are rejected', async (t) => {
  const plain = parseWatchParameters(query('resourceVersion=5'))
  t.match(plain, {
    bookmarks: false,
    timeoutSeconds: null,
    compress: false,
    projection: null,
    includeObject: '',
  })
  const all = 'allowWatchBookmarks=true&timeoutSeconds=9&compress=gzip&fields=spec&includeObject=None&labelSelector=a'
  t.match(parseWatchParameters(query(all)), {
    bookmarks: true,
    timeoutSeconds: 9,
    compress: true,
    projection: { canonical: 'spec' },
    includeObject: 'None',
    selector: { canonical: parseSelector('a', '').canonical },
  })
  t.equal(parseWatchParameters(query('timeoutSeconds=0')).timeoutSeconds, null)
  t.equal(parseWatchParameters(query('timeoutSeconds=9007199254740991')).timeoutSeconds, 2_147_483, 'fits a timer')
  for (const text of ['timeoutSeconds=x', 'timeoutSeconds=-1', 'compress=br', 'resourceVersion=x', 'limit=x']) {
    t.throws(() => parseWatchParameters(query(text)), { code: 400, name: 'BadRequestError' }, text)
  }
})

void t.test('the Last-Event-ID of a watch takes precedence over the URL', async (t) => {
  const resume = { kind: 'after', revision: 5 }
  t.strictSame(parseWatchParameters(query('resourceVersion=3'), { lastEventId: '5' }).start, resume)
  t.strictSame(parseWatchParameters(query(''), { lastEventId: '5' }).start, resume)
  t.match(
    parseWatchParameters(query(''), { lastEventId: '' }).start,
    { kind: 'initial-state' },
    'an empty one starts afresh',
  )
  t.throws(() => parseWatchParameters(query(''), { lastEventId: 'x' }), { code: 400, name: 'BadRequestError' })
})

void t.test('a name in the path is a field selector, and must not contradict one', async (t) => {
  const named = (labels: string, fields: string): ReturnType<typeof parseSelector> => {
    const selectors = new URLSearchParams({ labelSelector: labels, fieldSelector: fields }).toString()
    return parseWatchParameters(query(`resourceVersion=5&${selectors}`), { name: 'x' }).selector
  }
  t.equal(named('a', '').canonical, parseSelector('a', 'metadata.name=x').canonical)
  const both = 'metadata.name=x,b=1'
  t.equal(named('', both).canonical, parseSelector('', both).canonical)
  for (const text of ['metadata.name=y', 'metadata.name!=x', 'spec.nodeName=n']) {
    t.throws(() => named('', text), {
      constructor: BadRequestError,
      message: "fieldSelector metadata.name doesn't match requested name",
    })
  }
  t.equal(parseWatchParameters(query('resourceVersion=5'), { name: 'x' }).selector.requiredValue('metadata.name'), 'x')
})

void t.test('the watch parameter is parsed as Go parses a flag', async (t) => {
  for (const text of ['watch=1', 'watch=true', 'watch=', 'watch', 'watch=yes', 'watch=1&watch=0'])
    t.ok(isWatch(query(text)), text)
  for (const text of ['', 'watch=0', 'watch=false', 'watch=False', 'watch=0&watch=1', 'Watch=1'])
    t.notOk(isWatch(query(text)), text)
})

void t.test('parsed query objects are treated alike, whatever their prototype', async (t) => {
  t.ok(isWatch({ watch: ['1', '0'] }))
  t.ok(isWatch({ watch: 'true' }))
  t.notOk(isWatch({ watch: undefined }))
  t.notOk(isWatch({ watch: [] }))
  t.notOk(isWatch(Object.create({ watch: '1' }) as Record<string, string>))
})

void t.test('the old watch paths take the options of a list, as in the API server', async (t) => {
  const start = (text: string): object => parseWatchParameters(query(text), { legacyWatch: true }).start
  const state = { kind: 'initial-state', endBookmark: false }
  t.strictSame(start(''), { ...state, freshness: { kind: 'consistent' } })
  t.strictSame(start('resourceVersion=0&allowWatchBookmarks=1'), { ...state, freshness: { kind: 'cached' } })
  t.strictSame(start('resourceVersion=5&resourceVersionMatch=Exact'), { kind: 'after', revision: five })
  t.strictSame(
    start('watch=1&resourceVersion=0&allowWatchBookmarks=1'),
    { kind: 'initial-state', freshness: { kind: 'cached' }, endBookmark: true },
    'unless they say that they are a watch',
  )
  t.strictSame(
    parseWatchParameters(query('resourceVersion=00&allowWatchBookmarks=1')).start,
    { ...state, freshness: { kind: 'cached' } },
    'as does an odd zero',
  )
  for (const text of ['sendInitialEvents=true&resourceVersionMatch=NotOlderThan', 'resourceVersionMatch=Exact'])
    t.throws(() => start(text), { code: 422 }, text)
})

const pods = wellKnownResources().find(({ resource }) => resource.plural === 'pods')!.resource

void t.test('a list of one object has no pages, so a revision means "not older than"', async (t) => {
  const read = (text: string, namespace: string): object => {
    return parseListParameters(query(`limit=1&resourceVersion=5&fieldSelector=${text}`), { resource: pods, namespace })
      .read
  }
  const exact = { kind: 'exact', revision: five }
  const notOlder = { kind: 'not-older-than', revision: five }
  t.strictSame(read('metadata.name%3Da', 'default'), notOlder)
  t.strictSame(read('metadata.name%3Da,metadata.namespace%3Dx', ''), notOlder)
  t.strictSame(read('metadata.name%3Da', ''), exact, 'of several namespaces')
  t.strictSame(read('metadata.name!%3Da', 'default'), exact)
})

void t.test(
  '00 with a limit or read exactly means the current state in etcd, and has pages; for 0 there is one page',
  async (t) => {
    t.match(parseListParameters(query('limit=2&resourceVersion=00')), { read: { kind: 'consistent' }, limit: 2 })
    const match = (name: string) =>
      parseListParameters(query(`limit=2&resourceVersion=00&resourceVersionMatch=${name}`))
    t.match(match('Exact'), { read: { kind: 'consistent' }, limit: 2 })
    t.match(match('NotOlderThan'), { read: { kind: 'cached' }, limit: 2 })
    t.match(parseListParameters(query('limit=2&resourceVersion=0')), { read: { kind: 'cached' }, limit: null })
  },
)

void t.test('for events a limit counts for 0 too: the API server has no watch cache for them', async (t) => {
  const known = wellKnownResources().filter(({ resource: { plural } }) => plural === 'events' || plural === 'pods')
  t.equal(known.length, 3)
  for (const { resource } of known) {
    const { limit } = parseListParameters(query('limit=2&resourceVersion=0'), { resource })
    t.equal(limit, resource.plural === 'events' ? 2 : null, `${resource.plural}.${resource.group}`)
  }
})

void t.test('a shard is a part of the selector, and stays one when a name is added', async (t) => {
  const [low, high] = shardTexts(2) as [string, string]
  const selectorOf = (more: string, shard = low) =>
    parseListParameters(query(`${more}&shardSelector=${encodeURIComponent(shard)}`)).selector
  t.match(selectorOf(''), { isEmpty: false, hasTerms: false, shard: { text: low } })
  t.equal(new Set([selectorOf(''), selectorOf('', high), parseSelector('', '')].map((one) => one.canonical)).size, 3)
  const named = parseWatchParameters(query(`resourceVersion=5&shardSelector=${encodeURIComponent(low)}`), { name: 'x' })
  t.match(named.selector, { hasTerms: true, shard: { text: low } })
  t.match(selectorOf('labelSelector=a'), { hasTerms: true, shard: { text: low } })
  t.throws(() => selectorOf('fieldSelector=a', 'x'), { message: /^invalid field selector/ }, 'the shard comes last')
})
