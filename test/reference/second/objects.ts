/** The objects of the second set: most are generated from a seed, some are written by hand. */
import type { Make, Stored } from '../definition-set.js'
import { FLOATS, INTEGERS, TEXTS, WORDS } from '../object-parts.js'
import type { Random } from '../random.js'

const maybe = (random: Random, probability: number, member: string): string[] =>
  random.chance(probability) ? [member] : []

function condition(random: Random, type: string, more = ''): string {
  const status = random.pick(['True', 'False', 'Unknown'])
  return `{"type":"${type}","status":"${status}","reason":"${random.pick(WORDS)}","message":"${random.pick(TEXTS)}"${more}}`
}

function conditions(random: Random, types: readonly string[]): string {
  return `[${random
    .some(types, random.below(types.length + 1))
    .map((type) => condition(random, type))
    .join(',')}]`
}

function source(random: Random): string {
  const parameters = `[{"name":"replicas","value":"${random.below(9)}"},{"name":"tag","value":"${random.pick(TEXTS)}","forceString":true,"gone":1}]`
  const members = [
    `"repoURL":"https://git.example.org/${random.pick(WORDS)}.git"`,
    ...maybe(random, 0.7, `"path":"deploy/${random.pick(WORDS)}"`),
    ...maybe(random, 0.5, `"targetRevision":"${random.pick(['HEAD', 'main', 'v1.2.3'])}"`),
    ...maybe(random, 0.4, `"helm":{"parameters":${parameters},"valuesObject":{"a":${random.pick(FLOATS)},"b":[null,{"c":{}}]}}`),
    ...maybe(random, 0.1, '"ref":null'),
  ] // prettier-ignore
  return `{${members.join(',')}}`
}

/** The members other than apiVersion, kind and metadata, by resource. */
export const makers: Readonly<Record<string, Make>> = {
  applications: (random) => {
    const history = Array.from(
      { length: random.below(4) },
      (_, id) => `{"id":${id === 3 ? '9007199254740993' : id},"revision":"r${id}","deployedAt":"2026-0${1 + random.below(9)}-02T03:04:05Z"}`,
    ) // prettier-ignore
    const spec = [
      `"project":"${random.pick(['default', 'platform', ''])}"`,
      `"destination":{"server":"https://kubernetes.default.svc","namespace":"${random.pick(WORDS)}"}`,
      random.chance(0.8) ? `"source":${source(random)}` : `"sources":[${source(random)},${source(random)}]`,
      ...maybe(random, 0.5, '"syncPolicy":{"automated":{"prune":true},"syncOptions":["CreateNamespace=true"],"retry":{"limit":-1,"backoff":{"factor":2}}}'),
      ...maybe(random, 0.2, `"revisionHistoryLimit":${random.pick(INTEGERS)}`),
      ...maybe(random, 0.2, '"syncPolicy2":{}'),
    ] // prettier-ignore
    const status = [
      `"health":{"status":"${random.pick(['Healthy', 'Progressing', 'Missing'])}"}`,
      `"sync":{"status":"${random.pick(['Synced', 'OutOfSync'])}","revision":"${random.below(1e9)}","comparedTo":{"source":${source(random)}}}`,
      `"history":[${history.join(',')}]`,
    ]
    const rest = [
      `"spec":{${spec.join(',')}}`,
      ...maybe(random, 0.6, `"status":{${status.join(',')}}`),
      ...maybe(random, 0.2, '"operation":{"initiatedBy":{"username":"ci"},"sync":{"revision":"HEAD","x":1}}'),
    ]
    return {
      version: 'v1alpha1',
      metadata: random.chance(0.4) ? { finalizers: '["resources-finalizer.deploy.example.org"]' } : {},
      rest: rest.join(','),
    }
  },
  virtualservices: (random, index) => {
    const uri = random.pick(['{"exact":"/a"}', '{"prefix":"/b","gone":true}', '{"regex":".*"}', '{}'])
    const http = [
      `"name":"${random.pick(WORDS)}"`,
      `"match":[{"uri":${uri},"headers":{"x-user":{"exact":"${random.pick(WORDS)}","x":1}}}]`,
      `"route":[{"destination":{"host":"${random.pick(WORDS)}","port":{"number":${random.pick(['80', '4294967295', '0'])}}},"weight":${random.below(101)}}]`,
      ...maybe(random, 0.3, `"timeout":"${random.pick(['1s', '250ms', ''])}"`),
      ...maybe(random, 0.3, `"retries":${random.pick(['null', '{"attempts":3,"retryRemoteLocalities":null}', '{}'])}`),
    ]
    const spec = [
      ...maybe(random, 0.9, `"hosts":["${random.pick(WORDS)}.example.org","*"]`),
      ...maybe(random, 0.5, `"gateways":["mesh","${random.pick(WORDS)}/gw"]`),
      `"http":[{${http.join(',')}}]`,
      ...maybe(random, 0.3, '"tcp":[{"match":[{"port":27017,"sourceLabels":{"app":"web"}}]}]'),
    ]
    const status = random.chance(0.5)
      ? {
          status: `{"status":{"observedGeneration":"${random.below(9)}","any":${random.pick(FLOATS)},"list":[null,1.0]}}`,
        }
      : {}
    return { version: ['v1alpha3', 'v1beta1', 'v1'][index % 3]!, rest: `"spec":{${spec.join(',')}}`, ...status }
  },
  httproutes: (random, index) => {
    const match = random.pick([
      '{}',
      '{"path":{"value":"/x"}}',
      '{"path":{"type":"Exact"}}',
      '{"path":{},"headers":[{"name":"a","value":"b"}]}',
      '{"method":"GET","gone":1}',
    ])
    const rules = random.pick([
      '[]',
      '[{}]',
      `[{"matches":[${match},{}],"backendRefs":[{"name":"${random.pick(WORDS)}","port":80}]}]`,
      `[{"matches":[]},{"backendRefs":[{"name":"a","group":"apps","weight":0},{"name":"b","filters":[{"type":"F"}]}],"timeouts":{"request":"10s"}}]`,
    ])
    const spec = [
      ...maybe(random, 0.7, `"hostnames":["${random.pick(WORDS)}.example.org","${random.pick(['a', 'b', 'ü'])}"]`),
      ...maybe(random, 0.7, `"parentRefs":[{"name":"gw"},{"name":"gw2","kind":"Service","port":1}]`),
      ...maybe(random, 0.7, `"rules":${rules}`),
    ]
    const status = random.chance(0.5)
      ? `{"status":{"parents":[{"controllerName":"c","parentRef":{"name":"gw"},"conditions":${conditions(random, ['Accepted', 'ResolvedRefs'])}}]}}`
      : null
    return {
      version: index % 4 === 0 ? 'v1beta1' : 'v1',
      rest: `"spec":{${spec.join(',')}}`,
      ...(status === null ? {} : { status }),
    }
  },
  certificaterequests: (random) => {
    const spec = [
      '"request":"LS0tLS1CRUdJTg=="',
      `"issuerRef":{"name":"${random.pick(WORDS)}","kind":"${random.pick(['Issuer', 'ClusterIssuer'])}","group":"${random.pick(['certs.example.org', ''])}"}`,
      ...maybe(random, 0.4, `"isCA":${random.chance(0.5)}`),
      ...maybe(random, 0.5, `"serial":${random.pick(INTEGERS)}`),
      ...maybe(random, 0.3, `"limits":{"a":null,"b":${random.pick(INTEGERS)}}`),
      ...maybe(random, 0.3, '"extra":{"scopes":["a","b"],"none":[]}'),
      ...maybe(random, 0.5, `"username":"system:serviceaccount:${random.pick(WORDS)}"`),
    ]
    const status = `{"status":{"conditions":${conditions(random, ['Approved', 'Denied', 'Ready'])}${random.chance(0.3) ? ',"failureTime":"2026-05-06T07:08:09Z"' : ''}}}`
    return { version: 'v1', rest: `"spec":{${spec.join(',')}}`, ...(random.chance(0.7) ? { status } : {}) }
  },
  compositepostgresqlinstances: (random) => {
    const spec = [
      `"parameters":{"storageGB":${random.below(1000)},"version":${random.pick(['14', '15.1', '1e1'])},"size":${random.pick(['5', '"large"', '"5"'])}}`,
      ...maybe(random, 0.6, `"compositionRef":{"name":"${random.pick(WORDS)}"}`),
      ...maybe(random, 0.4, '"compositionSelector":{"matchLabels":{"provider":"any","x":"y"}}'),
      ...maybe(random, 0.4, '"resourceRefs":[{"apiVersion":"v1","kind":"Secret","name":"s"},{"apiVersion":"v1","kind":"Nameless"}]'),
      ...maybe(random, 0.4, '"writeConnectionSecretToRef":{"name":"conn","namespace":"default"}'),
      ...maybe(random, 0.2, '"compositionUpdatePolicy":"Manual"'),
    ] // prettier-ignore
    const status = `{"status":{"conditions":${conditions(random, ['Synced', 'Ready'])},"address":"10.0.0.1","own":{"x":[1.50]}}}`
    return { version: 'v1beta1', rest: `"spec":{${spec.join(',')}}`, ...(random.chance(0.6) ? { status } : {}) }
  },
  scaledobjects: (random) => {
    const triggers = random.some(
      [
        '{"type":"prometheus","metadata":{"query":"sum(rate(x[2m]))","threshold":"100"}}',
        '{"type":"cron","metadata":{"timezone":"Europe/Berlin","start":"0 8 * * *"},"name":"office"}',
        '{"type":"kafka","metadata":{},"authenticationRef":{"name":"keys","gone":1},"useCachedMetrics":true}',
      ],
      1 + random.below(3),
    )
    const behaviour =
      '"advanced":{"restoreToOriginalReplicaCount":true,"behavior":{"scaleDown":{"stabilizationWindowSeconds":null,"policies":[{"type":"Pods","value":1},{"type":"Percent","value":10,"periodSeconds":60}]}}}'
    const spec = [
      `"scaleTargetRef":{"name":"${random.pick(WORDS)}"}`,
      `"triggers":[${triggers.join(',')}]`,
      ...maybe(random, 0.6, `"minReplicaCount":${random.below(3)}`),
      ...maybe(random, 0.6, `"maxReplicaCount":${random.pick(['10', '100', '2147483647'])}`),
      ...maybe(random, 0.3, `"workers":${random.pick(['{}', '{"count":0}', '{"count":7}'])}`),
      ...maybe(random, 0.4, behaviour),
    ]
    const status = [
      `"conditions":[${['Ready', 'Active', 'Fallback', 'Paused'].map((type) => condition(random, type)).join(',')}]`,
      ...maybe(random, 0.5, '"health":{"s0":{"numberOfFailures":3},"s1":{"status":"Failing","gone":1}}'),
      ...maybe(random, 0.5, `"workers":{"ready":${random.below(9)},"selector":"app=${random.pick(WORDS)}"}`),
      ...maybe(random, 0.5, '"lastActiveTime":"2026-02-03T04:05:06Z"'),
    ]
    return {
      version: 'v1alpha1',
      rest: `"spec":{${spec.join(',')}}`,
      ...(random.chance(0.8) ? { status: `{"status":{${status.join(',')}}}` } : {}),
    }
  },
  bundles: (random) => {
    const resource = random.pick([
      '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","labels":{"a":"b"},"creationTimestamp":null},"data":{"k":"v"}}',
      '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","annotations":{"x":"<y>"}},"spec":{"replicas":1.0}}',
    ])
    const spec = [
      ...maybe(random, 0.7, '"encryptedData":{"password":"AgBy3i4OJSWK"}'),
      ...maybe(random, 0.7, `"template":${random.pick(['null', '{"data":null,"metadata":null}', '{"type":"Opaque","immutable":true,"metadata":{"labels":{"x":1}}}'])}`),
      ...maybe(random, 0.7, `"resources":[${resource}]`),
      ...maybe(random, 0.5, '"byName":{"a":{"apiVersion":"v1","kind":"X","spec":{"note":null,"gone":1}},"b":{"apiVersion":"v1","kind":"Y","spec":{},"metadata":{"name":"n"}}}'),
      ...maybe(random, 0.5, '"job":{"apiVersion":"batch/v1","kind":"Job","spec":{"template":{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"l":"1"}},"spec":{"x":1}}}}'),
      ...maybe(random, 0.6, `"steps":[{"name":"one","with":${random.pick(['null', '{"n":9007199254740993}', '{"t":"<b>"}'])}},{"name":"two","timeout":5}]`),
      ...maybe(random, 0.3, '"selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]}'),
    ] // prettier-ignore
    const status = `{"status":{"observed":${random.pick(INTEGERS)},"conditions":${conditions(random, ['Synced'])},"more":{"f":${random.pick(FLOATS)}}}}`
    return { version: 'v1', rest: `"spec":{${spec.join(',')}}`, ...(random.chance(0.5) ? { status } : {}) }
  },
  tools: (random) => ({
    version: random.pick(['v2', 'v10', 'v3beta1', 'foo10', 'v1']),
    rest: `"spec":{"size":${random.pick([...INTEGERS, '"5Gi"', '"text"'])}}`,
  }),
}

export const counts: Readonly<Record<string, number>> = {
  applications: 60,
  virtualservices: 24,
  httproutes: 24,
  certificaterequests: 40,
  compositepostgresqlinstances: 16,
  scaledobjects: 30,
  bundles: 30,
  tools: 20,
}

function byHand(resource: string, apiVersion: string, kind: string, namespace: string | null) {
  const group = apiVersion.slice(0, apiVersion.indexOf('/'))
  return (name: string, rest: string, more = '', version = apiVersion): Stored => {
    const inside = namespace === null ? '' : `"namespace":"${namespace}",`
    const metadata = `{"name":"${name}",${inside}"uid":"uid-${name}","generation":2,"creationTimestamp":"2026-03-04T05:06:07Z"${more}}`
    return {
      key: `${group}/${resource}/${namespace === null ? '' : `${namespace}/`}${name}`,
      value: `{"apiVersion":"${version}","kind":"${kind}","metadata":${metadata},${rest}}\n`,
    }
  }
}

const route = byHand('httproutes', 'gateway.example.org/v1', 'HTTPRoute', 'default')
const request = byHand('certificaterequests', 'certs.example.org/v1', 'CertificateRequest', 'team-a')
const scaled = byHand('scaledobjects', 'autoscale.example.org/v1alpha1', 'ScaledObject', 'default')
const bundle = byHand('bundles', 'bundle.example.org/v1', 'Bundle', 'default')
const composite = byHand(
  'compositepostgresqlinstances',
  'database.platform.example.org/v1alpha1',
  'CompositePostgreSQLInstance',
  null,
)
const tool = byHand('tools', 'many.tools-2.example.org/v3beta1', 'Tool', null)

export const stored: readonly Stored[] = [
  route('by-hand-nulls', '"spec":{"rules":[null,{"matches":[null,{"path":null}]}],"parentRefs":[{"name":null,"port":null}]}'),
  route('by-hand-status', '"spec":{},"status":{"parents":null}'),
  route('by-hand-conditions', '"spec":{"rules":null},"status":{"parents":[{"conditions":[{"type":"A","x":1},null],"parentRef":{}}]}'),
  route('by-hand-beta', '"spec":{"rules":[{"backendRefs":[{"name":"x","weight":null}]}]}', '', 'gateway.example.org/v1beta1'),
  request('by-hand-big', '"spec":{"serial":null,"limits":{"x":null,"y":1e2,"z":"text"},"share":null,"request":5}'),
  request('by-hand-kinds', '"spec":{"issuerRef":{"kind":7,"group":true,"name":null},"isCA":"true","serial":1.5}'),
  request('by-hand-columns', '"spec":{"username":["a",{"b":1}]},"status":{"conditions":[{"type":"Ready","status":true,"message":12345678901234567890},{"type":"Ready","status":"second"}],"failureTime":"yesterday"}'),
  scaled('by-hand-max', '"spec":{"workers":{"count":2147483648},"maxReplicaCount":1.0},"status":{"workers":{"ready":-1,"selector":""}}'),
  scaled('by-hand-text', '"spec":{"workers":{"count":"3"}},"status":{"workers":{"ready":"1"}}'),
  scaled('by-hand-half', '"spec":{"workers":{"count":1.5}}'),
  scaled('by-hand-huge', '"spec":{"workers":{"count":9223372036854775808}}'),
  scaled('by-hand-negative', '"spec":{"workers":{"count":-5}},"status":{"workers":{"ready":2.0,"selector":7}}'),
  scaled('by-hand-bool', '"spec":{"workers":true},"status":[]'),
  scaled('by-hand-exponent', '"spec":{"workers":{"count":1e3}},"status":{"workers":{"ready":1e20}}'),
  scaled('by-hand-health', '"spec":{"triggers":{"type":"cron"}},"status":{"health":{"s0":null,"s1":7,"s2":{}}}'),
  bundle('by-hand-embedded', '"spec":{"resources":[null,7,{"apiVersion":5,"kind":"K","metadata":{"name":7,"labels":{"a":null}}}],"job":{"metadata":{"creationTimestamp":"no time"},"spec":{"template":null}}}'),
  bundle('by-hand-maps', '"spec":{"byName":{"a":null,"b":{"metadata":null,"spec":{"on":null}},"c":[]},"steps":[{"timeout":null},"x"]}'),
  bundle('by-hand-phase', '"spec":{"template":{"data":{"a":null},"metadata":{"x":null}}},"status":{"phase":null,"other":null}'),
  bundle('by-hand-no-status', '"spec":{}', ',"managedFields":[{"manager":"m","operation":"Update","apiVersion":"bundle.example.org/v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:x":{}}}}]'),
  composite('by-hand-alpha', '"spec":{"parameters":{"version":1.10,"size":null,"storageGB":9007199254740993}},"status":{"own":true}'),
  composite('by-hand-foreign', '"spec":{"parameters":{}}', ',"deletionTimestamp":"2026-03-05T00:00:00Z","deletionGracePeriodSeconds":0,"finalizers":["x/y"]', 'database.platform.example.org/v1beta1'),
  tool('by-hand-none', '"spec":{"size":null}'),
  tool('by-hand-float', '"spec":{"size":1.0}'),
  tool('by-hand-object', '"spec":{"size":{"b":1,"a":[]}}', '', 'many.tools-2.example.org/v1'),
  tool('by-hand-unserved', '"spec":{"size":3}', '', 'many.tools-2.example.org/v11alpha2'),
] // prettier-ignore

/** Values worth selecting by. */
export const values: Readonly<Record<string, readonly string[]>> = {
  'spec.project': ['default', 'platform', ''],
  'spec.destination.namespace': ['web', 'db', ''],
  'spec.issuerRef.group': ['certs.example.org', '', 'true'],
  'spec.issuerRef.kind': ['Issuer', 'ClusterIssuer', '7', ''],
  'spec.issuerRef.name': ['web', 'api', ''],
  'spec.isCA': ['true', 'false', ''],
  'spec.serial': ['9007199254740993', '9007199254740992', '1', '1.5', ''],
  'spec.compositionUpdatePolicy': ['Automatic', 'Manual', ''],
  'spec.compositionRef.name': ['web', ''],
  'spec.scaleTargetRef.name': ['web', 'api', ''],
  'spec.scaleTargetRef.kind': ['Deployment', ''],
  'spec.maxReplicaCount': ['10', '100', '1.0', ''],
  'spec.advanced.restoreToOriginalReplicaCount': ['true', ''],
  'status.phase': ['Pending', '', 'null'],
  'spec.template.immutable': ['true', 'false', ''],
}
