import t from 'tap'
import { wellKnownResources } from '../../../src/kubernetes/dialect/well-known-resources.js'
import {
  assertNotStripped,
  formatStripRules,
  leftOutOf,
  parseStripRule,
  parseStripRules,
  problemOfStripped,
  strippedResource,
} from '../../../src/kubernetes/dialect/stripped-fields.js'
import { PODS } from '../../support/objects.js'

const MANAGED = 'metadata.managedFields'
const annotation = (name: string): string => `metadata.annotations.${name.replaceAll('.', '\\.')}`
const LAST_APPLIED = annotation('kubectl.kubernetes.io/last-applied-configuration')
const rulesOf = (text: string): ReturnType<typeof parseStripRules> => parseStripRules(text)

void t.test('a rule names a resource and its fields', async (t) => {
  const note = annotation('example.com/note')
  t.same(parseStripRule(`deployments.apps=${MANAGED}+${note}`), {
    resource: 'deployments.apps',
    paths: [MANAGED, note],
  })
  t.same(parseStripRule(`*=${MANAGED}`), { resource: '*', paths: [MANAGED] })
  for (const text of ['', 'pods', 'pods=', `Pods=${MANAGED}`, `=${MANAGED}`]) t.equal(parseStripRule(text), null, text)
  const text = `*=${MANAGED},pods=${note}`
  t.equal(formatStripRules([...rulesOf(text), ...rulesOf(text)]), text, 'each rule once')
  t.equal(formatStripRules(rulesOf(`pods=spec,nodes=${MANAGED},junk`)), `nodes=${MANAGED}`, 'unknown rules are ignored')
})

void t.test('what this server or kubectl reads can never be left out', async (t) => {
  const problem = (text: string): string => problemOfStripped(parseStripRule(text)!) ?? ''
  for (const field of [MANAGED, annotation('example.com/note'), LAST_APPLIED, annotation('notkubernetes.io/a')])
    t.equal(problem(`pods=${field}`), '', field)
  for (const field of ['spec', 'metadata', 'metadata.labels.a', 'metadata.annotations', 'metadata.uid', 'a['])
    t.match(problem(`pods=${field}`), /is neither metadata.managedFields nor an annotation/, field)
  // Mirror pods, versions of autoscalers, StorageClasses, daemon sets and priority levels, and bootstrap roles.
  for (const name of [
    'kubernetes.io/config.mirror',
    'autoscaling.alpha.kubernetes.io/metrics',
    'storageclass.kubernetes.io/is-default-class',
    'volume.beta.kubernetes.io/storage-class',
    'deprecated.daemonset.template.generation',
    'flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares',
    'rbac.authorization.kubernetes.io/autoupdate',
  ])
    t.match(problem(`pods=${annotation(name)}`), /read annotations of Kubernetes themselves/, name)
  t.match(problem(`*=${annotation('example.com/note')}`), /single resources only/)
  t.equal(problem(`*=${MANAGED}`), '')
})

void t.test('the rules of a resource, and of what shares its cache', async (t) => {
  const stripped = (id: string, text: string, columns: readonly string[] = []): readonly string[] | undefined => {
    const [plural, ...group] = id.split('.')
    const resource = { ...PODS, plural: plural!, group: group.join('.') }
    return strippedResource(
      resource,
      rulesOf(text),
      columns.map((jsonPath) => ({ jsonPath })),
    ).stripped
  }
  t.same(stripped('pods', `*=${MANAGED}`), [MANAGED])
  t.same(stripped('pods', `pods=${LAST_APPLIED},*=${MANAGED},pods=${MANAGED}`), [LAST_APPLIED, MANAGED])
  t.equal(stripped('pods', `nodes=${MANAGED}`), undefined)
  t.equal(stripped('pods.example.com', `pods=${MANAGED}`), undefined)
  for (const id of ['events', 'events.events.k8s.io']) {
    t.same(stripped(id, `events=${MANAGED}`), [MANAGED], id)
    t.same(stripped(id, `events.events.k8s.io=${MANAGED}`), [MANAGED], id)
  }
  const all = `*=${MANAGED}`
  for (const path of ['.metadata.creationTimestamp', '.metadata.labels.a', '.spec.managed', '.status.phase'])
    t.same(stripped('caches.example.com', all, [path]), [MANAGED], path)
  for (const path of [
    '.metadata.managedFields[0].manager',
    '.metadata',
    ".metadata['managedFields']",
    '.metadata.annotations.a',
    '..manager',
    '.*',
    '.metadata.labelsAndMore',
  ])
    t.equal(stripped('caches.example.com', all, [path]), undefined, path)
  const before = { ...PODS, stripped: [LAST_APPLIED] }
  t.same(strippedResource(before, rulesOf(all), []).stripped, [MANAGED], 'new rules replace those before')
  t.notOk('stripped' in strippedResource(before, [], []))
  t.notOk('stripped' in strippedResource({ ...PODS, holds: 'values' }, rulesOf(all), []))
})

void t.test('a selector cannot read a stripped field, or anything in it', async (t) => {
  const resource = strippedResource(PODS, rulesOf(`pods=${MANAGED}+${LAST_APPLIED}`), [])
  for (const label of [MANAGED, `${MANAGED}.manager`, LAST_APPLIED])
    t.throws(() => assertNotStripped(resource, label), { code: 400, message: /is left out here \(strip\)/ }, label)
  for (const label of ['metadata.name', 'metadata.annotations', annotation('example.com/a'), 'a['])
    t.doesNotThrow(() => assertNotStripped(resource, label), label)
  t.doesNotThrow(() => assertNotStripped(PODS, MANAGED))
  t.same(leftOutOf(resource)?.paths, [LAST_APPLIED, MANAGED])
  t.equal(leftOutOf(PODS), null)
})

void t.test('no built-in resource is stripped unless a rule says so', async (t) => {
  t.ok(wellKnownResources().every(({ resource }) => resource.stripped === undefined))
})
