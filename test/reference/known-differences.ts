/**
 * Bugs of distributary that this comparison has found and that are to be fixed. Delete the row with the fix: a whole
 * run fails for a row that no difference matched. Permanent differences belong in exceptions.ts, with the reason why no
 * client minds.
 */
import type { Question } from './ask.js'
import type { Row } from './row.js'

/** Path parts of resources that 1.37 serves and we do not. */
const UNSERVED = [
  'authorization.k8s.io', 'authentication.k8s.io',
] as const // prettier-ignore

function isUnserved({ path }: Question): boolean {
  const plain = path
    .toLowerCase()
    // The path for all namespaces.
    .replace('/namespaces//', '/')
    .replaceAll(/\/{2,}/g, '/')
    .replace('/watch/', '/')
    .replace(/\/namespaces\/[^/]+(?=\/)/, '')
  return UNSERVED.some((one) => new RegExp(`/apis/${one}([/?]|$)`).test(plain))
}

const isDiscovery = ({ path }: Question): boolean => /^\/(api(\/[^/?]+)?|apis(\/[^/?]+){0,2})\/?(\?.*)?$/.test(path)
const isOpenApi = ({ path }: Question): boolean => path.startsWith('/openapi/')

export const knownDifferences: readonly Row[] = [
  {
    name: 'resources and versions that are not served',
    reason: 'Discovery, OpenAPI and paths of all that 1.37 serves with api/all.',
    matches: ({ where, ours }, question) =>
      isUnserved(question) &&
      (where.startsWith('stream') ||
        (where === 'code' && ours.startsWith('404')) ||
        // Both are 404; ours because the resource does not exist.
        (where === 'message' && ours.includes('the server could not find the requested resource')) ||
        (/^(body \.details|header warning$)/.test(where) && ours === '(absent)')),
  },
  {
    name: 'discovery lacks groups, versions, resources and subresources',
    reason: 'Those that are not served, and those that are only written.',
    matches: ({ where }, question) =>
      isDiscovery(question) &&
      /\.(length|items|groups|resources|versions)( \(others\))?$/.test(where) &&
      !where.includes('server'),
  },
  {
    name: 'discovery lacks members',
    reason: 'The addresses of the server, hashes of storage versions, apiVersion in protobuf, no creationTimestamp.',
    matches: ({ where }, question) => isDiscovery(question) && /^(body|protobuf|yaml)/.test(where),
  },
  {
    name: 'aggregated discovery in YAML, and Cache-Control of it',
    reason: 'The API server sends it in every form.',
    matches: ({ where }, question) => isDiscovery(question) && /^(code|header|message|text)/.test(where),
  },
  {
    name: 'a resource that is only written is 405 by GET, not 404',
    reason: 'Bindings and reviews.',
    matches: ({ where, theirs, ours }) => where === 'code' && theirs.startsWith('405') && ours.startsWith('404'),
  },
  {
    name: 'OpenAPI is told under our own title',
    reason: 'Title and version are those of the release whose dialect is spoken.',
    matches: ({ where }, question) => isOpenApi(question) && /^body \.info\.(title|version)$/.test(where),
  },
  {
    name: 'OpenAPI documents',
    reason: 'Required fields, list types and defaults of Kubernetes’ own kinds; paths of subresources; v2.',
    matches: ({ where }, question) => isOpenApi(question) && /^(body|text|code|header)/.test(where),
  },
  {
    name: 'the version is that of this program',
    reason: 'It is that of the schema’s release.',
    matches: ({ where }, { path }) => path.startsWith('/version') && /^(body \.|yaml)/.test(where),
  },
] // prettier-ignore
