/** The guarantees of `src/SPEC.md` are numbered uniquely and in order, and what they name exists. */
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import t from 'tap'
import { readText, root } from './repository.js'

const spec = readText('src/SPEC.md')
const guarantees = [...spec.matchAll(/^\| (G\d+) +\| \*\*([^*]+)\.\*\*/gm)].map(([, number = '', name = '']) => ({
  number,
  name,
}))

const sources = ['src', 'test', 'bench'].flatMap((folder) =>
  readdirSync(root + folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => `${folder}/${file}`),
)

void t.test('guarantees are numbered from G1 on, in order, in one table', async (t) => {
  t.ok(guarantees.length >= 19, `${guarantees.length} guarantees`)
  t.same(
    guarantees.map(({ number }) => number),
    guarantees.map((_, i) => `G${i + 1}`),
  )
  t.equal(new Set(guarantees.map(({ name }) => name)).size, guarantees.length, 'every name is there once')
  const lines = spec.split('\n')
  const first = lines.findIndex((line) => line.startsWith('| G1 '))
  const table = lines.slice(first, first + guarantees.length)
  t.ok(
    table.every((line) => line.startsWith('| G') && line.split(' | ').length === 4),
    'nothing ends the table before its end, and no row lacks a cell',
  )
})

void t.test('every guarantee names what enforces it and the tests that show it', async (t) => {
  for (const [, number = '', row = ''] of spec.matchAll(/^\| (G\d+) +\|(.*)\|$/gm)) {
    const [, enforced = '', shown = ''] = row.split(' | ')
    t.ok(enforced.trim().length > 10, `${number} is enforced by ${enforced}`)
    t.match(shown, /`test\//, `${number} is shown by ${shown}`)
  }
})

void t.test('every file and folder that the specification names exists', async (t) => {
  const paths = [...spec.matchAll(/`([\w./-]+\/[\w./-]*|[\w-]+\.ts)`/g)].map(([, path = '']) => path)
  t.ok(paths.length > 30, `${paths.length} paths`)
  for (const path of paths) t.ok(existsSync(`${root}${path}`) || existsSync(`${root}src/${path}`), path)
})

void t.test('every class, member, function and parameter that the specification names exists', async (t) => {
  const text = sources.filter((file) => file.startsWith('src/')).map(readText)
  const names = [...spec.matchAll(/`([A-Z][a-z]\w+)(?:\.(\w+))?`/g)]
  t.ok(names.length > 3, `${names.length} names`)
  for (const [whole, name, member] of names) {
    const home = text.find((one) => new RegExp(`class ${name}\\b`).test(one))
    t.ok(home !== undefined && (member === undefined || new RegExp(`\\b${member}\\b`).test(home)), whole)
  }
  const others = [...spec.matchAll(/`([a-z]\w+)(?:\(\))?`/g)].map(([, name = '']) => name)
  t.same(
    others.filter((name) => !text.some((one) => new RegExp(`\\b${name}\\b`).test(one))),
    [],
    `${others.length} functions and parameters`,
  )
})

void t.test('every guarantee that code and documents mention by its number exists', async (t) => {
  const known = new Set(guarantees.map(({ number }) => number))
  const pages = readdirSync(`${root}docs`, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => `docs/${file}`)
  for (const file of [...sources, ...pages, 'src/SPEC.md']) {
    const text = readFileSync(root + file, 'utf8')
    for (const [, number = ''] of text.matchAll(/(?:^|[ (,;])(G\d{1,2})\b/g)) {
      if (!known.has(number)) t.fail(`${file} mentions ${number}`)
    }
  }
})
