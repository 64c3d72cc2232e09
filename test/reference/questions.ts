/**
 * Seeded random questions for both servers: gets, lists, selectors, response forms and short watches of every resource.
 */
import type { Question } from './ask.js'
import { groupPath } from './discovered.js'
import { namespaces } from './objects.js'
import type { Random } from './random.js'

/** One resource in one version, and its contents when the questions were generated. */
export interface Shelf {
  /** '' for the core group. */
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly isNamespaced: boolean
  /** The subresources that can be read. */
  readonly subresources: readonly string[]
  /** Selectable field labels other than name and namespace. */
  readonly fields: readonly string[]
  readonly objects: readonly { readonly namespace: string; readonly name: string; readonly revision: number }[]
  /** The revision of its etcd while nothing is written. */
  readonly revision: number
}

export interface Moment {
  readonly shelves: readonly Shelf[]
  /** Values worth selecting by, by field label. */
  readonly values: Readonly<Record<string, readonly string[]>>
}

export const V1 = 'v=v1;g=meta.k8s.io'
export const PROTOBUF = 'application/vnd.kubernetes.protobuf'
export const TABLE = `application/json;as=Table;${V1}`

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
    // The Accept header of the metadata client.
    `${PROTOBUF};as=${kind};${V1},${json},application/json`,
    `${PROTOBUF};as=${kind};${V1}`,
    `application/yaml;as=${kind};${V1}`,
    `application/json;as=${kind};v=v1beta1;g=meta.k8s.io`,
  ]
}

const OTHER_METADATA = { one: metadataForms('PartialObjectMetadata'), many: metadataForms('PartialObjectMetadataList') }

function form(random: Random, of: 'one' | 'many'): string {
  if (random.chance(0.82)) return random.pick(FORMS)
  // Occasionally the metadata form for the other kind of answer.
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

function revision(random: Random, { objects, revision: newest }: Shelf): string {
  const own = objects.length > 0 ? random.pick(objects).revision : newest
  const usual = ['0', '0', String(newest), String(own), String(own), String(1 + random.below(newest))]
  if (random.chance(0.06)) return random.pick(ODD_REVISIONS)
  // Takes three seconds, so it is rare.
  if (random.chance(0.008)) return String(newest + 1_000 + random.below(1_000))
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
    if (random.chance(0.9)) parameters.push(['resourceVersion', revision(random, shelf)])
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

/** The path of a collection. */
export function root({ group, version, plural }: Shelf, namespace: string | null): string {
  const inside = namespace === null ? '' : `/namespaces/${namespace}`
  return `${groupPath(group, version)}${inside}/${plural}`
}

function scopeOf(random: Random, shelf: Shelf): string | null {
  if (shelf.isNamespaced) return random.chance(0.4) ? null : random.pick([...namespaces, 'default', 'empty'])
  // Cluster-scoped resources have nothing in a namespace.
  return random.chance(0.02) ? 'default' : null
}

export function asked(
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
  if (random.chance(0.3)) parameters.push(['resourceVersion', revision(random, shelf)])
  if (random.chance(0.05)) parameters.push(['pretty', random.pick(['true', 'false', '1'])])
  if (random.chance(0.05)) parameters.push(['includeObject', random.pick(['None', 'Metadata', 'Object', 'Other'])])
  if (random.chance(0.03)) parameters.push(['resourceVersionMatch', random.pick(['Exact', 'NotOlderThan'])])
  const headers: Record<string, string> = random.chance(0.02) ? { 'user-agent': 'curl/8.5.0' } : {}
  const path = `${root(shelf, place)}/${name}${subresource}${query(parameters)}`
  return asked(path, form(random, 'one'), { method: random.chance(0.04) ? 'HEAD' : 'GET', headers })
}

/** A watch that ends within a second; the whole stream is compared. */
export function watchQuestion(random: Random, moment: Moment): Question {
  const shelf = random.pick(moment.shelves)
  const parameters: Parameters = [
    ['watch', random.pick(['1', 'true'])],
    ['timeoutSeconds', '1'],
  ]
  if (random.chance(0.3)) parameters.push(['labelSelector', random.pick(LABELS)])
  if (random.chance(0.25)) parameters.push(['fieldSelector', fieldSelector(random, moment, shelf)])
  if (random.chance(0.75)) parameters.push(['resourceVersion', revision(random, shelf)])
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
    // The deprecated watch paths.
    const inside = shelf.isNamespaced && random.chance(0.5) ? '/namespaces/default' : ''
    return asked(
      `${groupPath(shelf.group, shelf.version)}/watch${inside}/${shelf.plural}${query(parameters.slice(1))}`,
      accept,
    )
  }
  return asked(`${root(shelf, scopeOf(random, shelf))}${query(parameters)}`, accept, {
    method: random.chance(0.03) ? 'HEAD' : 'GET',
  })
}
