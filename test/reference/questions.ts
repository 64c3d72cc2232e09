/**
 * The questions for both servers: everything in discovery and the odd corners, once; and a seeded number of gets,
 * lists, pages, selectors, forms and short watches of every resource.
 */
import type { Question } from './ask.js'
import type { Definition } from './definition.js'
import { namespaces } from './objects.js'
import type { Random } from './random.js'

/** One resource in one version, and what it held when the questions were made up. */
export interface Shelf {
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly isNamespaced: boolean
  readonly subresources: readonly string[]
  /** Field labels that it can be selected by, besides name and namespace. */
  readonly fields: readonly string[]
  readonly objects: readonly { readonly namespace: string; readonly name: string; readonly revision: number }[]
}

export interface Moment {
  readonly shelves: readonly Shelf[]
  /** By field label: what it is worth selecting by. */
  readonly values: Readonly<Record<string, readonly string[]>>
  /** etcd's revision while nothing is written. */
  readonly revision: number
}

const V1 = 'v=v1;g=meta.k8s.io'
const PROTOBUF = 'application/vnd.kubernetes.protobuf'
const TABLE = `application/json;as=Table;${V1}`

const FORMS: readonly string[] = [
  ...Array<string>(8).fill('application/json'),
  ...Array<string>(4).fill(TABLE),
  ...Array<string>(3).fill('application/yaml'),
  `${TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json`,
  `${TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json`,
  'application/json;as=Table;v=v1beta1;g=meta.k8s.io',
  `application/yaml;as=Table;${V1}`,
  `${PROTOBUF},application/json`,
  `${PROTOBUF},application/json`,
  PROTOBUF,
  '',
  '*/*',
  'application/*',
  'application/json;q=0.5,application/yaml;q=0.9',
  'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
  'text/html',
  'application/cbor',
  'application/json;as=Nothing;v=v1;g=meta.k8s.io',
  'application/json;as=Table;v=v9;g=meta.k8s.io',
  `${PROTOBUF};as=Table;${V1}`,
]

function metadataForms(kind: 'PartialObjectMetadata' | 'PartialObjectMetadataList'): readonly string[] {
  const json = `application/json;as=${kind};${V1}`
  return [
    json,
    json,
    // As the metadata client asks.
    `${PROTOBUF};as=${kind};${V1},${json},application/json`,
    `${PROTOBUF};as=${kind};${V1}`,
    `application/yaml;as=${kind};${V1}`,
    `application/json;as=${kind};v=v1beta1;g=meta.k8s.io`,
  ]
}

const OTHER_METADATA = { one: metadataForms('PartialObjectMetadata'), many: metadataForms('PartialObjectMetadataList') }

function form(random: Random, of: 'one' | 'many'): string {
  if (random.chance(0.82)) return random.pick(FORMS)
  // Now and then what belongs to the other.
  return random.pick(OTHER_METADATA[random.chance(0.9) ? of : of === 'one' ? 'many' : 'one'])
}

const LABELS = [
  'app=web', 'app==web', 'app!=web', 'app', '!app', 'app in (web,api)', 'app notin (web)', 'app=web,tier', 'tier!=db,app',
  'example.com/team=api', 'app=', 'x in (db)', 'app in (web,),tier', 'app=nobody', 'app in ()', 'app notin ()', 'x>1', 'x<5',
  'app=web,app=api', ' app = web ', 'app in (web', 'app=web=x', ',', 'app,', '=web', 'app=a b', '-app', 'app=web,,tier', 'app>x', 'app==', 'a/b/c=d', '!app=web',
] as const // prettier-ignore

const ODD_FIELDS = [
  'metadata.name=', 'metadata.name!=nobody', '=', '==', 'metadata.name', 'spec.nothing=x', 'metadata.labels=x', 'metadata.uid=x',
  'metadata.name=a,metadata.name=b', 'metadata.name=a\\,b', 'metadata.name=a\\x', 'metadata.name==', 'a=b=c', ',',
] as const // prettier-ignore

function fieldSelector(random: Random, moment: Moment, shelf: Shelf): string {
  const { name, namespace } =
    shelf.objects.length > 0 ? random.pick(shelf.objects) : { name: 'nobody', namespace: 'default' }
  const known = shelf.fields.map(
    (field) => `${field}${random.pick(['=', '==', '!='])}${random.pick(moment.values[field] ?? [''])}`,
  )
  const usual = [
    `metadata.name=${name}`,
    `metadata.name!=${name}`,
    `metadata.namespace=${namespace}`,
    ...known,
    ...known,
    ...known,
  ]
  if (random.chance(0.1)) return `${random.pick(usual)},${random.pick(usual)}`
  return random.chance(0.12) ? random.pick(ODD_FIELDS) : random.pick(usual)
}

const ODD_REVISIONS = [
  'abc',
  '00',
  '01',
  '-1',
  '1.5',
  ' 5',
  '9223372036854775807',
  '9223372036854775808',
  '99999999999999999999',
  '0x10',
  '1e3',
  '+5',
] as const

function revision(random: Random, moment: Moment, shelf: Shelf): string {
  const own = shelf.objects.length > 0 ? random.pick(shelf.objects).revision : moment.revision
  const usual = ['0', '0', String(moment.revision), String(own), String(own), String(1 + random.below(moment.revision))]
  if (random.chance(0.06)) return random.pick(ODD_REVISIONS)
  // Costs three seconds: now and then.
  if (random.chance(0.008)) return String(moment.revision + 1_000 + random.below(1_000))
  return random.pick(usual)
}

type Parameters = [name: string, value: string][]

function listParameters(random: Random, moment: Moment, shelf: Shelf): Parameters {
  const parameters: Parameters = []
  if (random.chance(0.35)) parameters.push(['labelSelector', random.pick(LABELS)])
  if (random.chance(0.3)) parameters.push(['fieldSelector', fieldSelector(random, moment, shelf)])
  if (random.chance(0.3))
    parameters.push([
      'limit',
      random.pick(['1', '2', '5', '50', '500', '0', '1', '3', '-1', 'abc', '1.5', '99999999999999999999']),
    ])
  if (random.chance(0.4)) {
    if (random.chance(0.9)) parameters.push(['resourceVersion', revision(random, moment, shelf)])
    if (random.chance(0.45))
      parameters.push([
        'resourceVersionMatch',
        random.pick(['Exact', 'NotOlderThan', 'Exact', 'NotOlderThan', 'Other', '']),
      ])
  }
  if (random.chance(0.04)) parameters.push(['timeoutSeconds', random.pick(['5', 'abc', '0', '-1'])])
  if (random.chance(0.04)) parameters.push(['sendInitialEvents', random.pick(['true', 'false', 'x'])])
  if (random.chance(0.05)) parameters.push(['includeObject', random.pick(['None', 'Metadata', 'Object', 'Other', ''])])
  if (random.chance(0.05)) parameters.push(['pretty', random.pick(['true', 'false', '1', '0', 'x'])])
  if (random.chance(0.04))
    parameters.push(['continue', random.pick(['abc', 'e30', 'eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ', ''])])
  if (random.chance(0.03)) parameters.push(['watch', random.pick(['false', '0'])])
  if (random.chance(0.02)) parameters.push(['unknown', 'x'])
  return parameters
}

export function query(parameters: Parameters): string {
  const pairs = parameters.map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`
}

function root(shelf: Shelf, namespace: string | null): string {
  const inside = namespace === null ? '' : `/namespaces/${namespace}`
  return `/apis/${shelf.group}/${shelf.version}${inside}/${shelf.plural}`
}

function scopeOf(random: Random, shelf: Shelf): string | null {
  if (shelf.isNamespaced) return random.chance(0.4) ? null : random.pick([...namespaces, 'default', 'empty'])
  // A cluster-scoped resource has nothing in a namespace.
  return random.chance(0.02) ? 'default' : null
}

function asked(
  path: string,
  accept: string,
  more: Partial<Question> & { headers?: Record<string, string> } = {},
): Question {
  return { method: 'GET', path, ...more, headers: { ...(accept === '' ? {} : { accept }), ...more.headers } }
}

export function listQuestion(random: Random, moment: Moment): Question {
  const shelf = random.pick(moment.shelves)
  const path = `${root(shelf, scopeOf(random, shelf))}${query(listParameters(random, moment, shelf))}`
  const headers: Record<string, string> = {}
  if (random.chance(0.05)) headers['accept-encoding'] = 'gzip'
  if (random.chance(0.02))
    headers['user-agent'] = random.pick(['curl/8.5.0', 'Mozilla/5.0 (X11)', 'Wget/1.21', 'kubectl/v1.37.0'])
  return asked(path, form(random, 'many'), { method: random.chance(0.03) ? 'HEAD' : 'GET', headers })
}

export function getQuestion(random: Random, moment: Moment): Question {
  const shelf = random.pick(moment.shelves)
  const known = shelf.objects.length > 0 && random.chance(0.93)
  const { name, namespace } = known
    ? random.pick(shelf.objects)
    : {
        name: random.pick(['nobody', 'Nobody', 'a%2Fb', 'a.b', 'a%25b', '%2E%2E', '%C3%BC']),
        namespace: random.pick(namespaces),
      }
  const place = shelf.isNamespaced ? (random.chance(0.03) ? random.pick(namespaces) : namespace) : null
  const subresource = random.chance(0.25)
    ? `/${random.pick([...shelf.subresources, ...shelf.subresources, 'status', 'scale', 'nothing'])}`
    : ''
  const parameters: Parameters = []
  if (random.chance(0.3)) parameters.push(['resourceVersion', revision(random, moment, shelf)])
  if (random.chance(0.05)) parameters.push(['pretty', random.pick(['true', 'false', '1'])])
  if (random.chance(0.05)) parameters.push(['includeObject', random.pick(['None', 'Metadata', 'Object', 'Other'])])
  if (random.chance(0.03)) parameters.push(['resourceVersionMatch', random.pick(['Exact', 'NotOlderThan'])])
  const headers: Record<string, string> = random.chance(0.02) ? { 'user-agent': 'curl/8.5.0' } : {}
  const path = `${root(shelf, place)}/${name}${subresource}${query(parameters)}`
  return asked(path, form(random, 'one'), { method: random.chance(0.04) ? 'HEAD' : 'GET', headers })
}

/** A watch that ends within a second, the whole of which is compared. */
export function watchQuestion(random: Random, moment: Moment): Question {
  const shelf = random.pick(moment.shelves)
  const parameters: Parameters = [
    ['watch', random.pick(['1', 'true'])],
    ['timeoutSeconds', '1'],
  ]
  if (random.chance(0.3)) parameters.push(['labelSelector', random.pick(LABELS)])
  if (random.chance(0.25)) parameters.push(['fieldSelector', fieldSelector(random, moment, shelf)])
  if (random.chance(0.75)) parameters.push(['resourceVersion', revision(random, moment, shelf)])
  if (random.chance(0.3))
    parameters.push(
      ['sendInitialEvents', random.pick(['true', 'true', 'false'])],
      ['resourceVersionMatch', 'NotOlderThan'],
    )
  else if (random.chance(0.04)) parameters.push(['resourceVersionMatch', random.pick(['Exact', 'NotOlderThan'])])
  if (random.chance(0.4)) parameters.push(['allowWatchBookmarks', random.pick(['true', 'true', '1', 'x'])])
  if (random.chance(0.05)) parameters.push(['includeObject', random.pick(['None', 'Object', 'Other'])])
  const accepts = [
    'application/json',
    'application/json',
    'application/json;stream=watch',
    '',
    TABLE,
    'application/yaml',
    `application/json;as=PartialObjectMetadata;${V1}`,
    `${PROTOBUF};stream=watch`,
    `${PROTOBUF},application/json`,
  ]
  const accept = random.pick(accepts)
  if (random.chance(0.08)) {
    // The old paths.
    const inside = shelf.isNamespaced && random.chance(0.5) ? '/namespaces/default' : ''
    return asked(
      `/apis/${shelf.group}/${shelf.version}/watch${inside}/${shelf.plural}${query(parameters.slice(1))}`,
      accept,
    )
  }
  return asked(`${root(shelf, scopeOf(random, shelf))}${query(parameters)}`, accept, {
    method: random.chance(0.03) ? 'HEAD' : 'GET',
  })
}

/** Discovery, OpenAPI, health, and what only a person at a keyboard sends. */
export function fixedQuestions(moment: Moment, definitions: readonly Definition[]): readonly Question[] {
  const questions: Question[] = []
  const json = [
    'application/json',
    'application/yaml',
    `${PROTOBUF},application/json`,
    PROTOBUF,
    '*/*',
    '',
    'text/html',
  ]
  const groups = new Set([...definitions.map(({ group }) => group), 'apiextensions.k8s.io', 'nobody.example.com'])
  for (const group of groups)
    for (const accept of json) questions.push(asked(`/apis/${group}`, accept), asked(`/apis/${group}/`, accept))
  const versions = new Set(definitions.flatMap(({ group, versions }) => versions.map(({ name }) => `${group}/${name}`)))
  for (const version of [
    ...versions,
    'apiextensions.k8s.io/v1',
    `${definitions[0]!.group}/v9`,
    `${definitions[0]!.group}/V1`,
  ]) {
    for (const accept of json) questions.push(asked(`/apis/${version}`, accept))
    questions.push(
      asked(`/apis/${version}/`, ''),
      asked(`/apis/${version}`, '', { method: 'HEAD' }),
      asked(`/apis/${version}/nothing`, ''),
    )
    for (const accept of [
      'application/json',
      `application/com.github.proto-openapi.spec.v3@v1.0+protobuf`,
      '*/*',
      '',
    ]) {
      questions.push(asked(`/openapi/v3/apis/${version}`, accept))
    }
  }
  for (const { group, plural, versions } of definitions) {
    for (const { name } of versions.filter(({ served = true }) => !served)) {
      for (const path of [plural, `${plural}/nobody`, `${plural}/nobody/status`, `namespaces/default/${plural}`])
        for (const accept of ['application/json', TABLE])
          questions.push(asked(`/apis/${group}/${name}/${path}`, accept))
    }
  }
  for (const path of [
    '/healthz',
    '/livez',
    '/readyz',
    '/healthz/ping',
    '/livez/ping',
    '/readyz/ping',
    '/',
    '/index.html',
    '/readyz/etcd',
    '/livez/nothing',
    '/version',
    '/version/',
  ]) {
    questions.push(asked(path, ''), asked(path, 'application/json'), asked(path, '', { method: 'HEAD' }))
  }
  for (const shelf of moment.shelves) {
    const path = root(shelf, null)
    const one = shelf.objects[0]
    const object =
      one === undefined ? `${path}/nobody` : `${root(shelf, shelf.isNamespaced ? one.namespace : null)}/${one.name}`
    const name = one?.name ?? 'nobody'
    for (const odd of [
      `${path}/`, `${path}?`, `${path}?&&`, `${path}?=`, `${path}?limit`, `${path}?limit=1&limit=2`, `${path}?labelSelector=%`, `${path}?labelSelector=app+in+()`,
      `${path}?resourceVersion=00`, `${path}?resourceVersion=9223372036854775808`, `${path}?timeoutSeconds=abc`, `${path}?fieldSelector==`,
      `${path}?fieldSelector=metadata.name%3D${name}&limit=1`, path.replace('/apis/', '/apis//'), `/${path}`, path.replace(/\/([^/]+)$/, '//$1'),
      `${object}/`, `${object}?watch=1&timeoutSeconds=1`, `${object}?limit=abc`, `${object}?labelSelector=(`, `${object}/status`, `${object}/scale`, `${object}/status/`,
      `${object}?resourceVersion=00`, `${object}?resourceVersion=abc`, `${object}?includeObject=Other`, `${path}/%2F`, `${path}/a%2Fb`, `${path}/%00`, `${path}/..`, `${path}/.`,
      `${path}?pretty=true&labelSelector=(`, `${path}/nobody?pretty=true`, `${path}?pretty`, `${path}?watch=true&resourceVersion=1&labelSelector=(`,
      `${path}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3D${name}`, `${path}?watch=maybe&timeoutSeconds=1`, `${path}?allowWatchBookmarks=x`,
      `${path}?resourceVersionMatch=Exact`, `${path}?resourceVersionMatch=Exact&resourceVersion=0`, `${path}?continue=abc&resourceVersion=5`, `${path}?continue=abc&resourceVersionMatch=Exact`,
      `/apis/${shelf.group}/${shelf.version}/watch/${shelf.plural}/${name}?timeoutSeconds=1`, `/apis/${shelf.group}/${shelf.version}/namespaces/default`,
      `/apis/${shelf.group}/${shelf.version}/namespaces//${shelf.plural}`, `/apis/${shelf.group}/${shelf.version}/${shelf.plural.toUpperCase()}`,
      `${path}?limit=500&continue=`, `${path}?limit=-1`, `${path}?resourceVersion=-1`,
    ]) questions.push(asked(odd, 'application/json')) // prettier-ignore
    questions.push(
      asked(`${path}?watch=1&timeoutSeconds=1`, '', { method: 'HEAD' }),
      asked(path, '', { method: 'HEAD' }),
      asked(object, '', { method: 'HEAD' }),
      asked(`${object}/status`, '', { method: 'HEAD' }),
      asked(`${object}/scale`, '', { method: 'HEAD' }),
    )
    for (const part of ['status', 'scale', 'nothing']) {
      questions.push(asked(`${path}/nobody/${part}`, ''))
      for (const other of shelf.objects.slice(1, 4)) {
        const itself = `${root(shelf, shelf.isNamespaced ? other.namespace : null)}/${other.name}/${part}`
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
  }
  return questions
}
