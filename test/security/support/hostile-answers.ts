/** Answers that HTTP does not allow, or that real servers rarely send. */

export const OK = 'HTTP/1.1 200 OK\r\n'
export const EMPTY = 'Content-Length: 0\r\n\r\n'

/** Whole answers, by what is wrong with them. */
export const ANSWERS: Readonly<Record<string, string>> = {
  'a status above 599': `HTTP/1.1 700 Odd\r\n${EMPTY}`,
  'a status of 999': `HTTP/1.1 999 Odd\r\n${EMPTY}`,
  'a status below 100': `HTTP/1.1 099 Odd\r\n${EMPTY}`,
  'a status of four digits': `HTTP/1.1 2000 Odd\r\n${EMPTY}`,
  'no status': `HTTP/1.1 OK\r\n${EMPTY}`,
  'an upgrade that nobody asked for':
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nx',
  'informational answers': `${'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'.repeat(1_000)}${OK}${EMPTY}`,
  'two content types': `${OK}Content-Type: a/b\r\nContent-Type: c/d\r\n${EMPTY}`,
  'two locations': `HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: /b\r\n${EMPTY}`,
  'two lengths': `${OK}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`,
  'a length and chunks': `${OK}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  'headers of the connection': `${OK}Connection: x-one, close\r\nX-One: 1\r\nKeep-Alive: timeout=1\r\nHTTP2-Settings: AA\r\nTE: gzip\r\n${EMPTY}`,
  'a connection header without a value': `${OK}Connection:\r\nTransfer-Encoding: identity\r\n${EMPTY}`,
  'bytes above 127': `${OK}X-Odd: \xe9\xff\r\n${EMPTY}`,
  'a control character': `${OK}X-Odd: a\x01b\r\n${EMPTY}`,
  'a name with a colon': `${OK}:status: 500\r\n${EMPTY}`,
  'a name that objects inherit': `${OK}__proto__: 1\r\nconstructor: 2\r\n__proto__: 3\r\n${EMPTY}`,
  'many headers': `${OK}${'X-A: b\r\n'.repeat(1_500)}${EMPTY}`,
  'a header of 1 MB': `${OK}X-A: ${'b'.repeat(2 ** 20)}\r\n${EMPTY}`,
  'fewer bytes than announced': `${OK}Content-Length: 10\r\n\r\nabc`,
  'more bytes than announced': `${OK}Content-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen`,
  'a body for 204': 'HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\nstolen',
  'a body for 304': 'HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nstolen\r\n0\r\n\r\n',
  'a chunk of a negative size': `${OK}Transfer-Encoding: chunked\r\n\r\n-1\r\nabc`,
  'a chunk of 2^63 bytes': `${OK}Transfer-Encoding: chunked\r\n\r\n8000000000000000\r\nabc`,
  'trailers that frame': `${OK}Transfer-Encoding: chunked\r\nTrailer: x, content-length\r\n\r\n3\r\nabc\r\n0\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\nConnection: close\r\nx: y\r\n\r\n`,
  'trailers that objects inherit': `${OK}Transfer-Encoding: chunked\r\nTrailer: x\r\n\r\n0\r\n__proto__: a\r\nx: \xff\r\n:path: /\r\n\r\n`,
  'trailers of 1 MB': `${OK}Transfer-Encoding: chunked\r\nTrailer: x\r\n\r\n0\r\nx: ${'y'.repeat(2 ** 20)}\r\n\r\n`,
  'another protocol': 'SSH-2.0-OpenSSH_9.9\r\n',
  TLS: '\x15\x03\x01\x00\x02\x02\x28',
  nothing: '',
}
