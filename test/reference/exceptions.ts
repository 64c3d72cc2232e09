/**
 * The allowed differences between the API server and distributary, each with its reason. No row may cover something
 * that a user of client-go, kubectl, controller-runtime or Argo CD would notice.
 */
import type { Question } from './ask.js'
import type { Difference } from './compare.js'
import type { Row } from './row.js'

export const exceptions: readonly Row[] = [
  {
    name: 'Vary is sent',
    reason:
      'The form depends on Accept and Accept-Encoding, and a shared cache must know; the API server does not say so.',
    matches: ({ where }) => where === 'header vary',
  },
  {
    name: 'an unknown path is a Status, not a line of text',
    reason: 'client-go and kubectl make the same NotFound of both; ours comes in the form that was asked for.',
    matches: ({ where, theirs }, { path }) =>
      where === 'header content-type' && theirs.startsWith('text/plain') && !/^\/(healthz|livez|readyz)/.test(path),
  },
  {
    name: 'what columns are called is described in our words',
    reason: 'No client shows the descriptions of Name and Age.',
    matches: ({ where }) => where.endsWith('columnDefinitions[].description'),
  },
  {
    name: 'the age of an IP address has no cell',
    reason: 'The API server sends one that belongs to no column, and kubectl passes over it.',
    matches: ({ where }, { path }) => where.endsWith('.cells.length') && /\/ipaddresses\b/.test(path),
  },
  {
    name: 'a form that nobody has warns of the version as well',
    reason: 'A library before its handlers refuses it in the API server, and knows no warnings.',
    matches: ({ where, theirs }, { headers: { accept } }) =>
      where === 'header warning' && theirs === '(absent)' && /^(application\/cbor|text\/html)$/.test(accept ?? ''),
  },
  {
    name: 'a service of another name has no internalTrafficPolicy in its status either',
    reason: 'The API server takes it away as it reads the service, and forgets to as it reads /status.',
    matches: ({ where, ours }, { path }) =>
      where.endsWith('.spec.internalTrafficPolicy') && ours === '(absent)' && /\/services\/[^/]+\/status/.test(path),
  },
  {
    name: 'a bookmark of DaemonSets has no generation of a template',
    reason:
      'The API server converts the empty object of the bookmark as if it had one; clients read the revision alone.',
    matches: ({ where, theirs }) =>
      where.endsWith('[].object.metadata.annotations.deprecated.daemonset.template.generation') && theirs === '"0"',
  },
  {
    name: 'an empty list is [] and not null',
    reason: 'Every client reads both alike, and the types of the API say that items is a list.',
    matches: ({ where, theirs, ours }) =>
      /^body \.(items|rows(\[\])?)$/.test(where) && theirs === 'null' && ours === '[]',
  },
  {
    name: 'a server without writes offers none',
    reason: 'Discovery lists the verbs that are served; with --enable-writes these are the API server’s.',
    matches: ({ where, theirs }) => where.endsWith('verbs.length') && /deletecollection|patch/.test(theirs),
  },
  {
    name: 'HEAD of whatever is no custom resource is answered',
    reason: 'The API server says 405; no client asks.',
    matches: ({ where, theirs, ours }, { method, path }) =>
      method === 'HEAD' &&
      /^\/(apis?|version)/.test(path) &&
      ((where === 'code' && theirs.startsWith('405') && /^(200|4\d\d|50\d)/.test(ours)) ||
        (where === 'header warning' && theirs === '(absent)')),
  },
  {
    name: 'no cache stores an error of the moment',
    reason: 'In front of this server stand caches that may store what is not forbidden to them (410, 429, 503, 504).',
    matches: ({ where, ours }) => where === 'header cache-control' && ours === 'no-store',
  },
  {
    name: 'a malformed resourceVersion is 400',
    reason:
      'The API server answers 500 without a reason where it forgot to check. Ours says what is wrong with the request.',
    matches: ({ where, theirs, ours }, { method, path }) =>
      where === 'code' &&
      ours.startsWith('400') &&
      (/^500 .*ParseUint/.test(theirs) ||
        // The response to a HEAD has no body to compare.
        (method === 'HEAD' && theirs.startsWith('500') && /[?&]resourceVersion=([^&]*[^&\d]|\d{20})/.test(path))),
  },
  {
    name: 'a malformed shardSelector is 400',
    reason:
      'The API server answers 500 without a reason, with the same message unless this is no expression that we parse.',
    matches: ({ where, theirs, ours }) =>
      where === 'code' &&
      theirs.startsWith('500') &&
      ours.startsWith('400') &&
      theirs.includes('invalid shard selector: ') &&
      (messageIn(theirs) === messageIn(ours) ||
        messageIn(ours).startsWith('invalid shard selector: CEL parse error: ')),
  },
  {
    name: 'every list of a shard repeats the selector',
    reason:
      'Clients may trust only a list that does. The API server forgets it in Tables, in lists of metadata, and for custom resources.',
    matches: ({ where, theirs }) => where.startsWith('body .metadata.shardInfo') && theirs === '(absent)',
  },
  {
    name: 'a malformed parameter is refused in our words',
    reason: 'Status, reason and details are the same; ours also names the parameter and the place in it.',
    matches: ({ where, theirs, ours }) =>
      (where === 'message' || where.endsWith('[].message')) &&
      (/\((labelSelector|fieldSelector|[a-zA-Z]+), character \d+\)/.test(ours) ||
        /\(character \d+\)/.test(ours) ||
        (theirs.includes('strconv.Parse') && /strconv\.Parse|invalid resource version/.test(ours)) ||
        (theirs.includes('resource version') && ours.includes('resource version'))),
  },
  {
    name: 'a form that cannot be had is refused in our words',
    reason: 'The API server has two texts for 406, by which of its libraries answers; code and reason are the same.',
    matches: ({ where, theirs, ours }) =>
      where === 'message' && theirs.includes('406: Not Acceptable') && ours.includes('only the following media types'),
  },
  {
    name: 'no page token when nothing more matches',
    reason:
      'The API server counts what it read and sends clients for a page that is empty; ours knows that it will be.',
    matches: ({ where, ours }, { path }) =>
      /\.metadata\.(continue|remainingItemCount)$/.test(where) &&
      /^(\(absent\)|"")$/.test(ours) &&
      /(label|field|shard)Selector=/.test(path),
  },
  {
    name: 'a list form of one object is 406 and not 500',
    reason: 'The API server fails on its own conversion; ours says that the form cannot be had.',
    matches: ({ where, theirs, ours }) =>
      where === 'code' &&
      (theirs.includes('content is not a list') || /^500 \S+ 0 bytes|^500 *$/.test(theirs)) &&
      ours.startsWith('406'),
  },
  {
    name: 'an error comes in the form that was asked for',
    reason: 'With as= in Accept the API server falls back to JSON for a Status; both are labelled as what they are.',
    matches: ({ where, theirs, ours }, { headers }) =>
      where === 'header content-type' &&
      /^application\/(json|cbor)$/.test(theirs) &&
      /^application\/(yaml|vnd\.kubernetes\.protobuf)$/.test(ours) &&
      /(yaml|protobuf);([^,]*;)?as=/.test(headers['accept'] ?? ''),
  },
  {
    name: 'empty details are left out',
    reason: 'Every client reads {} and an absent member of a Status alike.',
    matches: ({ where, theirs, ours }) => where === 'body .details' && theirs === '{}' && ours === '(absent)',
  },
  {
    name: 'a malformed page token is refused in our words',
    reason: 'Code and reason are the same; the text of a JSON parser is not part of the dialect.',
    matches: ({ where, theirs, ours }) =>
      where === 'message' && theirs.includes('continue') && ours.includes('continue'),
  },
  {
    name: 'a number keeps the digits with which it is stored',
    reason:
      'Go writes 1.0 as 1, 1e3 as 1000, in YAML floats as 1e+20, and rounds integers beyond 64 bits; as floats the numbers are equal.',
    matches: ({ theirs, ours }) =>
      (/[.e]/i.test(theirs + ours) || (/^-?\d{19,}$/.test(ours) && BigInt.asIntN(64, BigInt(ours)) !== BigInt(ours))) &&
      /\d/.test(theirs) &&
      Number(theirs) === Number(ours),
  },
  {
    name: 'the oldest revision after a change of the definition',
    reason: 'It is that of the last event or bookmark here and that of another list there; both say to list again.',
    matches: ({ where, theirs, ours }) =>
      where.endsWith('.object.message') && [theirs, ours].every((text) => text.startsWith('"too old resource version')),
  },
  {
    name: 'a page token that is empty is left out',
    reason: 'Every client reads "" and an absent token as the end.',
    matches: ({ where, theirs, ours }) =>
      where.endsWith('.metadata.continue') && theirs === '""' && ours === '(absent)',
  },
  {
    name: 'a form that cannot be had is passed over',
    reason: 'Where the client names another after it, that is sent; the API server refuses the first one.',
    matches: ({ where, theirs, ours }, { headers }) =>
      where === 'code' &&
      /^(406|500)/.test(theirs) &&
      ours.startsWith('200') &&
      /as=PartialObjectMetadata.*,/.test(headers['accept'] ?? ''),
  },
  {
    name: 'the checks of health are those of this program',
    reason: 'Each has its path there as well as here; the API server’s are its own hooks, and etcd.',
    matches: ({ where }, { path }) =>
      /^\/(healthz|livez|readyz)\/(etcd|nothing)/.test(path) && /^(code|header content-type|text)$/.test(where),
  },
  {
    name: 'the list of paths is that of this program',
    reason: 'It has what is served here.',
    matches: ({ where }, { path }) => /^\/(index\.html)?$/.test(path) && where.startsWith('body .paths'),
  },
  {
    name: 'a watch of one name in all namespaces is answered',
    reason:
      'Old paths of Kubernetes’ own kinds have a namespace in the API server, those of custom resources need none.',
    matches: ({ where, theirs, ours }, { path }) =>
      where === 'code' &&
      /^\/apis?\/.*\/watch\/(?!namespaces\/)[^/]+\/[^/]+$/.test(path.split('?')[0]!) &&
      theirs.startsWith('404') &&
      ours.startsWith('200'),
  },
  {
    name: 'discovery lists what this server does',
    reason: 'Only the API server binds pods, reviews tokens and connects to kubelets; with --passthrough it is asked.',
    matches: ({ where, theirs, ours }) =>
      /\.(sub)?resources \(served\)$/.test(where) &&
      ours === '(absent)' &&
      ONLY_IN_THE_API_SERVER.has(
        theirs.slice(1, -1).replace(/^(namespaces|nodes|pods|serviceaccounts|services)\//, ''),
      ),
  },
  {
    name: 'groups of APIServices are not listed',
    reason:
      'The API server lists a group for every APIService, even one without a server. This server lists them with --apiservice or --passthrough.',
    matches: ({ where, theirs, ours }, { path }) =>
      /^\/apis\/?(\?|$)/.test(path) &&
      /^body \.(groups|items) \(served\)$/.test(where) &&
      ours === '(absent)' &&
      /^"example\d+\.example\.com"$/.test(theirs),
  },
  {
    name: 'aggregated discovery is not for shared caches',
    reason:
      'In front of this server stand caches that do not ask who is calling and keep what is public without asking again; client-go asks again by ETag either way.',
    matches: ({ where, theirs, ours }, { path }) =>
      where === 'header cache-control' &&
      /^\/apis?\/?(\?|$)/.test(path) &&
      theirs === 'public' &&
      ours === 'no-cache, private',
  },
  {
    name: 'discovery has no address of the server',
    reason: 'Clients reach this server by proxies whose addresses it does not know, and no client has ever used it.',
    matches: ({ where }, { path }) =>
      /^(body|protobuf) .*serverAddressByClientCIDRs/.test(where) && /^\/api\/?(\?|$)/.test(path),
  },
  {
    name: 'the build is that of this program',
    reason: 'The version says which release’s dialect is spoken, and names this program; the rest concerns Go.',
    matches: ({ where, ours }, { path }) =>
      path.startsWith('/version') &&
      (/^body \.(gitCommit|gitTreeState|goVersion|compiler|platform)$/.test(where) ||
        (where === 'body .gitVersion' && /^"v1\.\d+\.\d+\+distributary/.test(ours))),
  },
  {
    name: 'component statuses are not stored',
    reason: 'The API server asks its components for them; deprecated since 1.19. With --passthrough they go there.',
    matches: (_, { path }) => path.toLowerCase().includes('/componentstatuses'),
  },
  {
    name: 'an unknown OpenAPI document is not found',
    reason: 'The recordings are from a server of definitions alone, which answers 200 with an empty body.',
    matches: ({ where, theirs }, { path }) =>
      path.startsWith('/openapi/v3/') && where === 'code' && theirs === '200  0 bytes',
  },
  {
    name: 'an unknown OpenAPI document says that it is JSON',
    reason: 'The API server sends 404 without a type.',
    matches: ({ where, theirs }, { path }) =>
      path.startsWith('/openapi/v3/') && where === 'header content-type' && theirs === '(absent)',
  },
  {
    name: 'the next page of a list that a field selector has narrowed to a namespace',
    reason:
      'The API server names it from the namespace on and reads it from the whole list on, so its page is another one; ours goes on.',
    matches: ({ where }, { path }) =>
      where.endsWith('.metadata.continue') &&
      /[?&]limit=/.test(path) &&
      /fieldSelector=([^&]*%2C)?metadata\.namespace%3D/.test(path),
  },
  {
    name: 'whatever is no custom resource can be asked for as application/*',
    reason:
      'An older library answers for it in the API server and knows no wildcards below a type; nobody relies on a 406.',
    matches: ({ where, theirs, ours }, { headers: { accept } }) =>
      where === 'code' &&
      accept === 'application/*' &&
      /^406 .*406: Not Acceptable/.test(theirs) &&
      /^(200|4\d\d|504)/.test(ours),
  },
  {
    name: 'a conversion webhook is not called from here',
    reason:
      'Neither server can reach one in this test. There every read fails; here those that meet an object of another version do (501), and with --passthrough they are forwarded.',
    matches: isUnconverted,
  },
  {
    name: 'every part of an object can be had as a Table',
    reason: 'The API server has columns for the status of most kinds, and forgot a few.',
    matches: ({ where, theirs, ours }, { path, headers: { accept = '' } }) =>
      accept.includes('as=Table') &&
      /^\/apis?\/.*\/(status|approval|ephemeralcontainers|resize)([/?]|$)/.test(path) &&
      // A request that is wrong in another way as well is refused for that.
      ((where === 'code' && theirs.startsWith('406') && /^(200|400|404)/.test(ours)) ||
        // Where plain JSON is also accepted, the API server sends the object.
        (where.startsWith('body ') && accept.endsWith(',application/json'))),
  },
  {
    name: 'a name with a NUL is refused',
    reason: 'The API server looks for it and finds nothing; etcd and proxies may read it as two.',
    matches: ({ where, theirs, ours }, { path }) =>
      where === 'code' && path.includes('%00') && theirs.startsWith('404') && /^400 .*NUL/.test(ours),
  },
  {
    name: 'the metadata of one object as a list, and of a list as one object, are refused in our words',
    reason: 'Both are 406; the API server names its Go types.',
    matches: ({ where, theirs }) =>
      where === 'message' && /^"you requested PartialObjectMetadata(List)?, but/.test(theirs),
  },
  {
    name: 'history that the API server no longer holds',
    reason: 'Its cache begins where it was filled, and older watches end with 410; ours still has the events.',
    matches: ({ where, theirs, ours }, { path }) =>
      /^body ( \(others\)|\.length)$/.test(where) &&
      /[?&]resourceVersion=0*[1-9]/.test(path) &&
      theirs === '"1: ERROR null"' &&
      /^"(0: |\d+: (ADDED|MODIFIED|DELETED) )/.test(ours) &&
      !ours.includes('ERROR'),
  },
  {
    name: 'a watch from a revision that etcd has never had ends with 410',
    reason: 'The API server keeps it open in silence, and its client keeps what a restored etcd no longer has (G23).',
    matches: ({ where, theirs, ours }, { path }) =>
      where === 'body .length' &&
      /[?&]watch=[^&]/.test(path) &&
      /[?&]resourceVersion=0*[1-9]/.test(path) &&
      theirs === '"0: "' &&
      /^"1: ERROR [^,]*"$/.test(ours),
  },
  {
    name: 'a revision of the future says when to ask again',
    reason: 'The API server says so where its cache answers, and forgets it where etcd does.',
    matches: ({ where, theirs, ours }, { path }) =>
      /^(header retry-after|body \.details\.retryAfterSeconds)$/.test(where) &&
      theirs === '(absent)' &&
      ours === '1' &&
      /[?&]resourceVersion=\d/.test(path),
  },
  {
    name: 'a decision for a member of system:masters has a reason',
    reason: 'The API server allows these callers before it asks any authorizer, and gives no reason.',
    matches: ({ where, theirs, ours }) =>
      where === 'reason of a decision' && theirs === '' && ours === 'RBAC: member of system:masters',
  },
  {
    name: 'a decision for a node names the mode that allows it',
    reason: 'The API server gives no reason; the access log needs one.',
    matches: ({ where, theirs, ours }) => where === 'reason of a decision' && theirs === '' && ours === 'Node',
  },
  {
    name: 'which of several bindings allows it',
    reason:
      'The API server takes them in the order of a Go map, another one in every process; ours is that of the names.',
    matches: ({ where, theirs, ours }) =>
      where === 'reason of a decision' && [theirs, ours].every((text) => text.startsWith('RBAC: allowed by ')),
  },
  {
    name: 'a read of any revision is as of another one',
    reason:
      'What was asked for is any state, or one that is not older than a revision; both caches may be anywhere after it.',
    matches: ({ where, theirs, ours }, { path }) => {
      const asked = new URLSearchParams(path.split('?')[1]).get('resourceVersion') ?? ''
      const [there, here] = [theirs, ours].map(revisionIn)
      return (
        /^body (\[\]\.object)?(\.rows\[\]\.object)?\.metadata\.(resourceVersion|continue)$/.test(where) &&
        /^\d+$/.test(asked) &&
        !path.includes('resourceVersionMatch=Exact') &&
        Math.min(here!, there!) >= Number(asked)
      )
    },
  },
]

/** Resources, and subresources of the core group, that need more than etcd. */
const ONLY_IN_THE_API_SERVER: ReadonlySet<string> = new Set([
  'bindings', 'componentstatuses', 'tokenreviews', 'attach', 'binding', 'eviction', 'exec', 'finalize', 'log',
  'portforward', 'proxy', 'token',
]) // prettier-ignore

/** The revision in a resourceVersion or a page token. */
function revisionIn(shown: string): number {
  const text = shown.replaceAll('"', '')
  if (/^\d+$/.test(text)) return Number(text)
  try {
    return (JSON.parse(Buffer.from(text, 'base64url').toString()) as { rv: number }).rv
  } catch {
    return Number.NaN
  }
}

/** Whether theirs could not read its objects at all, while ours names the unreadable object or need not read it. */
function isUnconverted({ where, theirs, ours }: Difference, { path, method }: Question): boolean {
  if (!path.includes('/apis/conv.example.com/v2/')) return false
  const isWatch = /[?&]watch=|\/watch\//.test(path)
  if (where !== 'code') return isWatch && /^(stream|body \.length$|body \[\]\.object\.)/.test(where)
  const isHead = method === 'HEAD'
  const fails = /^(429|500) .*(storage is \(re\)initializing|failed to read one or more|corrupt object|webhook)/.test(
    theirs,
  )
  // A cache that was never filled answers any read with resourceVersion 0.
  const isEmpty = /[?&]resourceVersion=0+(&|$)/.test(path) && /^(200|404)/.test(theirs)
  if (!fails && !isEmpty && !(isHead && /^(429|500)/.test(theirs))) return false
  // The only object is in the namespace default.
  const mayMissIt =
    isWatch || /\/namespaces\/(?!default)|[?&](label|field|shard)Selector=|resourceVersionMatch=Exact/.test(path)
  return (
    /^501 .*conversion webhook/.test(ours) ||
    /^(4\d\d|504)/.test(ours) ||
    isHead ||
    (ours.startsWith('200') && mayMissIt)
  )
}

/** The message of a Status, or its beginning. */
function messageIn(text: string): string {
  return /"message":"((?:[^"\\]|\\.)*)/.exec(text)?.[1] ?? ''
}

/** The exceptions for a server that reads an API server instead of etcd. */
export const upstreamExceptions: readonly Row[] = [
  {
    name: 'history from before the start',
    reason:
      'An API server would read it from etcd, so that it is not requested; clients list again, as after a compaction.',
    matches: ({ where, theirs, ours }, { path }) =>
      /^body ( \(others\)|\.length)$/.test(where) &&
      /[?&]resourceVersion=0*[1-9]/.test(path) &&
      ours === '"1: ERROR null"' &&
      /^"(0: |\d+: (ADDED|MODIFIED|DELETED) )/.test(theirs),
  },
  {
    name: 'a decision of the API server has its name before the reason',
    reason: 'The authorizer behind a webhook is named as the API server names it, and gives its own name again.',
    matches: ({ where, theirs, ours }) => {
      const [, given] = /^(?:default|Webhook): (.*)$/.exec(ours) ?? []
      const isOfBinding = (text = ''): boolean => text.startsWith('RBAC: allowed by ')
      return where === 'reason of a decision' && (given === theirs || (isOfBinding(given) && isOfBinding(theirs)))
    },
  },
  {
    name: 'an exponent is lost on the way',
    reason: 'The API server writes 1e3 as 1000, but refuses to count with it as if it were written so.',
    matches: ({ where }, { path }) => where === 'message' && path.includes('/scaledobjects/by-hand-exponent/scale'),
  },
  {
    name: 'a version that a failing webhook makes cannot be read at all',
    reason: 'For one object, or for a watch, ours asks the API server for all of them, which it answers with 500.',
    matches: ({ where, theirs, ours }, { path }) =>
      where === 'code' &&
      path.includes('/apis/conv.example.com/v2/') &&
      /^(200|404)/.test(theirs) &&
      ours.startsWith('504'),
  },
]

/** The exceptions for an API server with CBORServingAndStorage. */
export const cborExceptions: readonly Row[] = [
  {
    name: 'CBOR is not among the forms that a refusal lists',
    reason: 'It is read where an API server stored it, and not written.',
    matches: ({ where, theirs, ours }) =>
      where === 'message' && theirs.replaceAll(/, application\/cbor(-seq)?/g, '') === ours,
  },
  {
    name: 'the scale of a custom resource has a form in protobuf',
    reason: 'It has one at an API server without the gate, and clients that ask for protobuf know it.',
    matches: ({ where, theirs, ours }, { path, headers: { accept = '' } }) =>
      /\/scale(\?|$)/.test(path) &&
      accept.includes('protobuf') &&
      ((where === 'code' && theirs.startsWith('406') && ours.startsWith('200')) ||
        (where === 'header content-type' &&
          theirs === 'application/json' &&
          ours === 'application/vnd.kubernetes.protobuf')),
  },
]

/** For an API server of the release before: ours shows everything as that of its own release does. */
export const olderExceptions: readonly Row[] = [
  {
    name: 'which versions are deprecated is that of our release',
    reason: 'A warning names releases; the older one warns of versions that are gone in ours, and not yet of others.',
    matches: ({ where, theirs, ours }) =>
      where === 'header warning' && /is deprecated in v1\.\d+/.test(theirs + ours) && theirs !== ours,
  },
  {
    name: 'definitions have the columns of our release',
    reason: 'The older one has no columns for them.',
    matches: ({ where }, { path }) =>
      path.includes('/customresourcedefinitions') && /(cells|columnDefinitions)\.length$/.test(where),
  },
  {
    name: 'a CSINode has the status of our release',
    reason: 'It is new there, and empty.',
    matches: ({ where, theirs, ours }, { path }) =>
      path.includes('/csinodes') || (where.endsWith('(served)') && theirs === '(absent)' && ours.includes('status')),
  },
  {
    name: 'a bookmark in a Table of Secrets has the default of our release',
    reason: 'An empty Secret has the type Opaque there.',
    matches: ({ where, theirs, ours }, { path }) =>
      path.includes('/secrets') && where.endsWith('.cells[]') && /^"?"?$/.test(theirs) && ours.includes('Opaque'),
  },
  {
    name: 'the hash of a stored version is that of our release',
    reason: 'Clients use it as the name of a storage, of which each server has its own.',
    matches: ({ where }) => where.endsWith('.storageVersionHash'),
  },
  {
    name: 'the version is that of our release',
    reason: 'It says whose schema and defaults are served.',
    matches: ({ where }, { path }) => path.startsWith('/version') && /^body \.\w*[mM]inor$/.test(where),
  },
  {
    name: 'a shard of a resource without a cache',
    reason: 'The older API server sends all of it.',
    matches: ({ where }, { path }) =>
      path.includes('/events') && path.includes('shardSelector=') && /body \.length$|others/.test(where),
  },
]
