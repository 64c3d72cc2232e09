/** Tests what prevents a configuration from being applied. Recorded writes compare the messages with Kubernetes'. */
import t from 'tap'
import { type Json, treeFrom } from '../../../src/kubernetes/codec/json-tree.js'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { appliedProblem } from '../../../src/kubernetes/writes/applied-problems.js'
import { BuiltInShapes } from '../../../src/kubernetes/writes/shape.js'

const pod = new BuiltInShapes(kubernetesSchema()).ofKind('v1', 'Pod')!
const podOf = (container: object): Json => treeFrom({ spec: { containers: [container] } })

void t.test('a message names a hundred problems, and cuts long paths and values', (t) => {
  const ports = Array.from({ length: 10_000 }, () => ({ containerPort: 80 }))
  const message = appliedProblem(podOf({ name: 'n'.repeat(1024 * 1024), ports }), pod)!
  const [first, ...problems] = message.split('\n')
  t.equal(first, 'errors:')
  t.equal(problems.length, 100)
  t.match(
    problems[0],
    /^ {2}\.spec\.containers\[name="n{2000,}…: duplicate entries for key \[containerPort=80,protocol="TCP"\]$/,
  )
  t.ok(message.length < 1024 * 1024, 'the message is shorter than the body')
  const wrong = appliedProblem(podOf({ name: 'a', ports: 'p'.repeat(1024 * 1024) }), pod)!
  t.match(wrong, /^\.spec\.containers\[name="a"\]\.ports: expected list, got &\{p+…$/)
  t.ok(wrong.length < 10_000)
  t.end()
})
