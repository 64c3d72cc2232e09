/**
 * Compares the defaults of built-in kinds with the API server's own functions and with what a real API server stored.
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import {
  cloneTree,
  equalTrees,
  type JsonRecord,
  jsonText,
  parseJsonTree,
  textMember,
  treeFrom,
} from '../../../src/kubernetes/codec/json-tree.js'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { BuiltInDefaults } from '../../../src/kubernetes/writes/built-in-defaults.js'
import { defaultFacts } from '../../../src/kubernetes/writes/default-facts.js'
import { pullPolicyOf } from '../../../src/kubernetes/writes/pull-policy.js'

interface Case {
  readonly manifest: JsonRecord
  readonly filled: JsonRecord
}

const CASES = readFileSync('test/data/kubernetes-defaults/manifests.jsonl', 'utf8')
  .trim()
  .split('\n')
  .map((line) => parseJsonTree(Buffer.from(line)).value as unknown as Case)

function fill(defaults: BuiltInDefaults, object: JsonRecord): JsonRecord {
  const copy = cloneTree(object)
  defaults.fill(textMember(copy, 'apiVersion'), textMember(copy, 'kind'), copy)
  return copy
}

void t.test('every manifest is filled in as by the API server', (t) => {
  const defaults = new BuiltInDefaults(kubernetesSchema())
  for (const { manifest, filled } of CASES) {
    const ours = fill(defaults, manifest)
    t.strictSame(difference(ours, filled).concat(difference(filled, ours)), [], jsonText(manifest).slice(0, 300))
    t.ok(equalTrees(ours, filled), 'and nothing else')
    t.ok(equalTrees(fill(defaults, ours), ours), 'and once is enough')
  }
  t.ok(CASES.length > 200)
  t.end()
})

void t.test('every row of the table is needed by some manifest', (t) => {
  for (const [message, rows] of Object.entries(defaultFacts())) {
    const touched = CASES.filter(({ filled }) => mayHold(message, filled))
    for (const [i, [path]] of rows.entries()) {
      const facts = { ...defaultFacts(), [message]: rows.filter((_, other) => other !== i) }
      const defaults = new BuiltInDefaults(kubernetesSchema(), facts)
      t.ok(
        touched.some(({ manifest, filled }) => !equalTrees(fill(defaults, manifest), filled)),
        `${message} ${path}, row ${i}`,
      )
    }
  }
  t.end()
})

/** Messages of a group other than the object's are included only when they are in the core group. */
function mayHold(message: string, object: JsonRecord): boolean {
  const group = message.split('.')[0]!
  const own = textMember(object, 'apiVersion')
  return group === 'core' || own.startsWith(group)
}

const LATER_THAN_1_20 = [
  'Job.spec.completionMode',
  'Job.spec.manualSelector',
  'Job.spec.podReplacementPolicy',
  'Job.spec.suspend',
  'Service.spec.internalTrafficPolicy',
  'StatefulSet.spec.persistentVolumeClaimRetentionPolicy',
  'StatefulSet.spec.updateStrategy.rollingUpdate.maxUnavailable',
]

void t.test('the answers of a real API server have all its defaults except those of later releases', (t) => {
  const defaults = new BuiltInDefaults(kubernetesSchema())
  const { value } = parseJsonTree(readFileSync('test/data/kube-apiserver-1.20/answers.json'))
  const answers = Object.values(value as Record<string, { readonly object: JsonRecord }>)
  const added = new Set<string>()
  for (const { object } of answers) {
    for (const path of difference(object, fill(defaults, object))) added.add(`${textMember(object, 'kind')}${path}`)
  }
  t.ok(answers.length > 20, `${answers.length} objects`)
  t.strictSame([...added].sort(), LATER_THAN_1_20)
  t.end()
})

/** Returns the paths that are in the second object and missing or different in the first. */
function difference(before: unknown, after: unknown): string[] {
  if (before === undefined) return ['']
  if (typeof after !== 'object' || after === null) return before === after ? [] : ['']
  return Object.entries(after).flatMap(([name, value]) =>
    difference((before as Record<string, unknown>)[name], value).map((path) => `.${name}${path}`),
  )
}

void t.test('numbers beyond doubles and unknown members are left alone', (t) => {
  const defaults = new BuiltInDefaults(kubernetesSchema())
  const text =
    '{"apiVersion":"apps/v1","kind":"ReplicaSet","spec":{"minReadySeconds":9007199254740993,"odd":1.0,"replicas":null}}'
  const object = fill(defaults, parseJsonTree(Buffer.from(text)).value as JsonRecord)
  t.match(jsonText(object), '"minReadySeconds":9007199254740993,"odd":1.0,"replicas":1,"template":{"spec":{')
  const wrong = treeFrom({ apiVersion: 'apps/v1', kind: 'Deployment', spec: 'text' }) as JsonRecord
  t.strictSame(jsonText(fill(defaults, wrong)), jsonText(wrong), 'a member of the wrong type')
  const custom = treeFrom({ apiVersion: 'example.com/v1', kind: 'Deployment' }) as JsonRecord
  t.strictSame(jsonText(fill(defaults, custom)), jsonText(custom), 'a kind of the same name')
  t.end()
})

void t.test('an image name of any length is parsed in no time', (t) => {
  t.equal(pullPolicyOf(`${'a.'.repeat(50_000)}!`), 'IfNotPresent')
  t.equal(pullPolicyOf(`${'a-'.repeat(500)}!`), 'IfNotPresent')
  t.end()
})
