/** HTTP/1.1 requests that no honest client sends, each with its aim. Random ones depend only on the seed. */
import { gzipSync } from 'node:zlib'
import { type Random, randomInteger } from '../../../src/support/random.js'
import { BAIT, TOKENS } from './stage.js'

export interface Attack {
  readonly name: string
  readonly parts: readonly (Buffer | string)[]
  /** The only answers allowed; default: any but the loot and a 5xx. */
  readonly only?: readonly number[]
}

export const LOW = `Authorization: Bearer ${TOKENS.low}`
const OPEN = '/api/v1/namespaces/open/pods'
const CLOSED = '/api/v1/namespaces/closed/pods'

export const get = (path: string, ...lines: string[]): string =>
  [`GET ${path} HTTP/1.1`, 'Host: localhost', ...lines, '', ''].join('\r\n')

function pick<T>(random: Random, from: readonly T[]): T {
  return from[randomInteger(random, 0, from.length - 1)] as T
}

/** Spellings of a path that a parser with other rules would take for the closed namespace. */
export function pathSpellings(random: Random, count: number): string[] {
  const fixed = [
    '/api/v1/namespaces/open/../closed/pods',
    '/api/v1/namespaces/open/%2e%2e/closed/pods',
    '/api/v1/namespaces/open/.%2E/closed/pods',
    '/api/v1/namespaces/open%2f..%2fclosed/pods',
    '/api/v1/namespaces/open%252f..%252fclosed/pods',
    '/api/v1/namespaces/open/%c0%ae%c0%ae/closed/pods',
    '/api/v1/namespaces/open/pods/..%2f..%2fclosed%2fpods%2fp1',
    '/api/v1/namespaces/open/pods/%2e%2e%2f%2e%2e%2fclosed',
    '/api/v1/namespaces/open\\..\\closed/pods',
    '/api/v1/namespaces/open;/../closed/pods',
    '/api/v1//namespaces/closed/pods',
    '//api/v1/namespaces/closed/pods',
    '/API/v1/namespaces/closed/pods',
    '/api/V1/Namespaces/closed/Pods',
    '/api/v1/namespaces/CLOSED/pods',
    '/api/v1/namespaces/closed%00/pods',
    '/api/v1/namespaces/%00closed/pods',
    '/api/v1/namespaces/closed/pods%00',
    '/api/v1/namespaces/closed/pods/p1%00',
    '/api/v1/namespaces/%63losed/pods',
    '/api/v1/namespaces/%2563losed/pods',
    '/api/v1/namespaces/closed/pods/',
    '/api/v1/namespaces/closed/pods/p1/',
    '/api/v1/namespaces//pods',
    '/api/v1/pods',
    '/api/v1/pods/?fieldSelector=metadata.namespace%3Dopen',
    '/api/v1/pods?fieldSelector=metadata.namespace%3Dopen&namespace=open',
    '/api/v1/watch/pods',
    '/api/v1/watch/namespaces/closed/pods',
    '/api/v1/watch/namespaces/open/../closed/pods',
    '/api/v1/watch/watch/namespaces/closed/pods',
    '/api/v1/namespaces/open/configmaps',
    '/api/v1/namespaces/open/pods/../configmaps',
    '/api/v1/namespaces/open/pods%2f..%2fconfigmaps',
    '/apis//v1/namespaces/closed/pods',
    '/apis/%00/v1/namespaces/closed/pods',
    '/ui/../api/v1/namespaces/closed/pods',
    '/ui/%2e%2e/api/v1/namespaces/closed/pods',
    '/livez/../api/v1/namespaces/closed/pods',
    '/livez/%2e%2e%2fapi%2fv1%2fpods',
    '/openapi/v3/../../api/v1/namespaces/closed/pods',
    `${OPEN}?watch=1&timeoutSeconds=1&fieldSelector=metadata.namespace%3Dclosed`,
    `${OPEN}?labelSelector=__proto__%3Dconstructor`,
    `${OPEN}?__proto__[namespace]=closed&constructor=1`,
    `${OPEN}?continue=${Buffer.from('{"v":"meta.k8s.io/v1","rv":-1,"start":"../closed/p0\\u0000"}').toString('base64url')}`,
    `${OPEN}?limit=1&continue=${Buffer.from('{"v":"meta.k8s.io/v1","rv":-1,"start":"/../closed/"}').toString('base64url')}`,
    `${OPEN}?fields=metadata.__proto__,spec.constructor.prototype`,
    `http://localhost${CLOSED}`,
    `https://u:p@localhost${CLOSED}`,
    `http://localhost${OPEN}/../../closed/pods`,
    '*',
    `/${'a/'.repeat(8_000)}`,
    `${OPEN}?${'labelSelector=a%3Db&'.repeat(2_000)}`,
    `${OPEN}?labelSelector=${'('.repeat(10_000)}`,
    `${OPEN}?labelSelector=${encodeURIComponent(`a in (${'b,'.repeat(5_000)}b)`)}`,
    `${OPEN}?fieldSelector=${'a.'.repeat(15_000)}b%3D1`,
    `${OPEN}/${'%41'.repeat(15_000)}`,
  ]
  const noise = [
    '..',
    '%2e%2e',
    '.',
    '%2f',
    '%5c',
    '%00',
    '//',
    '/',
    ';',
    '%252e',
    '%c0%af',
    '\\',
    '%20',
    '+',
    '\u00e9',
  ]
  const random_ = Array.from({ length: count }, () => {
    const segments = ['api', 'v1', 'namespaces', pick(random, ['open', 'closed']), 'pods', pick(random, ['', 'p1'])]
    for (let n = randomInteger(random, 1, 4); n > 0; n--) {
      const at = randomInteger(random, 0, segments.length - 1)
      const how = randomInteger(random, 0, 3)
      if (how === 0) segments.splice(at, 0, pick(random, noise))
      else if (how === 1) segments[at] += pick(random, noise)
      else if (how === 2) segments.splice(at, 0, '..', pick(random, ['closed', '%63losed', 'pods']))
      else
        segments[at] = segments[at]!.replace(/./g, (c) =>
          random.next() < 0.4 ? `%${c.charCodeAt(0).toString(16)}` : c,
        )
    }
    return `/${segments.join('/')}`
  })
  return [...fixed, ...random_]
}

export function pathAttacks(random: Random, count: number): Attack[] {
  return pathSpellings(random, count).map((path) => ({ name: `path ${path.slice(0, 100)}`, parts: [get(path, LOW)] }))
}

/** Bytes that end in a request that would be answered with 200 if it were parsed as a request. */
const SMUGGLED = get(OPEN, LOW)
const post = (lines: readonly string[], body: string): string =>
  [`POST ${CLOSED} HTTP/1.1`, 'Host: localhost', ...lines, '', body].join('\r\n')
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`

/** The smuggled request is part of a body, or of something that is not HTTP, and must never be answered. */
export function smugglingAttacks(): Attack[] {
  const { length } = SMUGGLED
  const rows: readonly (readonly [string, string])[] = [
    ['CL and TE', post(['Content-Length: 4', 'Transfer-Encoding: chunked'], `0\r\n\r\n${SMUGGLED}`)],
    ['TE and CL', post(['Transfer-Encoding: chunked', `Content-Length: ${length + 5}`], `0\r\n\r\n${SMUGGLED}`)],
    ['TE chunked twice', post(['Transfer-Encoding: chunked', 'Transfer-Encoding: identity'], `0\r\n\r\n${SMUGGLED}`)],
    ['TE chunked, identity', post(['Transfer-Encoding: chunked, identity'], `0\r\n\r\n${SMUGGLED}`)],
    ['TE xchunked', post(['Transfer-Encoding: xchunked'], `0\r\n\r\n${SMUGGLED}`)],
    ['TE with a vertical tab', post(['Transfer-Encoding: \x0bchunked', 'Content-Length: 5'], `0\r\n\r\n${SMUGGLED}`)],
    [
      'TE with a space before the colon',
      post(['Transfer-Encoding : chunked', 'Content-Length: 5'], `0\r\n\r\n${SMUGGLED}`),
    ],
    ['TE folded', post(['Transfer-Encoding:', ' chunked', 'Content-Length: 5'], `0\r\n\r\n${SMUGGLED}`)],
    ['TE in a fold of another', post(['X: a', '\tTransfer-Encoding: chunked', `Content-Length: ${length}`], SMUGGLED)],
    [
      'TE in HTTP/1.0',
      post(['Transfer-Encoding: chunked', `Content-Length: ${length}`], SMUGGLED).replace('1.1', '1.0'),
    ],
    ['two lengths', post(['Content-Length: 0', `Content-Length: ${length}`], SMUGGLED)],
    ['a list of lengths', post([`Content-Length: 0, ${length}`], SMUGGLED)],
    ['a signed length', post([`Content-Length: +${length}`], SMUGGLED)],
    ['a negative length', post(['Content-Length: -1'], SMUGGLED)],
    ['a hexadecimal length', post([`Content-Length: 0x${length.toString(16)}`], SMUGGLED)],
    ['a length beyond 2^64', post([`Content-Length: 18446744073709551616`], SMUGGLED)],
    ['a length with a space', post([`Content-Length: ${length} 1`], SMUGGLED)],
    ['a body as announced', post([`Content-Length: ${length}`], SMUGGLED)],
    ['a chunk as announced', post(['Transfer-Encoding: chunked'], `${chunk(SMUGGLED)}0\r\n\r\n`)],
    [
      'a chunk extension',
      post(['Transfer-Encoding: chunked'], `${length.toString(16)};a="\r\n${SMUGGLED}\r\n0\r\n\r\n`),
    ],
    ['a chunk extension with LF', post(['Transfer-Encoding: chunked'], `2;\nxx\r\n${chunk(SMUGGLED)}0\r\n\r\n`)],
    ['a chunk size with 0x', post(['Transfer-Encoding: chunked'], `0x0\r\n\r\n${SMUGGLED}`)],
    ['a chunk size with a sign', post(['Transfer-Encoding: chunked'], `-0\r\n\r\n${SMUGGLED}`)],
    ['a chunk size that overflows', post(['Transfer-Encoding: chunked'], `10000000000000000\r\n\r\n${SMUGGLED}`)],
    ['a chunk size and LF alone', post(['Transfer-Encoding: chunked'], `0\n\n${SMUGGLED}`)],
    ['a chunk without its CRLF', post(['Transfer-Encoding: chunked'], `1\r\naXX0\r\n\r\n${SMUGGLED}`)],
    ['lines that end in LF alone', post([`X: a\n\n${SMUGGLED}`], '')],
    ['lines that end in CR alone', post([`X: a\r\r${SMUGGLED.replaceAll('\r\n', '\r')}`], '')],
    ['a header with NUL', post([`X: a\0`, 'Content-Length: 0'], SMUGGLED)],
    ['a space in a header name', post([`Content Length: ${length}`], SMUGGLED)],
    ['an empty header name', post([': x'], SMUGGLED)],
    ['no version', `GET ${CLOSED}\r\n${SMUGGLED}`],
    ['HTTP/0.9', `GET ${CLOSED} HTTP/0.9\r\n\r\n${SMUGGLED}`],
    ['HTTP/1.10', `GET ${CLOSED} HTTP/1.10\r\nHost: a\r\n\r\n${SMUGGLED}`],
    ['a tab in the request line', `GET\t${CLOSED}\tHTTP/1.1\r\nHost: a\r\n\r\n${SMUGGLED}`],
    ['CONNECT', `CONNECT localhost:443 HTTP/1.1\r\nHost: a\r\n\r\n${SMUGGLED}`],
    ['an upgrade to h2c', get(CLOSED, 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABk') + SMUGGLED], // prettier-ignore
    ['an upgrade to something', get(CLOSED, 'Connection: Upgrade', 'Upgrade: x') + SMUGGLED],
  ]
  return rows.map(([name, text]) => ({
    name: `smuggling: ${name}`,
    parts: [text],
    only: [400, 401, 403, 404, 405, 408, 413, 426, 431, 501, 505],
  }))
}

export function headerAttacks(random: Random): Attack[] {
  const duplicates = Array.from({ length: 5_000 }, (_, i) => `X-${i}: ${i}`)
  const rows: readonly (readonly [string, string, (readonly number[])?])[] = [
    ['huge', get(OPEN, LOW, `X: ${'y'.repeat(200_000)}`), [431]],
    ['five thousand', get(OPEN, LOW, ...duplicates), [200, 431]],
    ['a name of 60 KB', get(OPEN, LOW, `${'x'.repeat(60_000)}: 1`), [200]],
    ['no Host', `GET ${OPEN} HTTP/1.1\r\n${LOW}\r\n\r\n`, [400]],
    ['two Hosts', get(OPEN, LOW, 'Host: other'), [400]],
    ['two equal Hosts', get(OPEN, LOW, 'Host: localhost'), [400]],
    ['a second Host that is empty', get(OPEN, LOW, 'Host:'), [400]],
    ['a Host that is none', `GET ${OPEN} HTTP/1.1\r\nHost: a b/../@\r\n${LOW}\r\n\r\n`],
    ['folded', get(OPEN, 'X: a', `\t${LOW}`), [400]],
    ['folded credentials', get(OPEN, 'Authorization: Bearer', ` ${TOKENS.low}`), [400]],
    ['X-Remote-User', get(CLOSED, 'X-Remote-User: admin', 'X-Remote-Group: system:masters'), [401]],
    ['Impersonate-User', get(CLOSED, LOW, 'Impersonate-User: admin', 'Impersonate-Group: system:masters'), [403]],
    ['X-Original-URL', get(OPEN, LOW, `X-Original-URL: ${CLOSED}`, `X-Rewrite-URL: ${CLOSED}`)],
    ['X-HTTP-Method-Override', get(CLOSED, LOW, 'X-HTTP-Method-Override: OPTIONS'), [403]],
    ['X-Forwarded-For', get(CLOSED, 'X-Forwarded-For: 127.0.0.1', 'X-Forwarded-User: admin'), [401]],
    ['a foreign Origin', get(CLOSED, 'Origin: https://evil.example'), [401]],
    ['a preflight', `OPTIONS ${CLOSED} HTTP/1.1\r\nHost: a\r\nOrigin: https://evil.example\r\nAccess-Control-Request-Method: GET\r\n\r\n`, [204, 401, 403, 404, 405]], // prettier-ignore
    ['HEAD', get(CLOSED, LOW).replace('GET', 'HEAD'), [403]],
    ['a range', get(OPEN, LOW, 'Range: bytes=0-0,1-1,2-2')],
    ['Accept of many clauses', get(OPEN, LOW, `Accept: ${'a/b;q=0.1,'.repeat(5_000)}*/*`)],
    ['Accept-Encoding of many', get(OPEN, LOW, `Accept-Encoding: ${'gzip;q=0.1,'.repeat(5_000)}br`)],
    ['Last-Event-ID', get(`${OPEN}?watch=1&timeoutSeconds=1`, LOW, 'Accept: text/event-stream', 'Last-Event-ID: 9e99')],
    // Over TLS, Node's parser gives up on a long pipeline whose answers it cannot send: it answers 400 and closes the
    // connection.
    ['many pipelined', get(CLOSED, LOW).repeat(randomInteger(random, 200, 600)), [400, 403]],
  ]
  return rows.map(([name, text, only]) => ({
    name: `header: ${name}`,
    parts: [text],
    ...(only === undefined ? {} : { only }),
  }))
}

/** Bodies that are small when compressed and large when not, endless, or longer than announced. */
export function bodyAttacks(): Attack[] {
  const bomb = gzipSync(Buffer.alloc(64 * 2 ** 20))
  const lines = (encoding: string, length: number, credentials: string) =>
    [
      `POST ${OPEN} HTTP/1.1`,
      'Host: localhost',
      credentials,
      'Content-Type: application/json',
      `Content-Encoding: ${encoding}`,
      `Content-Length: ${length}`,
      '',
      '',
    ].join('\r\n')
  const only = [400, 401, 403, 405, 413, 415]
  return [
    ...[LOW, 'X: nobody'].flatMap((credentials) =>
      Array.from({ length: 10 }, () => ({
        name: 'body: a gzip bomb',
        parts: [lines('gzip', bomb.length, credentials), bomb],
        only,
      })),
    ),
    { name: 'body: gzip in gzip', parts: [lines('gzip, gzip', 1_000, LOW), gzipSync(bomb).subarray(0, 1_000)], only },
    { name: 'body: 1 TB announced', parts: [lines('identity', 2 ** 40, LOW), Buffer.alloc(2 ** 20)], only },
    {
      name: 'body: deep JSON',
      parts: [lines('identity', 2_000_000, LOW), Buffer.from('['.repeat(2_000_000))],
      only,
    },
    {
      name: 'body: __proto__',
      parts: [lines('identity', 60, LOW), '{"__proto__":{"namespace":"closed"},"constructor":{"a":1}}   '],
      only,
    },
  ]
}

/** WebSockets: bad handshakes, misplaced tokens, malformed frames. */
export function webSocketAttacks(): Attack[] {
  const base64 = (text: string): string => Buffer.from(text).toString('base64url')
  const upgrade = (path: string, protocols: string, ...more: string[]): string =>
    get(
      path,
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
      ...(protocols === '' ? [] : [`Sec-WebSocket-Protocol: ${protocols}`]),
      ...more,
    )
  const bearer = (token: string): string => `base64url.bearer.authorization.k8s.io.${base64(token)}`
  const watch = `${OPEN}?watch=1&timeoutSeconds=1`
  const good = upgrade(watch, `${bearer(TOKENS.low)}, v1`)
  const closed = `${CLOSED}?watch=1&timeoutSeconds=1`
  return [
    { name: 'WebSocket: no right', parts: [upgrade(closed, `${bearer(TOKENS.low)}, v1`)], only: [403] },
    { name: 'WebSocket: no token', parts: [upgrade(closed, '')], only: [401] },
    { name: 'WebSocket: a wrong token', parts: [upgrade(watch, `${bearer(BAIT)}, v1`)], only: [401] },
    { name: 'WebSocket: two tokens', parts: [upgrade(watch, `${bearer(TOKENS.low)}, ${bearer(BAIT)}`)], only: [401] },
    { name: 'WebSocket: two kinds of token', parts: [upgrade(watch, bearer(TOKENS.low), LOW)], only: [401] },
    { name: 'WebSocket: a foreign page', parts: [upgrade(watch, bearer(TOKENS.low), 'Origin: https://evil.example')], only: [403] }, // prettier-ignore
    { name: 'WebSocket: garbage', parts: [good, Buffer.alloc(5_000, 0xff)] },
    { name: 'WebSocket: a frame of 2^63 bytes', parts: [good, Buffer.from('82ff7fffffffffffffff00000000', 'hex')] },
    { name: 'WebSocket: no mask', parts: [good, Buffer.from('8105aaaaaaaaaa', 'hex')] },
    { name: 'WebSocket: a compressed frame', parts: [good, Buffer.from('c185000000000102030405', 'hex')] },
    {
      name: 'WebSocket: endless fragments',
      parts: [good, Buffer.from('018100000000aa008100000000aa'.repeat(2_000), 'hex')],
    },
    { name: 'WebSocket: pings', parts: [good, Buffer.from('898000000000'.repeat(20_000), 'hex')] },
  ]
}
