/**
 * Tests the search for unknown and duplicate fields in a body. Recorded writes compare its messages with Kubernetes'.
 */
import t from 'tap'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { BuiltInShapes } from '../../../src/kubernetes/writes/shape.js'
import { strictProblems } from '../../../src/kubernetes/writes/strict-problems.js'

const pod = new BuiltInShapes(kubernetesSchema()).ofKind('v1', 'Pod')!
const problems = (json: string): readonly string[] => strictProblems(Buffer.from(json), pod)

void t.test('unknown and duplicate fields are found in the order of the body', (t) => {
  t.same(problems('{"spec":{"x":{"y":1},"containers":[{"name":"a","name":"b"}]},"z":1}'), [
    'unknown field "spec.x"',
    'duplicate field "spec.containers[0].name"',
    'unknown field "z"',
  ])
  t.end()
})

void t.test('a path in a problem has a limited length, however long its names are', (t) => {
  const long = 'n'.repeat(1024 * 1024)
  const unknown = Array.from({ length: 100 }, (_, i) => `"x${i}":1`).join()
  const found = problems(`{"metadata":{"${long}":{}},"spec":{"overhead":{"${long}":{"a":1}},${unknown}}}`)
  t.equal(found.length, 100)
  t.ok(found.every((problem) => problem.length < 2_200))
  t.match(found[0], /^unknown field "metadata\.n{2000,}…"$/)
  t.end()
})

void t.test('only a hundred problems cost the text of a path, even if they are equal', (t) => {
  const repeated = (name: string): string => `{"spec":{${`"${name}":1,`.repeat(101)}"y":1}}`
  t.same(problems(repeated('x')), ['unknown field "spec.x"'])
  t.same(problems(repeated('priority')), ['duplicate field "spec.priority"'])
  t.end()
})
