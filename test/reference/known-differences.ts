/**
 * Faults of distributary that the comparison has found and that are STILL TO BE MENDED (the numbers are those of issue 16).
 * Whoever mends one deletes its row; a run says which rows nothing needed. Nothing may be added here that is meant to stay:
 * that is what exceptions.ts is for.
 */
import type { Row } from './row.js'

const PROTOBUF = 'application/vnd.kubernetes.protobuf'

export const knownDifferences: readonly Row[] = [
  {
    name: '16.2 conversion by webhook',
    reason: 'A version that only a webhook could make is not served, or served as it is stored; it is to be a Status.',
    matches: (_, { path }) => path.includes('/conv.example.com'),
  },
  {
    name: '16.11 protobuf: metadata, discovery, and what is labelled as it',
    reason:
      'The metadata of every object, discovery and OpenAPI v3 have fixed schemas; some JSON is sent under the wrong name.',
    matches: (_, { headers }) => (headers['accept'] ?? '').includes('protobuf'),
  },
  {
    name: '16.11 the list of media types lacks protobuf',
    reason: 'The text of 406 names what can be had, which will be protobuf as well.',
    matches: ({ where, theirs }) =>
      where === 'message' && theirs.includes('only the following media types') && theirs.includes(PROTOBUF),
  },
  {
    name: '16.11 OpenAPI v3',
    reason: 'Paths, descriptions and subresources of custom resources, and versions that are known but not served.',
    matches: (_, { path }) => path.startsWith('/openapi/'),
  },
  {
    name: '16.11 health and version paths',
    reason: 'GET /version/, /readyz/NAME and /livez/NAME, and their plain text.',
    matches: (_, { path }) => /^\/(healthz|livez|readyz|version)/.test(path),
  },
  {
    name: '16.12 page tokens of the API server',
    reason: 'Their start has a leading slash, which is refused.',
    matches: ({ where, ours }) => where === 'code' && ours.includes('continue key is not valid'),
  },
  {
    name: '16.8 HEAD of a watch',
    reason: 'Its head opens a watch.',
    matches: (_, { method, path }) => method === 'HEAD' && /[?&]watch=/.test(path),
  },
  {
    name: '16.5 cells of a Table',
    reason: 'Integers beyond 2^53, slices, unions, filters, null and floats.',
    matches: ({ where }) => /cells/.test(where) && !/cells\[(Duration|Secret|Issuer)\]/.test(where),
  },
  {
    name: '16.13 path with an empty segment, a dot, or %2F in a name',
    reason: 'The API server answers 404, or takes the slash as one of the path.',
    matches: ({ ours }, { path }) =>
      /has an empty segment|segment\\?"|may not contain|the request cannot be read/.test(ours) ||
      /^\/\/|%2F|%2E|%00|\/\.\.?(\?|$)|\/[^/]*ü/.test(path) ||
      /\/\//.test(path),
  },
  {
    name: '16.13 a set selector without values, or with an empty clause',
    reason: '`x in ()` and the like are taken.',
    matches: ({ ours, theirs }, { path }) =>
      /in(%20|\+)\(\)/.test(path) &&
      (ours.includes('values set') || theirs.includes('values set') || /^\d+ /.test(ours)),
  },
  {
    name: '16.13 odd values of resourceVersion',
    reason: '00 is 0, and what is beyond int64 is a revision of the future.',
    matches: ({ ours, theirs }, { path }) =>
      /resourceVersion=/.test(path) &&
      /resource ?version/i.test(ours + theirs) &&
      /invalid resource version|Too large/.test(ours),
  },
  {
    name: '16.13 numbers that are none on a list',
    reason: 'timeoutSeconds=abc is 400 on a list, and the order in which parameters are refused.',
    matches: ({ where, ours, theirs }) => where === 'code' && /strconv\.ParseInt/.test(theirs + ours),
  },
  {
    name: '16.13 an empty field selector, and a percent sign that is none',
    reason: '`fieldSelector==` selects all; a parameter that cannot be decoded is dropped.',
    matches: ({ ours }, { path }) => /fieldSelector=(=|%3D)|labelSelector=%(&|$)/.test(path) && /^(4\d\d|")/.test(ours),
  },
  {
    name: '16.13 unknown includeObject',
    reason: 'It counts for a Table alone, and the message is another.',
    matches: ({ ours }) => /unrecognized includeObject/.test(ours),
  },
  {
    name: '16.13 pretty answers',
    reason: 'An error is written for people as well when pretty is asked for, and ?pretty without a value is true.',
    matches: ({ where }, { path }) => where === 'text' && /pretty/.test(path),
  },
  {
    name: '16.13 an old watch path that ends in a name, without a namespace',
    reason: '/watch/RESOURCE/NAME of a namespaced resource means metadata.name.',
    matches: ({ where, ours }, { path }) => where === 'code' && ours.startsWith('404') && path.includes('/watch/'),
  },
  {
    name: '16.12 a token of a list that fieldSelector=metadata.namespace has narrowed',
    reason: 'Its start is below the namespace there.',
    matches: ({ where }) => where.endsWith('.metadata.continue'),
  },
  {
    name: '16.11 the first event of a Table watch, and its bookmarks',
    reason: 'Columns stand in the first event that is no bookmark; a bookmark has one row without cells.',
    matches: ({ where }) =>
      /\.object\.(columnDefinitions|rows)/.test(where) || where.endsWith('.object.metadata.annotations'),
  },
  {
    name: '16.13 a list of one name with limit and resourceVersion',
    reason:
      'fieldSelector=metadata.name reads that one object: the revision is then one that the answer is not older than.',
    matches: ({ where }, { path }) => where === 'body .metadata.resourceVersion' && path.includes('metadata.name%3D'),
  },
  {
    name: '16.10 a scale whose replicas are not a whole number of 64 bits',
    reason: 'Both answer 500, with other texts; -1 and numbers from 2^63 on are shown as they are stored.',
    matches: ({ where }, { path }) =>
      /\/scale(\?|$)/.test(path) && /^(message|reason|body \.details|body \.(spec|status)\.replicas)/.test(where),
  },
  {
    name: '16.13 odd values of resourceVersion: which of two mistakes is told, and whether to come again',
    reason: 'A watch in a form that cannot be had is 406 first; a revision of the far future says when to ask again.',
    matches: ({ where, theirs }, { path }) =>
      (where === 'code' && theirs.includes('strconv.ParseUint') && /resourceVersion=/.test(path)) ||
      (/retry-?after/i.test(where) && /resourceVersion=9223372036854775807/.test(path)),
  },
  {
    name: '16.13 odd values of resourceVersion, asked by HEAD',
    reason: 'As above; a head has no text that says so.',
    matches: ({ where, ours }, { method, path }) =>
      method === 'HEAD' &&
      where === 'code' &&
      /^4(00|22)/.test(ours) &&
      /[?&](resourceVersion|labelSelector|timeoutSeconds|includeObject)=/.test(path),
  },
  {
    name: 'small answers are compressed',
    reason: 'The API server compresses from 128 KiB on; some of ours are compressed at any size.',
    matches: ({ where }) => where === 'header content-encoding',
  },
]
