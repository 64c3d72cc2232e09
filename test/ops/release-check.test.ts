/**
 * `npm run release:check`, as far as possible without the registry: npm is replaced by a stand-in with prepared
 * answers.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'

const root = fileURLToPath(new URL('../../../', import.meta.url))

const CLEAN = { metadata: { vulnerabilities: { total: 0 }, dependencies: { prod: 2 } } }
const HOLES = {
  vulnerabilities: { left: { name: 'left', severity: 'high', range: '<2' } },
  metadata: { vulnerabilities: { total: 1 }, dependencies: { prod: 2 } },
}
const component = (name: string, properties: readonly object[] = []) => ({
  'bom-ref': `${name}@1.0.0`,
  name,
  purl: `pkg:npm/${encodeURIComponent(name).replace('%2F', '/')}@1.0.0`,
  properties,
})
const bill = (...components: readonly object[]) => ({
  metadata: { component: { 'bom-ref': 'it@1.0.0' } },
  components,
  dependencies: [
    { ref: 'it@1.0.0', dependsOn: ['@a/left@1.0.0', 'tool@1.0.0'] },
    { ref: 'tool@1.0.0', dependsOn: [] },
  ],
})
const TOOL = component('tool', [{ name: 'cdx:npm:package:development', value: 'true' }])
const GOOD_BILL = bill(component('@a/left'), TOOL)

interface Run {
  readonly code: number | null
  readonly text: string
  readonly bill: { components: { name: string }[]; dependencies: { ref: string; dependsOn: string[] }[] } | null
}

/** @param answers of `npm audit` and `npm sbom`; a string is returned as it is, for responses that are not JSON. */
function check(t: Test, answers: { audit?: object | string; sbom?: object | string }, ...args: string[]): Run {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-release-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const file = (name: string, text: string): string => {
    writeFileSync(join(directory, name), text)
    return join(directory, name)
  }
  const texts = Object.fromEntries(
    Object.entries(answers).map(([command, answer]) => [
      command,
      typeof answer === 'string' ? answer : JSON.stringify(answer),
    ]),
  )
  const isClean = answers.audit === CLEAN
  const npm = file('npm', `#!${process.execPath}
const answers = ${JSON.stringify(texts)}
process.stdout.write(answers[process.argv[2]] ?? '')
process.exitCode = process.argv[2] === 'audit' && !${isClean} ? 1 : 0
`) // prettier-ignore
  chmodSync(npm, 0o755)
  file('package.json', JSON.stringify({ dependencies: { '@a/left': '1' } }))
  file(
    'package-lock.json',
    JSON.stringify({
      packages: {
        '': {},
        'node_modules/@a/left': { version: '1.0.0' },
        'node_modules/tool': { version: '1.0.0', dev: true },
      },
    }),
  )
  copyFileSync(join(root, 'deploy/release-check.js'), join(directory, 'check.mjs'))
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(directory, 'check.mjs'), ...args], {
    cwd: directory,
    encoding: 'utf8',
    env: { ...process.env, PATH: `${directory}${delimiter}${process.env['PATH']}` },
  })
  const written = join(directory, 'sbom.cdx.json')
  return {
    code: status,
    text: `${stdout}${stderr}`,
    bill: existsSync(written) ? (JSON.parse(readFileSync(written, 'utf8')) as Run['bill']) : null,
  }
}

void t.test(
  'a release is ready when nothing that ships has a known vulnerability and everything that ships is listed',
  async (t) => {
    const { code, text, bill: written } = check(t, { audit: CLEAN, sbom: GOOD_BILL })
    t.equal(code, 0, text)
    t.match(text, /no known vulnerabilities in 2 packages/)
    t.same(
      written?.components.map(({ name }) => name),
      ['@a/left'],
      'what is for development is not in it',
    )
    t.same(written?.dependencies, [{ ref: 'it@1.0.0', dependsOn: ['@a/left@1.0.0'] }])
  },
)

void t.test('a release is not ready otherwise, and each reason has a line', async (t) => {
  const rows: readonly (readonly [string, Parameters<typeof check>[1], RegExp])[] = [
    ['a known hole', { audit: HOLES, sbom: GOOD_BILL }, /left <2: known vulnerability, severity high/],
    ['a registry that refuses', { audit: { message: '405 Method Not Allowed' }, sbom: GOOD_BILL }, /cannot check for known vulnerabilities \(405/],
    ['no registry', { audit: '', sbom: GOOD_BILL }, /cannot check for known vulnerabilities/],
    ['no list', { audit: CLEAN, sbom: 'x' }, /no bill of materials/],
    ['a list with a gap', { audit: CLEAN, sbom: bill(TOOL) }, /lacks pkg:npm\/@a\/left@1\.0\.0/],
  ] // prettier-ignore
  for (const [name, answers, expected] of rows) {
    const { code, text } = check(t, answers)
    t.equal(code, 1, name)
    t.match(text, expected, name)
    t.match(text, /NOT ready/, name)
  }
})

void t.test(
  'without a network the check reports that no advisory was read, and rejects unknown arguments',
  async (t) => {
    const offline = check(t, { audit: '', sbom: GOOD_BILL }, '--offline')
    t.equal(offline.code, 0)
    t.match(offline.text, /did not check for known vulnerabilities/)
    t.equal(check(t, {}, '--of').code, 2)
  },
)

void t.test('npm itself generates the bill of materials of this package', async (t) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['deploy/release-check.js', '--offline'], {
    cwd: root,
    encoding: 'utf8',
  })
  t.equal(status, 0, `${stdout}${stderr}`)
  const { components } = JSON.parse(readFileSync(join(root, 'sbom.cdx.json'), 'utf8')) as NonNullable<Run['bill']>
  const names = new Set(components.map(({ name }) => name))
  for (const name of ['fastify', 'jose', 'yaml']) t.ok(names.has(name), name)
  for (const name of ['tap', 'typescript']) t.notOk(names.has(name), name)
})
