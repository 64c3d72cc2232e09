/**
 * Chooses the form of a response. The clauses of Accept are tried best first, and the first that can be honoured
 * wins. A clause for a form that the verb does not have (a watch in YAML, a list as PartialObjectMetadata) is
 * skipped, so that `application/json;as=Table;…,application/json` degrades as intended. If no clause is left, the
 * response is a 406 that lists the available media types.
 *
 * Source: negotiation in kubernetes/apiserver and KEP-5958 (`drop`), with two differences: q=0 refuses (RFC 9110), and a watch tries the
 * next clause where the API server would respond with 406.
 */
import { MANAGED_FIELDS } from '../codec/left-out-fields.js'
import { NotAcceptableError } from '../model/status.js'
import { type AcceptClause, parseAccept } from './media-type.js'
import { type Query, parameter } from './query.js'

export type Encoding = 'json' | 'yaml' | 'protobuf'
export type Transform = 'none' | 'table' | 'partial'
/** A verb whose response has a form of the client's choice. A poll is a watch whose response is one JSON document. */
export type FormVerb = 'get' | 'list' | 'watch' | 'poll'
export type Stream = 'none' | 'json-lines' | 'protobuf-frames' | 'sse'

export const JSON_MEDIA_TYPE = 'application/json'
export const YAML_MEDIA_TYPE = 'application/yaml'
export const PROTOBUF_MEDIA_TYPE = 'application/vnd.kubernetes.protobuf'
const SSE_MEDIA_TYPE = 'text/event-stream'
/** The parameters of aggregated discovery, in every encoding. */
const AGGREGATED_DISCOVERY = ';g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'

/** The versions of Table and PartialObjectMetadata, which differ only in name. */
export type MetaVersion = 'meta.k8s.io/v1' | 'meta.k8s.io/v1beta1'

export interface Negotiated {
  readonly encoding: Encoding
  readonly transform: Transform
  /** The version that a transformed object names. */
  readonly metaVersion: MetaVersion
  /** The stream is 'none' unless the verb is watch. */
  readonly stream: Stream
  readonly contentType: string
  /** Whether the clause itself requests indented output (`;pretty=1`). @see isPretty */
  readonly pretty: boolean
  /** Whether the clause leaves out `metadata.managedFields` (`;drop=metadata.managedFields`). */
  readonly dropsManagedFields: boolean
}

export interface Servable {
  /**
   * Whether the resource's objects can be written in protobuf. Default true; false for custom resources, as in
   * Kubernetes.
   */
  readonly protobufObjects?: boolean
  /** Whether there are objects that can be transformed. Default true; false for documents such as discovery. */
  readonly hasObjects?: boolean
}

interface Format {
  /** The media type that a client requests. */
  readonly mediaType: string
  readonly encoding: Encoding
  readonly stream: Stream
  readonly contentType: string
}

/** The order in which a wildcard chooses a format. */
const WHOLE_FORMATS: readonly Format[] = [
  { mediaType: JSON_MEDIA_TYPE, encoding: 'json', stream: 'none', contentType: JSON_MEDIA_TYPE },
  { mediaType: YAML_MEDIA_TYPE, encoding: 'yaml', stream: 'none', contentType: YAML_MEDIA_TYPE },
  { mediaType: PROTOBUF_MEDIA_TYPE, encoding: 'protobuf', stream: 'none', contentType: PROTOBUF_MEDIA_TYPE },
]

const WATCH_FORMATS: readonly Format[] = [
  { mediaType: JSON_MEDIA_TYPE, encoding: 'json', stream: 'json-lines', contentType: JSON_MEDIA_TYPE },
  {
    mediaType: PROTOBUF_MEDIA_TYPE,
    encoding: 'protobuf',
    stream: 'protobuf-frames',
    contentType: `${PROTOBUF_MEDIA_TYPE};stream=watch`,
  },
  { mediaType: SSE_MEDIA_TYPE, encoding: 'json', stream: 'sse', contentType: SSE_MEDIA_TYPE },
]

const FORMATS: Readonly<Record<FormVerb, readonly Format[]>> = {
  get: WHOLE_FORMATS,
  list: WHOLE_FORMATS,
  watch: WATCH_FORMATS,
  poll: WATCH_FORMATS.filter(({ stream }) => stream === 'json-lines'),
}

/**
 * @param accept the header; JSON when it is absent or empty.
 * @throws NotAcceptableError naming the available media types; BadRequestError when the header is too long to read.
 */
export function negotiate(accept: string | undefined, verb: FormVerb, servable: Servable = {}): Negotiated {
  const formats = FORMATS[verb]
  const chosen = choose<Negotiated>(accept, formats, (clause, format) => {
    const stream = clause.parameters.get('stream') ?? ''
    if (stream !== '' && stream !== 'watch') return null
    const transform = transformOf(clause, verb)
    const metaVersion = clause.parameters.get('v') === 'v1beta1' ? 'meta.k8s.io/v1beta1' : 'meta.k8s.io/v1'
    if (transform === null || (transform !== 'none' && servable.hasObjects === false)) return null
    if (transform === 'table' && format.encoding === 'protobuf') return null
    if (format.encoding === 'protobuf' && transform === 'none' && servable.protobufObjects === false) return null
    return {
      encoding: format.encoding,
      transform,
      metaVersion,
      stream: format.stream,
      contentType: format.contentType,
      pretty: clause.parameters.get('pretty') === '1',
      // Targets that a later release may know are ignored.
      dropsManagedFields: (clause.parameters.get('drop') ?? '').split('+').includes(MANAGED_FIELDS),
    }
  })
  if (chosen !== null) return chosen
  // List only the API server's own forms, because its clients know no others.
  const names = formats
    .filter(({ stream }) => stream !== 'sse')
    .map(({ stream, contentType }) => (stream === 'json-lines' ? `${contentType};stream=watch` : contentType))
  throw notAcceptable(names)
}

/** Returns null when the clause requests something that this verb does not have. */
function transformOf(clause: AcceptClause, verb: FormVerb): Transform | null {
  const kind = clause.parameters.get('as')
  const group = clause.parameters.get('g')
  const version = clause.parameters.get('v')
  if (kind === undefined && group === undefined && version === undefined) return 'none'
  if (group !== 'meta.k8s.io' || (version !== 'v1' && version !== 'v1beta1')) return null
  if (kind === 'Table') return 'table'
  return kind === (verb === 'list' ? 'PartialObjectMetadataList' : 'PartialObjectMetadata') ? 'partial' : null
}

/**
 * Returns the encoding of an error. An error is never refused or transformed, and is JSON if the requested encoding is
 * unavailable.
 */
export function negotiateStatus(accept: string | undefined): Encoding {
  try {
    return choose(accept, WHOLE_FORMATS, (_clause, format) => format.encoding) ?? 'json'
  } catch {
    return 'json'
  }
}

export interface NegotiatedDiscovery extends Negotiated {
  /** Whether all groups and resources come in one APIGroupDiscoveryList. */
  readonly aggregated: boolean
}

/**
 * Negotiates `/api` and `/apis`. Aggregated discovery is served only as v2; v2beta1 is skipped.
 * @throws like `negotiate`
 */
export function negotiateDiscovery(accept: string | undefined): NegotiatedDiscovery {
  const chosen = choose<NegotiatedDiscovery>(accept, WHOLE_FORMATS, ({ parameters }, { encoding, contentType }) => {
    const [kind, group, version] = ['as', 'g', 'v'].map((name) => parameters.get(name))
    const isPlain = kind === undefined && group === undefined && version === undefined
    const isKnown = kind === 'APIGroupDiscoveryList' && group === 'apidiscovery.k8s.io' && version === 'v2'
    if (!isPlain && !isKnown) return null
    return {
      encoding,
      transform: 'none',
      metaVersion: 'meta.k8s.io/v1',
      stream: 'none',
      contentType: isPlain ? contentType : contentType + AGGREGATED_DISCOVERY,
      pretty: parameters.get('pretty') === '1',
      dropsManagedFields: false,
      aggregated: !isPlain,
    }
  })
  if (chosen !== null) return chosen
  throw notAcceptable(WHOLE_FORMATS.map(({ contentType }) => contentType))
}

export interface NegotiatedOpenApi {
  readonly encoding: 'json' | 'protobuf'
  readonly contentType: string
}

/**
 * Negotiates `/openapi/v2` and the documents below `/openapi/v3`. The spelling with `@` is not a legal media type:
 * client-go requests it but cannot parse it in a response.
 * @throws like `negotiate`
 */
export function negotiateOpenApi(accept: string | undefined, edition: 'v2' | 'v3'): NegotiatedOpenApi {
  const [requestedType, contentType] = ['@', '.'].map(
    (sign) => `application/com.github.proto-openapi.spec.${edition}${sign}v1.0+protobuf`,
  ) as [string, string]
  const formats = [
    { mediaType: JSON_MEDIA_TYPE, encoding: 'json', contentType: JSON_MEDIA_TYPE },
    { mediaType: requestedType, encoding: 'protobuf', contentType },
    { mediaType: contentType, encoding: 'protobuf', contentType },
  ] as const
  const chosen = choose<NegotiatedOpenApi, (typeof formats)[number]>(
    accept,
    formats,
    (_clause, { encoding, contentType: responseType }) => ({ encoding, contentType: responseType }),
  )
  if (chosen !== null) return chosen
  throw notAcceptable(formats.map(({ mediaType }) => mediaType))
}

/**
 * Whether JSON is indented. `pretty` in the query decides; without it, clients used by people (curl, Wget, a browser)
 * get indented JSON. A watch is never indented, because one event is one line.
 */
export function isPretty(negotiated: Negotiated, query: Query, userAgent: string | undefined): boolean {
  if (negotiated.stream !== 'none' || negotiated.encoding !== 'json') return false
  return negotiated.pretty || wantsPretty(query, userAgent)
}

/** Whether only the User-Agent decides about indentation. */
export function isLaidOutByUserAgent(negotiated: Negotiated, query: Query): boolean {
  const isRequested = negotiated.pretty || (parameter(query, 'pretty') ?? '') !== ''
  return negotiated.encoding === 'json' && negotiated.stream === 'none' && !isRequested
}

/** Whether the response, even if it is an error, is for a person to read. */
export function wantsPretty(query: Query, userAgent: string | undefined): boolean {
  const text = parameter(query, 'pretty') ?? ''
  if (text !== '') return PRETTY_WORDS.has(text)
  return userAgent !== undefined && READ_BY_PEOPLE.some((prefix) => userAgent.startsWith(prefix))
}

/** The words that Go's ParseBool accepts as true. */
const PRETTY_WORDS: ReadonlySet<string> = new Set(['1', 't', 'T', 'TRUE', 'true', 'True'])
const READ_BY_PEOPLE = ['curl', 'Wget', 'Mozilla/5.0']

function choose<T, F extends { readonly mediaType: string } = Format>(
  accept: string | undefined,
  formats: readonly F[],
  fit: (clause: AcceptClause, format: F) => T | null,
): T | null {
  const clauses = accept === undefined || accept.trim() === '' ? ANYTHING : parseAccept(accept)
  const refused = new Set<string>()
  for (const { type, subtype, parameters, quality } of clauses) {
    if (quality === 0 && parameters.size === 0) refused.add(`${type}/${subtype}`)
  }
  for (const clause of clauses) {
    if (clause.quality === 0) break
    for (const format of formats) {
      const { mediaType } = format
      const [type = '', subtype = ''] = mediaType.split('/')
      if (clause.type !== '*' && clause.type !== type) continue
      if (clause.subtype === '*') {
        if (refused.has(mediaType) || refused.has(`${type}/*`)) continue
      } else if (clause.subtype !== subtype) {
        continue
      }
      const fitting = fit(clause, format)
      if (fitting !== null) return fitting
    }
  }
  return null
}

const ANYTHING: readonly AcceptClause[] = [{ type: '*', subtype: '*', parameters: new Map(), quality: 1 }]

function notAcceptable(mediaTypes: readonly string[]): NotAcceptableError {
  return new NotAcceptableError(`only the following media types are accepted: ${mediaTypes.join(', ')}`)
}
