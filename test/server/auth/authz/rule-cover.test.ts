import t from 'tap'
import { CompiledRule } from '../../../../src/server/auth/authz/compiled-rule.js'
import type { PolicyRule } from '../../../../src/server/auth/authz/rbac-types.js'
import { coverage } from '../../../../src/server/auth/authz/rule-cover.js'

const NOTHING: PolicyRule = { verbs: [], apiGroups: [], resources: [], resourceNames: [], nonResourceURLs: [] }
const many = (word: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${word}${i}`)
const held = (...rules: readonly Partial<PolicyRule>[]): CompiledRule[] =>
  rules.map((rule) => new CompiledRule({ ...NOTHING, ...rule }))
const HUGE: PolicyRule = {
  ...NOTHING,
  verbs: many('v', 1_000),
  apiGroups: many('g', 1_000),
  resources: many('r', 1_000),
}

void t.test('a rule with a billion permissions is not compared permission by permission', async (t) => {
  const all = { verbs: ['*'], apiGroups: ['*'], resources: ['*'] }
  t.same(await coverage(held(all), [HUGE]), { kind: 'covered' }, 'a caller with all permissions has these too')
  let turns = 0
  const timer = setInterval(() => turns++, 0)
  t.teardown(() => clearInterval(timer))
  const most = { ...HUGE, verbs: ['*'], apiGroups: ['*'] }
  t.same(await coverage(held(most), [HUGE]), { kind: 'too-many' })
  t.ok(turns > 10, 'other work got its turns in the meantime')
})

void t.test('the first of very many missing permissions are named', async (t) => {
  const found = await coverage([], [HUGE])
  t.equal(found.kind, 'missing')
  if (found.kind !== 'missing') return
  t.equal(found.lines.at(-1), '…')
  t.ok(found.lines.join('\n').length < 100_000)
})

void t.test('no rules are missing if none are wanted', async (t) => {
  t.same(await coverage([], []), { kind: 'covered' })
  t.same(await coverage([], [{ ...NOTHING, verbs: ['get'] }]), { kind: 'covered' })
})
