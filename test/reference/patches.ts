/**
 * `node .build/test/reference/patches.js URL TOKEN`: sends many small patches to a kube-apiserver, and records its
 * responses as data. The caller needs all permissions; the certificate is not checked (NODE_TLS_REJECT_UNAUTHORIZED=0).
 *
 * The objects have a free-form `spec`, and nothing is stored: each patch is a dry run on the same object.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { seededRandom } from '../../src/support/random.js'
import { anything, definitionObject, object } from '../support/definition.js'

/** One patch, and the response. */
export interface PatchedCase {
  readonly type: 'json' | 'merge'
  /** '' for the default. */
  readonly validation: '' | 'Strict' | 'Ignore'
  readonly patch: string
  /** 0: the handler panicked, and the connection broke. */
  readonly code: number
  /** The object's spec; null when the patch was rejected. */
  readonly spec: unknown
  readonly warnings: readonly string[]
}

type Question = Pick<PatchedCase, 'type' | 'validation' | 'patch'>

export const DEFINITION = definitionObject({
  group: 'patches.example.com',
  plural: 'things',
  kind: 'Thing',
  scope: 'Namespaced',
  versions: [{ name: 'v1', storage: true, schema: object({ spec: anything }) }],
})

export const THINGS = '/apis/patches.example.com/v1/namespaces/default/things'

export const THING = {
  apiVersion: 'patches.example.com/v1',
  kind: 'Thing',
  metadata: { name: 'a' },
  spec: {
    n: 1,
    f: 1.5,
    t: 'text',
    yes: true,
    null: null,
    o: { x: 1, null: null, o: { y: [1] } },
    l: [1, 'two', { x: 3 }, [4], 5],
    nulls: [null, 1],
    eo: {},
    el: [],
    '~': { '/': 1 },
  },
}

const FILE = fileURLToPath(new URL('../../../test/data/kube-apiserver-1.37/patches.json', import.meta.url))

const USUAL = { type: 'json', validation: '', warnings: [] } as const

/** Thousands of patches produce a few hundred specs: each is stored once, and defaults are left out. */
interface Recording {
  readonly specs: readonly unknown[]
  readonly cases: readonly (Pick<PatchedCase, 'patch' | 'code'> & Partial<PatchedCase> & { readonly spec?: number })[]
}

export function recordedPatches(): readonly PatchedCase[] {
  const { specs, cases } = JSON.parse(readFileSync(FILE, 'utf8')) as Recording
  return cases.map(({ spec, ...one }) => ({ ...USUAL, ...one, spec: spec === undefined ? null : specs[spec] }))
}

function writeRecording(cases: readonly PatchedCase[]): void {
  const specs = new Map<string, number>()
  const lines = cases.map(({ patch, code, spec, type, validation, warnings }) => {
    const text = JSON.stringify(spec)
    if (code === 200 && !specs.has(text)) specs.set(text, specs.size)
    return JSON.stringify({
      patch,
      code,
      ...(code === 200 ? { spec: specs.get(text) } : {}),
      ...(type === USUAL.type ? {} : { type }),
      ...(validation === USUAL.validation ? {} : { validation }),
      ...(warnings.length === 0 ? {} : { warnings }),
    })
  })
  writeFileSync(FILE, `{"specs":[\n${[...specs.keys()].join(',\n')}\n],"cases":[\n${lines.join(',\n')}\n]}\n`)
  process.stdout.write(`${lines.length} answers are in ${FILE}\n`)
}

const PATHS = [
  ['/spec/n', '/spec/none', '/spec/null', '/spec/o', '/spec/o/x', '/spec/o/none', '/spec/o/null', '/spec/o/null/x'],
  [
    '/spec/o/none/x',
    '/spec/o/o/y/0',
    '/spec/t/x',
    '/spec/t/0',
    '/spec/l',
    '/spec/l/0',
    '/spec/l/4',
    '/spec/l/5',
    '/spec/l/6',
  ],
  [
    '/spec/l/-',
    '/spec/l/-1',
    '/spec/l/-5',
    '/spec/l/-6',
    '/spec/l/-7',
    '/spec/l/+1',
    '/spec/l/01',
    '/spec/l/-0',
    '/spec/l/x',
  ],
  [
    '/spec/l/',
    '/spec/l/1.0',
    '/spec/l/ 1',
    '/spec/l/1_0',
    '/spec/l/99999999999999999999',
    '/spec/l/2/x',
    '/spec/l/2/none',
  ],
  ['/spec/l/-3/x', '/spec/l/3/0', '/spec/l/9/x', '/spec/l/x/y', '/spec/nulls/0', '/spec/nulls/0/x', '/spec/nulls/1'],
  [
    '/spec/eo/x',
    '/spec/el/0',
    '/spec/el/-',
    '/spec/el/-1',
    '/spec/el/1',
    '/spec/~0',
    '/spec/~0/~1',
    '/spec/~2',
    '/spec/~01',
  ],
  ['/spec/', '/spec//', '/none', '/none/x', '', '/', 'spec', 'spec/n', 'x/spec/n', '/spec/__proto__', '/spec/toString'],
].flat()

const VALUES = [
  '',
  'null',
  '1',
  '1.0',
  '"text"',
  '{}',
  '[]',
  '{"x":1}',
  '{"x":1,"null":null,"o":{"y":[1]}}',
  '[null,1]',
  'true',
]

function* jsonPatches(): Generator<string> {
  const operation = (op: string, members: Readonly<Record<string, string>>): string => {
    const rest = Object.entries(members).filter(([, text]) => text !== '')
    return `{${[`"op":"${op}"`, ...rest.map(([name, text]) => `"${name}":${text}`)].join(',')}}`
  }
  for (const path of PATHS.map((one) => JSON.stringify(one))) {
    yield operation('remove', { path })
    for (const value of ['', 'null', '1', '{"x":[1]}']) {
      yield operation('add', { path, value })
      yield operation('replace', { path, value })
    }
    for (const value of VALUES) yield operation('test', { path, value })
    for (const other of ['/spec/n', '/spec/new', '/spec/l/0', '/spec/l/-', '/spec/o/x', '/spec/none/x', '/spec/null']) {
      for (const op of ['move', 'copy']) {
        yield operation(op, { from: path, path: JSON.stringify(other) })
        yield operation(op, { from: JSON.stringify(other), path })
      }
    }
  }
  for (const value of ['{"spec":{"n":2}}', JSON.stringify(THING), '[]', 'null', '1', '"x"', '{}']) {
    for (const op of ['add', 'replace', 'test']) yield operation(op, { path: '""', value })
  }
  // Numbers and texts that are rewritten on output are compared as written.
  for (const [path, value] of [
    ['/spec/n', '1e0'],
    ['/spec/n', '-1'],
    ['/spec/f', '1.50'],
    ['/spec/f', '1.5'],
    ['/spec/f', '15e-1'],
    ['/spec/l', '[1,"two",{"x":3},[4],5]'],
    ['/spec/l', '[1,"two",{"x":3},[4]]'],
    ['/spec/yes', 'false'],
    ['/spec/o', '{"o":{"y":[1]},"null":null,"x":1}'],
    ['/spec/o', '{"o":{"y":[1]},"x":1}'],
    ['/spec/eo', '[]'],
    ['/spec/el', '{}'],
    ['/spec/eo', 'null'],
    ['/spec/el', 'null'],
  ] as const) {
    yield operation('test', { path: JSON.stringify(path), value })
  }
}

const BROKEN = [
  [
    'null',
    '{}',
    '1',
    '"x"',
    '[]',
    '[null]',
    '[1]',
    '[[]]',
    '[{}]',
    '[{"op":null,"path":"/spec/n"}]',
    '[{"op":1,"path":"/spec/n"}]',
  ],
  [
    '[{"op":"","path":"/spec/n"}]',
    '[{"op":"ADD","path":"/spec/n","value":1}]',
    '[{"OP":"add","path":"/spec/n","value":1}]',
  ],
  ['[{"op":"nothing","path":"/spec/n"}]', '[{"op":"add","value":1}]', '[{"op":"add","path":null,"value":1}]'],
  ['[{"op":"add","path":1,"value":1}]', '[{"op":"move","path":"/spec/n"}]', '[{"op":"copy","path":"/spec/n"}]'],
  ['[{"op":"move","from":1,"path":"/spec/n"}]', '[{"op":"move","from":"/spec/n"}]', '[{"op":"copy","from":"/spec/n"}]'],
  [
    '[{"op":"test","value":1}]',
    '[{"op":"remove"}]',
    '[{"op":"replace","value":1}]',
    '[{"op":"replace","path":null,"value":{}}]',
  ],
  [
    '[{"op":"add","path":"/spec/n","value":2,"more":1}]',
    '[{"op":"add","path":"/spec/n","value":2,"value":3}]',
    '[',
    '',
  ],
  ['[{"op":"add","path":"/spec/n","value":2,"from":1}]', '[{"op":"add","path":"/spec/n","value":2}] x'],
  ['[{"op":"add","path":"/spec/n","value":{"a":1,"a":2}}]', '[{"op":"test","path":"/spec/n","value":1,"from":null}]'],
].flat()

const MERGES = [
  [
    '{}',
    'null',
    '[]',
    '1',
    '"x"',
    '{',
    '',
    '{"spec":null}',
    '{"spec":1}',
    '{"spec":[]}',
    '{"spec":{}}',
    '{"spec":{"n":null}}',
  ],
  [
    '{"spec":{"none":null}}',
    '{"spec":{"null":null}}',
    '{"spec":{"o":null}}',
    '{"spec":{"o":{"x":null}}}',
    '{"spec":{"o":1}}',
  ],
  [
    '{"spec":{"o":{"o":{"y":null,"z":[null]}}}}',
    '{"spec":{"l":[null,{"x":null}]}}',
    '{"spec":{"l":{"x":null,"y":{"z":null}}}}',
  ],
  [
    '{"spec":{"n":{"x":null,"y":{"z":null},"l":[null,{"x":null,"y":1}]}}}',
    '{"spec":{"new":{"x":null,"y":{"z":null}}}}',
  ],
  ['{"spec":{"null":{"x":null,"y":1}}}', '{"spec":{"t":{"x":null}}}', '{"spec":{"new":[null,[null],{"x":null}]}}'],
  [
    '{"spec":{"o":[{"x":null}]}}',
    '{"spec":{"eo":[{"x":null}]}}',
    '{"spec":{"yes":[{"x":null}]}}',
    '{"spec":{"null":[{"x":null}]}}',
    '{"spec":{"el":[[{"x":null}]]}}',
    '{"spec":{"n":2,"n":3}}',
    '{"more":1}',
    '{"spec":{"f":1.0,"n":1e2}}',
    '{"spec":{"nulls":[1,null,{"x":{"y":null}}]}}',
  ],
].flat()

/** Several operations, each of which sees the results of those before. */
function* randomPatches(): Generator<string> {
  const random = seededRandom(38)
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random.next() * from.length)]!
  const some = [
    '/spec/n',
    '/spec/o',
    '/spec/o/x',
    '/spec/o/new',
    '/spec/new',
    '/spec/new/x',
    '/spec/l',
    '/spec/l/0',
    '/spec/l/-',
  ]
  const paths = [
    ...some,
    '/spec/l/-1',
    '/spec/l/2',
    '/spec/l/2/x',
    '/spec/null',
    '/spec/null/x',
    '/spec/nulls/0',
    '/spec/el/0',
  ]
  const values = ['null', '1', '{}', '[]', '{"x":{"y":null}}', '[null]', '"text"']
  for (let i = 0; i < 600; i++) {
    const operations: string[] = []
    for (let n = 1 + Math.floor(random.next() * 4); n > 0; n--) {
      const [op, path, from, value] = [
        pick(['add', 'add', 'replace', 'copy', 'move', 'remove', 'test']),
        pick(paths),
        pick(paths),
        pick(values),
      ]
      operations.push(`{"op":"${op}","path":"${path}","from":"${from}","value":${value}}`)
    }
    yield `[${operations.join(',')}]`
  }
}

export function* questions(): Generator<Question> {
  for (const patch of jsonPatches()) yield { type: 'json', validation: '', patch: `[${patch}]` }
  for (const patch of randomPatches()) yield { type: 'json', validation: '', patch }
  for (const validation of ['', 'Strict', 'Ignore'] as const) {
    for (const patch of BROKEN) yield { type: 'json', validation, patch }
    for (const patch of MERGES) yield { type: 'merge', validation, patch }
  }
}

export async function askPatch(
  url: string,
  { type, validation, patch }: Question,
  headers: Readonly<Record<string, string>> = {},
): Promise<PatchedCase> {
  const query = `dryRun=All${validation === '' ? '' : `&fieldValidation=${validation}`}`
  const answer = await fetch(`${url}${THINGS}/a?${query}`, {
    method: 'PATCH',
    headers: { ...headers, 'content-type': `application/${type === 'json' ? 'json-patch' : 'merge-patch'}+json` },
    body: patch,
  }).catch(() => null)
  if (answer === null) return { type, validation, patch, code: 0, spec: null, warnings: [] }
  const body = (await answer.json()) as { readonly spec?: unknown }
  const warning = answer.headers.get('warning')
  return {
    type,
    validation,
    patch,
    code: answer.status,
    spec: answer.status === 200 ? (body.spec ?? null) : null,
    warnings:
      warning === null
        ? []
        : [...warning.matchAll(/299 - ("(?:[^"\\]|\\.)*")/g)].map(([, text = '']) => JSON.parse(text) as string),
  }
}

/** @throws Error when it cannot be created. */
export async function makeThing(url: string, headers: Readonly<Record<string, string>> = {}): Promise<void> {
  const post = async (path: string, body: object): Promise<number> => {
    const all = { ...headers, 'content-type': 'application/json' }
    return (await fetch(url + path, { method: 'POST', headers: all, body: JSON.stringify(body) })).status
  }
  await post('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', DEFINITION)
  for (let attempt = 0; attempt < 600; attempt++) {
    const code = await post(THINGS, THING)
    if (code === 201 || code === 409) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error('the object cannot be created')
}

async function record([url = '', token = '']: readonly string[]): Promise<void> {
  const headers = { authorization: `Bearer ${token}` }
  await makeThing(url, headers)
  const cases: PatchedCase[] = []
  for (const question of questions()) cases.push(await askPatch(url, question, headers))
  writeRecording(cases)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await record(process.argv.slice(2))
