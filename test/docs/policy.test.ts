/**
 * Checks the examples of docs/guide/policy.md: each table matches what `config check --explain` prints and what a server
 * does.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { parsePolicy } from '../../src/server/auth/authz/policy.js'
import { checkConfig } from '../../src/server/wiring/check-config.js'
import { runCli } from '../cli/support/run-cli.js'
import { startApp } from '../support/app.js'

const text = readFileSync(fileURLToPath(new URL('../../../docs/guide/policy.md', import.meta.url)), 'utf8')

interface Row {
  readonly user: string
  readonly groups: string
  readonly verb: string
  readonly path: string
  readonly decision: string
}

const METHODS: Readonly<Record<string, string>> = {
  get: 'GET',
  list: 'GET',
  watch: 'GET',
  create: 'POST',
  patch: 'PATCH',
  delete: 'DELETE',
}

const examples = text
  .slice(text.indexOf('## Examples'))
  .split('\n### ')
  .slice(1)
  .map((section) => {
    const policy = /```yaml\n(.*?)```/s.exec(section)![1]!
    const rows = section
      .split('\n')
      .filter((line) => /^\| .*\| (allowed|refused) \|$/.test(line))
      .map((line): Row => {
        const [user, groups, verb, path, decision] = line
          .slice(1, -1)
          .split('|')
          .map((cell) => cell.trim().replaceAll('`', ''))
        return { user: user!, groups: groups!, verb: verb!, path: path!, decision: decision! }
      })
    return { name: section.split('\n')[0]!, policy, rows }
  })

void t.test('the page has the five examples, and its grammar parses', (t) => {
  t.same(
    examples.map(({ name }) => name),
    ['One team', 'One prefix', 'A read-only dashboard', 'An agent on each node', 'Deny by default'],
  )
  const blocks = [...text.matchAll(/```yaml\n(.*?)```/gs)]
  t.equal(blocks.length, examples.length + 1)
  for (const [, policy] of blocks) t.doesNotThrow(() => parsePolicy(policy!))
  t.end()
})

for (const { name, policy, rows } of examples) {
  void t.test(name, async (t) => {
    t.ok(rows.length >= 3)
    const users = [...new Set(rows.map(({ user, groups }) => `token-${user},${user},1,"${groups}"`))]
    const folder = t.testdir({ 'policy.yaml': policy, 'tokens.csv': `${users.join('\n')}\n` })
    const flags = [
      `--token-auth-file=${join(folder, 'tokens.csv')}`,
      '--authorization-mode=Policy',
      `--authorization-policy-file=${join(folder, 'policy.yaml')}`,
      '--resource=flags=/config/flags/',
    ]
    const { url } = await startApp(t, { flags: [...flags, '--enable-writes'] })
    for (const { user, groups, verb, path, decision } of rows) {
      const question = `${user} ${verb} ${path} ${groups}`
      const { outcome, lines } = await checkConfig({
        argv: flags,
        environment: {},
        connects: false,
        explains: question,
      })
      t.equal(outcome, 'valid', question)
      t.match(lines[0], new RegExp(`^${decision}: `), question)
      const mark = path.includes('?') ? '&' : '?'
      const answer = await fetch(`${url}${path}${verb === 'watch' ? `${mark}watch=1&timeoutSeconds=1` : ''}`, {
        method: METHODS[verb]!,
        headers: { authorization: `Bearer token-${user}` },
      })
      await answer.body?.cancel()
      t.equal(answer.status === 403, decision === 'refused', `${question}: ${answer.status}`)
    }
  })
}

void t.test('the policy of plain prefixes lets kubectl discover the flags that it lets ann read', async (t) => {
  const guide = readFileSync(fileURLToPath(new URL('../../../docs/guide/plain-prefixes.md', import.meta.url)), 'utf8')
  const [, policy = ''] = /```yaml\n(rules:\n.*?)```/s.exec(guide)!
  const folder = t.testdir({ 'policy.yaml': policy, 'tokens.csv': 's3cret,ann,1\n' })
  const { url } = await startApp(t, {
    flags: [
      `--token-auth-file=${join(folder, 'tokens.csv')}`,
      '--authorization-mode=Policy',
      `--authorization-policy-file=${join(folder, 'policy.yaml')}`,
      '--resource=flags=/config/flags/',
    ],
  })
  const headers = { authorization: 'Bearer s3cret' }
  for (const path of ['/version', '/api', '/apis', '/apis/distributary.io/v1', '/apis/distributary.io/v1/flags'])
    t.equal((await fetch(`${url}${path}`, { headers })).status, 200, path)
  t.equal((await fetch(`${url}/api/v1/pods`, { headers })).status, 403)
})

void t.test(
  'an explanation says which rule allows, what is missing in each rule, and what cannot be known',
  async (t) => {
    const policy = /```yaml\n(.*?)```/s.exec(text)![1]!
    const folder = t.testdir({ 'policy.yaml': policy })
    const flags = ['--authorization-mode=Policy', `--authorization-policy-file=${join(folder, 'policy.yaml')}`]
    const [shown] = text.slice(text.indexOf('## Why?')).match(/(?<=```\n)refused: .*?(?=```)/s)!
    const question = 'ann list /api/v1/namespaces/db/pods web'
    const said = await runCli(t, ['config', 'check', '--explain', question, ...flags])
    t.match(said, { code: 0, stdout: shown }, 'as on the page')
    const connecting = await runCli(t, ['config', 'check', '--connect', '--explain', question, ...flags])
    t.match(connecting, { code: 2, stderr: /--explain makes no connection/ })
    const explain = async (explains: string, argv: readonly string[] = flags) =>
      await checkConfig({ argv, environment: {}, connects: false, explains })
    t.same((await explain('ann get /api/v1/namespaces/web/pods/x web')).lines, [
      'allowed: ann get /api/v1/namespaces/web/pods/x: Policy: the web team reads its namespaces',
    ])
    t.same((await explain('prometheus post /metrics')).lines.slice(1), [
      '  Prometheus scrapes: its verbs do not include this one',
      '  rules for other users and groups: 1',
    ])
    const both = await explain('eve list /api/v1/pods', ['--authorization-mode=Policy,RBAC', flags[1]!])
    t.match(both.lines[0], /^not decided here: /)
    t.match(both.lines.join(), 'RBAC is not consulted, because it depends on etcd')
    t.match((await explain('ann list', flags)).problems, [/such as "ann list/])
    t.match((await explain('ann list /api/v1/%', flags)).outcome, 'invalid')
  },
)
