/** Tests the rules for ConfigMaps and Secrets. Recorded writes compare the answers with Kubernetes'. */
import t from 'tap'
import { record, treeFrom } from '../../../src/kubernetes/codec/json-tree.js'
import { secretProblems } from '../../../src/kubernetes/writes/configuration-rules.js'

void t.test('only the types of image pull secrets require JSON', (t) => {
  const causes = (type: string, data: Readonly<Record<string, string>>): readonly string[] =>
    secretProblems(null, record({ type, data: treeFrom(data) })).map(({ field }) => field)
  const [object, text] = ['e30=', 'eA==']
  t.same(causes('kubernetes.io/dockercfg', { '.dockercfg': text }), ['data[.dockercfg]'])
  t.same(causes('kubernetes.io/dockercfg', { '.dockercfg': object }), [])
  t.same(causes('kubernetes.io/dockerconfigjson', { '.dockerconfigjson': text }), ['data[.dockerconfigjson]'])
  t.same(causes('kubernetes.io/dockerconfigjson', {}), ['data[.dockerconfigjson]'])
  t.same(causes('kubernetes.io/dockercustom', { key: text }), [], 'a type that only begins like them')
  t.end()
})
