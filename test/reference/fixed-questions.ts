/** Questions that are asked once: all of discovery, and the corner cases of each resource. */
import type { Question } from './ask.js'
import type { Definition } from '../support/definition.js'
import { groupPath } from './discovered.js'
import { oddShardQuestions, shardQuestions } from './shard-questions.js'
import { asked, type Moment, PROTOBUF, root, type Shelf, TABLE, V1 } from './questions.js'

const FORMS = ['application/json', 'application/yaml', `${PROTOBUF},application/json`, PROTOBUF, '*/*', '', 'text/html']
const AGGREGATED = ['v2', 'v2beta1'].map(
  (version) => `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`,
)
const HEALTH = [
  '/healthz',
  '/livez',
  '/readyz',
  '/healthz/ping',
  '/livez/ping',
  '/readyz/ping',
  '/readyz/etcd',
  '/livez/nothing',
]

/** Discovery, OpenAPI, health, and requests that only a person would type. */
export function serverQuestions({ shelves }: Moment): readonly Question[] {
  const questions: Question[] = []
  const groups = new Set([...shelves.map(({ group }) => group).filter((group) => group !== ''), 'nobody.example.com'])
  for (const path of ['/api', '/apis', ...[...groups].map((group) => `/apis/${group}`)])
    for (const accept of FORMS) questions.push(asked(path, accept), asked(`${path}/`, accept))
  for (const path of ['/api', '/apis'])
    for (const accept of AGGREGATED)
      questions.push(
        asked(path, accept),
        asked(path, `${AGGREGATED.join(',')},application/json`),
        asked(path, accept.replace('json', 'yaml')),
        asked(path, accept.replace('application/json', PROTOBUF)),
      )
  const versions = new Set(shelves.map(({ group, version }) => groupPath(group, version)))
  for (const path of [...versions, '/api/v9', '/api/V1', '/apis/apps/v9', '/apis/apps/V1'])
    questions.push(
      ...FORMS.map((accept) => asked(path, accept)),
      asked(`${path}/`, ''),
      asked(path, '', { method: 'HEAD' }),
      asked(`${path}/nothing`, ''),
      ...['application/json', 'application/com.github.proto-openapi.spec.v3@v1.0+protobuf', '*/*', ''].map((accept) =>
        asked(`/openapi/v3${path}`, accept),
      ),
    )
  for (const accept of ['application/json', 'application/com.github.proto-openapi.spec.v2@v1.0+protobuf', '*/*', ''])
    questions.push(asked('/openapi/v2', accept))
  questions.push(asked('/openapi/v3', 'application/json'), asked('/openapi/v3', ''))
  for (const path of [...HEALTH, '/', '/index.html', '/version', '/version/'])
    questions.push(asked(path, ''), asked(path, 'application/json'), asked(path, '', { method: 'HEAD' }))
  for (const path of ['/%61pi/%76%31', '/api%2Fv1%2Fpods', '/%61pis/apps', '/%2Fapi/v1'])
    questions.push(asked(path, 'application/json'))
  for (const method of ['PROPFIND', 'TRACE', 'QUERY'])
    for (const path of ['/api/v1/pods', '/api/v1/namespaces/default/pods/nobody', '/apis/apps/v1/nothing', '/nothing'])
      questions.push(asked(path, 'application/json', { method }))
  // Resources that can be written but not read.
  for (const path of [
    ...['subjectaccessreviews', 'selfsubjectaccessreviews', 'selfsubjectrulesreviews'].map(
      (name) => `/apis/authorization.k8s.io/v1/${name}`,
    ),
    ...['tokenreviews', 'selfsubjectreviews'].map((name) => `/apis/authentication.k8s.io/v1/${name}`),
    '/api/v1/namespaces/default/bindings',
  ])
    questions.push(asked(path, 'application/json'))
  questions.push(...oddShardQuestions())
  return questions
}

/** Questions about the versions of a definition that are not served. */
export function unservedQuestions({ group, plural, versions }: Definition): readonly Question[] {
  return versions
    .filter(({ served = true }) => !served)
    .flatMap(({ name }) =>
      [plural, `${plural}/nobody`, `${plural}/nobody/status`, `namespaces/default/${plural}`].flatMap((path) =>
        ['application/json', TABLE].map((accept) => asked(`/apis/${group}/${name}/${path}`, accept)),
      ),
    )
}

const WHOLE = [
  'application/json',
  'application/yaml',
  PROTOBUF,
  TABLE,
  TABLE.replace(';as=Table', ';as=PartialObjectMetadata'),
]
const MOST_OBJECTS = 12

/** Field labels that built-in kinds can be selected by, and one that no kind has. */
const FIELDS = [
  'metadata.uid', 'spec.nodeName', 'spec.restartPolicy', 'spec.schedulerName', 'spec.serviceAccountName', 'spec.hostNetwork', 'spec.unschedulable',
  'spec.clusterIP', 'spec.type', 'spec.signerName', 'spec.replicas', 'status.phase', 'status.podIP', 'status.podIPs', 'status.nominatedNodeName', 'status.replicas',
  'status.successful', 'type', 'reason', 'reportingComponent', 'source', 'involvedObject.kind', 'involvedObject.uid', 'regarding.name', 'spec.nodeNme',
] as const // prettier-ignore

export function shelfQuestions(shelf: Shelf): readonly Question[] {
  const questions: Question[] = []
  const path = root(shelf, null)
  const version = groupPath(shelf.group, shelf.version)
  const one = shelf.objects[0]
  const pathOf = (object: Shelf['objects'][number]): string =>
    `${root(shelf, shelf.isNamespaced ? object.namespace : null)}/${object.name}`
  const object = one === undefined ? `${path}/nobody` : pathOf(one)
  const name = one?.name ?? 'nobody'
  for (const odd of [
    `${path}/`, `${path}?`, `${path}?&&`, `${path}?=`, `${path}?limit`, `${path}?limit=1&limit=2`, `${path}?labelSelector=%`, `${path}?labelSelector=app+in+()`,
    `${path}?resourceVersion=00`, `${path}?resourceVersion=9223372036854775808`, `${path}?timeoutSeconds=abc`, `${path}?fieldSelector==`,
    `${path}?fieldSelector=metadata.name%3D${name}&limit=1`, path.replace(/^\/(apis?)\//, '/$1//'), `/${path}`, path.replace(/\/([^/]+)$/, '//$1'),
    `${object}/`, `${object}?watch=1&timeoutSeconds=1`, `${object}?limit=abc`, `${object}?labelSelector=(`, `${object}/status`, `${object}/scale`, `${object}/status/`,
    `${object}?resourceVersion=00`, `${object}?resourceVersion=abc`, `${object}?includeObject=Other`, `${path}/%2F`, `${path}/a%2Fb`, `${path}/%00`, `${path}/..`, `${path}/.`,
    `${path}?pretty=true&labelSelector=(`, `${path}/nobody?pretty=true`, `${path}?pretty`, `${path}?watch=true&resourceVersion=1&labelSelector=(`,
    `${path}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3D${name}`, `${path}?watch=maybe&timeoutSeconds=1`, `${path}?allowWatchBookmarks=x`,
    `${path}?resourceVersionMatch=Exact`, `${path}?resourceVersionMatch=Exact&resourceVersion=0`, `${path}?continue=abc&resourceVersion=5`, `${path}?continue=abc&resourceVersionMatch=Exact`,
    `${version}/watch/${shelf.plural}/${name}?timeoutSeconds=1`, `${version}/namespaces/default`,
    `${version}/namespaces//${shelf.plural}`, `${version}/${shelf.plural.toUpperCase()}`,
    `${path}?limit=500&continue=`, `${path}?limit=-1`, `${path}?resourceVersion=-1`,
  ]) questions.push(asked(odd, 'application/json')) // prettier-ignore
  questions.push(
    asked(`${path}?watch=1&timeoutSeconds=1`, '', { method: 'HEAD' }),
    asked(path, '', { method: 'HEAD' }),
    asked(object, '', { method: 'HEAD' }),
    asked(`${object}/status`, '', { method: 'HEAD' }),
    asked(`${object}/scale`, '', { method: 'HEAD' }),
  )
  for (const part of new Set([...shelf.subresources, 'status', 'scale', 'nothing'])) {
    questions.push(asked(`${path}/nobody/${part}`, ''))
    for (const other of shelf.objects.slice(1, 4)) {
      const itself = `${pathOf(other)}/${part}`
      for (const accept of ['application/json', 'application/yaml', TABLE]) questions.push(asked(itself, accept))
      questions.push(asked(itself, `application/json;as=PartialObjectMetadata;${V1}`))
    }
  }
  questions.push(asked(path, 'application/json', { headers: { 'accept-encoding': 'gzip' } }))
  for (const include of ['None', 'Metadata', 'Object', 'Other', ''])
    questions.push(asked(`${path}?includeObject=${include}`, TABLE))
  for (const version of ['v1', 'v1beta1']) {
    questions.push(asked(path, `application/json;as=PartialObjectMetadataList;v=${version};g=meta.k8s.io`))
    questions.push(asked(object, `application/json;as=PartialObjectMetadata;v=${version};g=meta.k8s.io`))
    questions.push(asked(object, `application/json;as=Table;v=${version};g=meta.k8s.io`))
    questions.push(asked(path, `${PROTOBUF};as=PartialObjectMetadataList;v=${version};g=meta.k8s.io`))
    questions.push(asked(object, `${PROTOBUF};as=PartialObjectMetadata;v=${version};g=meta.k8s.io`))
  }
  // Every object, in every form that contains all of it.
  for (const other of shelf.objects.slice(0, MOST_OBJECTS))
    for (const accept of WHOLE) questions.push(asked(pathOf(other), accept))
  for (const accept of WHOLE) questions.push(asked(path, accept), asked(`${path}?limit=2`, accept))
  for (const field of [...FIELDS, ...shelf.fields])
    questions.push(asked(`${path}?fieldSelector=${field}%3Dx`, 'application/json'))
  for (const label of ['app=web', 'app!=web', 'app in (web,api),!x', 'app=a b', 'example.com/team'])
    questions.push(asked(`${path}?labelSelector=${encodeURIComponent(label)}`, 'application/json'))
  questions.push(...shardQuestions(shelf))
  return questions
}
