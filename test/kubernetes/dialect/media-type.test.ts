import t from 'tap'

import { acceptsGzip, bodyMediaType, parseAccept } from '../../../src/kubernetes/dialect/media-type.js'

void t.test('clauses are sorted by quality, then by breadth, then as written', async (t) => {
  const order = (header: string): string[] => parseAccept(header).map(({ type, subtype }) => `${type}/${subtype}`)
  t.strictSame(order('*/*, a/*, a/b, c/d'), ['a/b', 'c/d', 'a/*', '*/*'])
  t.strictSame(order('a/b;q=0.1, */*;q=0.9, c/d;q=0.9'), ['c/d', '*/*', 'a/b'])
  t.strictSame(order('a/b;q=2, c/d;q=-1, e/f'), ['a/b', 'c/d', 'e/f'], 'an invalid quality counts as 1')
  t.strictSame(order('a, /b, a/, a/b/c, a b/c, , e/f'), ['e/f'])
})

void t.test('quoted parameters may contain separators, and the first of a name counts', async (t) => {
  const [parsed] = parseAccept('a/B; X="1,;\\"2" ;y=3;y=4; z')
  t.strictSame(
    [parsed?.type, parsed?.subtype, [...parsed!.parameters]],
    [
      'a',
      'b',
      [
        ['x', '1,;"2'],
        ['y', '3'],
      ],
    ],
  )
  t.equal(parseAccept('a/b;x="1,2", c/d').length, 2)
})

void t.test('a body in an unknown media type is rejected with 415', async (t) => {
  const readable = ['application/json', 'application/yaml'] as const
  t.equal(bodyMediaType(undefined, readable), 'application/json')
  t.equal(bodyMediaType(' ', readable), 'application/json')
  t.equal(bodyMediaType('application/YAML; charset=utf-8', readable), 'application/yaml')
  for (const bad of [
    'text/plain',
    'application/json, application/yaml',
    'json',
    '*/*',
    `application/json;${'x'.repeat(9_000)}`,
  ]) {
    const message =
      'the body of the request was in an unknown format - accepted media types include: application/json, application/yaml'
    t.throws(
      () => bodyMediaType(bad, readable),
      { code: 415, reason: 'UnsupportedMediaType', message },
      bad.slice(0, 40),
    )
  }
})

void t.test('gzip is used only for clients that accept it', async (t) => {
  const cases: [string | undefined, boolean][] = [
    [undefined, false],
    ['', false],
    ['gzip', true],
    ['GZIP', true],
    ['x-gzip', true],
    ['deflate, gzip;q=0.5, br', true],
    ['gzip;q=0', false],
    ['gzip; Q=0.0', false],
    ['gzip;q=0, *', false],
    ['*, gzip;q=0', false],
    ['*', true],
    ['*;q=0', false],
    ['identity', false],
    ['br, deflate', false],
    ['gzipped', false],
  ]
  for (const [header, expected] of cases) t.equal(acceptsGzip(header), expected, String(header))
})
