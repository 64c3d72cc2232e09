/**
 * Faults of distributary that the comparison has found and that are STILL TO BE MENDED (the numbers are those of issue 16).
 * Whoever mends one deletes its row; a run says which rows nothing needed. Nothing may be added here that is meant to stay:
 * that is what exceptions.ts is for.
 */
import type { Row } from './row.js'

export const knownDifferences: readonly Row[] = [
  {
    name: '16.11 definitions in protobuf',
    reason: 'They are stored as JSON, and only their metadata can be had in protobuf.',
    matches: (_, { path, headers }) =>
      path.includes('/apis/apiextensions.k8s.io/') && (headers['accept'] ?? '').includes('protobuf'),
  },
  {
    name: '16.11 OpenAPI v3 in protobuf',
    reason: 'It is served as JSON alone.',
    matches: ({ where, theirs }, { path }) =>
      path.startsWith('/openapi/v3') &&
      ((where === 'header content-type' && theirs.includes('proto-openapi')) ||
        // An unknown version is an empty document there.
        (where === 'code' && theirs.startsWith('200'))),
  },
  {
    name: '16.8 HEAD of a watch',
    reason: 'Its head opens a watch.',
    matches: (_, { method, path }) => method === 'HEAD' && /[?&]watch=/.test(path),
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
    name: '16.10 a scale whose replicas are not a whole number of 64 bits',
    reason: 'Both answer 500, with other texts; -1 and numbers from 2^63 on are shown as they are stored.',
    matches: ({ where }, { path }) =>
      /\/scale(\?|$)/.test(path) &&
      /^(message|reason|body \.details|body \.(spec|status)\.replicas|body .*cells\[Desired\])/.test(where),
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
