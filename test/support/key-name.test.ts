import t from 'tap'
import { keyName, nameOfRest, restOfName } from '../../src/support/key-name.js'
import { seededRandom } from '../../src/support/random.js'

const latin1 = (text: string): string => Buffer.from(text).toString('latin1')

void t.test('a key has one spelling, readable where possible', (t) => {
  const table: readonly (readonly [key: string, name: string])[] = [
    ['checkout', 'checkout'],
    ['eu/checkout', 'eu:checkout'],
    ['a//b', 'a::b'],
    ['/a/', ':a:'],
    ['', '~'],
    ['.', '~2e'],
    ['..', '~2e~2e'],
    ['...', '...'],
    ['../a', '..:a'],
    ['web/10.0.0.1:80', 'web:10.0.0.1~3a80'],
    ['ann@example.com', 'ann@example.com'],
    ['-n', '~2dn'],
    ['a-n', 'a-n'],
    ['a%2Fb', 'a~252Fb'],
    ['~', '~7e'],
    ['a b', 'a~20b'],
    ['a\0\n', 'a~00~0a'],
    ['"\\\'', '~22~5c~27'],
    ['Zürich/☃/日本/😀', 'Zürich:☃:日本:😀'],
    ['\u202eabc\u200b\ufffd', '~e2~80~aeabc~e2~80~8b~ef~bf~bd'],
    ['\ufeffa', '~ef~bb~bfa'],
    ['\u{e0041}', '~f3~a0~81~81'],
  ]
  for (const [key, name] of table) {
    t.equal(nameOfRest(latin1(key)), name, JSON.stringify(key))
    t.equal(keyName(key), name)
    t.equal(restOfName(name), latin1(key), name)
  }
  t.equal(nameOfRest('a\xff'), 'a~ff', 'bytes that are not UTF-8')
  t.equal(nameOfRest(`${latin1('é')}\xff`), '~c3~a9~ff', 'and then all that are not ASCII')
  t.end()
})

void t.test('a text that spells no key has none', (t) => {
  for (const name of [
    ['', '.', '..', '/', 'a/b', 'a b', 'a%2Fb', '~4', '~41', 'a~', '~~', '~2E', 'a~2fb', '~2d~2d', '-a', '~c3~a9'],
    ['\u202e', '\ufffd', '\ud800', 'a\udc00', '~ff\u00e9', '~2ea'],
  ].flat()) {
    t.equal(restOfName(name), null, JSON.stringify(name))
  }
  t.end()
})

void t.test('any key can be recovered from its name, which every Kubernetes client accepts', (t) => {
  const seed = Number(process.env['SEED'] ?? 20_260_901)
  const random = seededRandom(seed)
  const below = (count: number): number => Math.floor(random.next() * count)
  const pieces = [
    '/',
    '//',
    '%',
    '%2F',
    '.',
    '..',
    ':',
    '~',
    '~2f',
    '-',
    ' ',
    'é',
    'e\u0301',
    '😀',
    '\0',
    '\u2028',
    'a',
    '9',
  ]
  const names = new Map<string, string>()
  for (let i = 0; i < 20_000; i++) {
    let rest = ''
    for (let n = below(7); n > 0; n--) {
      rest += random.next() < 0.3 ? String.fromCharCode(below(256)) : latin1(pieces[below(pieces.length)]!)
    }
    const name = nameOfRest(rest)
    const shown = JSON.stringify({ seed, rest, name })
    if (restOfName(name) !== rest) t.fail(`does not come back: ${shown}`)
    // What client-go and kubectl reject, and what a request path or a terminal would change.
    if (name === '' || name === '.' || name === '..' || /[/%\s\0\ufffd]|^-/u.test(name))
      t.fail(`is not a name: ${shown}`)
    if (decodeURIComponent(encodeURIComponent(name)) !== name) t.fail(`changes on its way: ${shown}`)
    const other = names.get(name) ?? rest
    if (other !== rest) t.fail(`is also the name of ${JSON.stringify(other)}: ${shown}`)
    names.set(name, rest)
  }
  // The converse: a valid name is the name of exactly one key.
  const parts = [':', '~', '~2f', '~3a', '~7e', '~41', 'a', '-', '.', 'é', '~c3', '~a9', '~ff']
  for (let i = 0; i < 20_000; i++) {
    let name = ''
    for (let n = below(5); n >= 0; n--) name += parts[below(parts.length)]!
    const rest = restOfName(name)
    if (rest !== null && nameOfRest(rest) !== name)
      t.fail(`is not the name of its key: ${JSON.stringify({ seed, name })}`)
  }
  t.end()
})
