/** The bound on how deeply YAML may nest, which holds before anything recurses on it. */
import t from 'tap'
import { isMap, parseYaml, readYaml } from '../../src/support/yaml.js'

const TOO_DEEP = /nested more than 256 deep/

/** One more collection for each repetition. */
const NESTING: Readonly<Record<string, (levels: number) => string>> = {
  'flow sequences': (levels) => '['.repeat(levels),
  'flow sequences that are closed': (levels) => `${'['.repeat(levels)}${']'.repeat(levels)}`,
  'flow maps': (levels) => '{a: '.repeat(levels),
  'flow maps as keys': (levels) => '{? '.repeat(levels),
  'pairs in flow sequences': (levels) => '[a: '.repeat(levels),
  'explicit keys in flow sequences': (levels) => '[? '.repeat(levels),
  'flow sequences on lines of their own': (levels) => '[\n'.repeat(levels),
  'block sequences': (levels) => `${'- '.repeat(levels)}x`,
  'block sequences, indented': (levels) => Array.from({ length: levels }, (_, i) => `${' '.repeat(i)}-`).join('\n'),
  'block maps': (levels) => Array.from({ length: levels }, (_, i) => `${' '.repeat(i)}a:`).join('\n'),
  'explicit keys': (levels) => `${'? '.repeat(levels)}x`,
}

for (const [name, nested] of Object.entries(NESTING)) {
  void t.test(`yaml - ${name} nest to a depth of 256 and no further`, async (t) => {
    t.doesNotThrow(() => parseYaml(nested(256), { uniqueKeys: false }))
    t.notOk(parseYaml(nested(256), { uniqueKeys: false }).document.errors.some(({ message }) => TOO_DEEP.test(message)))
    for (const levels of [258, 6_000, 100_000]) {
      // Each level of a block stands on a line that is longer than the one before.
      if (levels > 6_000 && nested(10).includes('\n ')) continue
      t.throws(() => readYaml(nested(levels)), TOO_DEEP, `${levels} levels`)
      t.throws(() => readYaml(`a: 1\n---\n${nested(levels)}`), SyntaxError, `${levels} levels in a second document`)
    }
  })
}

void t.test('yaml - brackets in texts and comments do not count', async (t) => {
  const brackets = '[{? '.repeat(250_000)
  const indented = `  ${brackets}\n`
  for (const [name, text] of Object.entries({
    'double quotes': `a: "${brackets}"`,
    'single quotes': `a: '${brackets}'`,
    'a plain text': `a: x${brackets.replaceAll('? ', '')}`,
    'a literal block': `a: |\n${indented}`,
    'a folded block': `a: >-\n${indented}`,
    'a key': `"${brackets.slice(0, 1_000)}": 1`,
  })) {
    const { document } = parseYaml(text, { uniqueKeys: true })
    t.same(document.errors, [], name)
    t.ok(isMap(document.contents))
  }
  t.same(readYaml(`a: 1 # ${brackets}`), { a: 1 }, 'a comment')
})

void t.test('yaml - one document, and an error names its place', async (t) => {
  t.throws(() => readYaml('a: 1\n---\nb: 2\n'), /^it holds more than one document at line 2, column 1$/)
  t.throws(() => readYaml('a: 1\nb: [\n'), /at line 3, column 1$/)
  t.throws(() => readYaml(`a: ${'['.repeat(300)}`), /^it is nested more than 256 deep at line 1, column 2[56]\d$/)
  t.equal(readYaml(''), null)
  t.equal(readYaml('# nothing\n'), null)
})

/** A megabyte of each, in which a composer that goes on would find one error, warning or comparison after another. */
const LONG: Readonly<Record<string, readonly [unit: string, outcome: RegExp | null]>> = {
  'tags of sequences': ['- &a !!seq ', /Missing newline after block sequence props/],
  anchors: ['&a ', /at most one anchor/],
  'tags of one value': ['!a ', /at most one tag/],
  'unresolved tags': ['- !a x\n', null],
  'anchors of maps': ['&a !!map ', /at most one/],
  commas: [',', /cannot start with flow indicator/],
  'closing brackets': ['] ', /Unexpected flow-seq-end/],
  'what starts no scalar': ['- @\n', /cannot start with reserved character @/],
  'ends of documents': ['...\n', /more than one document/],
  documents: ['--- a\n', /more than one document/],
  aliases: ['- &a 1\n- *a\n', /more than 100 aliases/],
  'merge keys': ['- &a {}\n- <<: *a\n', /more than 100 aliases/],
  comments: ['# c\n', null],
  'lines of one value': ['word\n ', null],
}

for (const [name, [unit, outcome]] of Object.entries(LONG)) {
  void t.test(`yaml - a megabyte of ${name} is read in one pass, to the first error`, async (t) => {
    const parsed = parseYaml(unit.repeat(1_000_000 / unit.length), { uniqueKeys: false })
    if (outcome === null) t.same(parsed.document.errors, [])
    else t.match(parsed.document.errors[0]?.message, outcome)
    t.ok(parsed.document.errors.length <= 1)
    t.equal(parsed.document.warnings.length, 0)
  })
}

void t.test('yaml - tags whose items would be compared with each other are ignored', async (t) => {
  const { document } = parseYaml(`!!omap\n${'- a: 1\n'.repeat(100_000)}`, { uniqueKeys: false })
  t.same(document.errors, [], 'an ordered map must not repeat a key, so the library has not compared them')
})

void t.test('yaml - a key that is repeated is an error, however many keys there are', async (t) => {
  const keys = Array.from({ length: 100_000 }, (_, i) => `k${i}: {a: 1}\n`).join('')
  t.same(parseYaml(keys, { uniqueKeys: true }).document.errors, [], 'comparing all pairs would take minutes')
  const repeated = parseYaml(`${keys}k7: 2\n`, { uniqueKeys: true })
  t.match(repeated.document.errors[0]?.message, /must be unique/)
  t.equal(repeated.lines.linePos(repeated.document.errors[0]!.pos[0]).line, 100_001)
  t.throws(() => readYaml('a: {b: [{c: 1, "c": 2}]}'), /^Map keys must be unique at line 1, column 16$/)
  t.same(readYaml('{1: a, "1": b}'), { 1: 'b' }, 'a number and a text are different keys')
  t.same(parseYaml('a: 1\na: 2\n', { uniqueKeys: false }).document.errors, [])
})
