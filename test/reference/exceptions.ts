/**
 * The differences between the API server and distributary that are allowed, each with its reason. No row may be
 * something that a user of client-go, kubectl, controller-runtime or Argo CD would notice.
 */
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
    name: 'an empty list is [] and not null',
    reason: 'Every client reads both alike, and the types of the API say that items is a list.',
    matches: ({ where, theirs, ours }) =>
      /^body \.(items|rows(\[\])?)$/.test(where) && theirs === 'null' && ours === '[]',
  },
  {
    name: 'OpenAPI is told under our own title',
    reason: 'Title and version name the program that answers.',
    matches: ({ where }) => /^body \.info\.(title|version)$/.test(where),
  },
  {
    name: 'a server without writes offers none',
    reason: 'Discovery lists the verbs that are served; with --enable-writes these are the API server’s.',
    matches: ({ where, theirs }) => where.endsWith('verbs.length') && /deletecollection|patch/.test(theirs),
  },
  {
    name: 'HEAD of discovery and of definitions is answered',
    reason: 'The API server says 405; no client asks.',
    matches: ({ where, theirs, ours }, { method, path }) =>
      method === 'HEAD' &&
      where === 'code' &&
      theirs.startsWith('405') &&
      /^(200|404|406)/.test(ours) &&
      /^\/(apis|version)/.test(path),
  },
  {
    name: 'a malformed resourceVersion is 400',
    reason:
      'The API server answers 500 without a reason where it forgot to check. Ours says what is wrong with the request.',
    matches: ({ where, theirs, ours }) =>
      where === 'code' && theirs.startsWith('500') && theirs.includes('ParseUint') && ours.startsWith('400'),
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
    name: 'discovery refuses a form in the words of lists',
    reason: 'The API server has two texts for 406, by which of its libraries answers; code and reason are the same.',
    matches: ({ where, theirs }, { path }) =>
      /^\/apis(\/[^/]+){1,2}\/?$/.test(path) &&
      (where === 'message' ? theirs.includes('406: Not Acceptable') : where === 'body .details'),
  },
  {
    name: 'no page token when nothing more matches',
    reason:
      'The API server counts what it read and sends clients for a page that is empty; ours knows that it will be.',
    matches: ({ where, ours }, { path }) =>
      /\.metadata\.(continue|remainingItemCount)$/.test(where) &&
      ours === '(absent)' &&
      /(label|field)Selector=/.test(path),
  },
  {
    name: 'any path of an object can be selected by',
    reason: 'PROTOCOL section 5: the API server refuses field labels that ours evaluates.',
    matches: ({ where, theirs, ours }, { method, path }) =>
      (where === 'code' &&
        /field label not supported|not a known field selector/.test(theirs) &&
        /^(200|406)/.test(ours)) ||
      (method === 'HEAD' &&
        where === 'code' &&
        theirs.startsWith('400') &&
        ours.startsWith('200') &&
        /fieldSelector=/.test(path)),
  },
  {
    name: 'of two faults in one request another is told',
    reason: 'The order of the checks is an accident of the layers; each is refused.',
    matches: ({ where, theirs, ours }) =>
      where === 'code' &&
      /^4(00|04|05|22)/.test(theirs) &&
      /^4(00|06)/.test(ours) &&
      theirs.slice(0, 3) !== ours.slice(0, 3) &&
      !ours.includes('segment') &&
      !ours.includes('may not contain') &&
      !ours.includes('cannot be read'),
  },
  {
    name: 'definitions can be asked for as application/*',
    reason:
      'An older library answers for them in the API server and knows no wildcards below a type; nobody relies on a 406.',
    matches: ({ theirs }) => theirs.includes('406: Not Acceptable'),
  },
  {
    name: 'the status of a definition can be had as a Table',
    reason: 'The API server has columns for every other status and forgot these.',
    matches: ({ where, theirs, ours }, { path, headers }) =>
      /\/customresourcedefinitions\/[^/]+\/status/.test(path) &&
      ((where === 'code' && theirs.startsWith('406') && ours.startsWith('200')) ||
        // Where plain JSON will do as well, the API server sends the object.
        ((headers['accept'] ?? '').includes('as=Table') && where.startsWith('body '))),
  },
  {
    name: 'a watch of one second ends among its initial events',
    reason: 'How many of hundreds arrive within the second is a matter of speed; each that did was compared.',
    matches: ({ where }, { path }) =>
      where === 'body .length' && /[?&]watch=/.test(path) && path.includes('timeoutSeconds=1'),
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
      theirs === 'application/json' &&
      /^application\/(yaml|vnd\.kubernetes\.protobuf)$/.test(ours) &&
      /(yaml|protobuf);as=/.test(headers['accept'] ?? ''),
  },
  {
    name: 'empty details are left out',
    reason: 'Every client reads {} and an absent member of a Status alike.',
    matches: ({ where, theirs, ours }) => where === 'body .details' && theirs === '{}' && ours === '(absent)',
  },
  {
    name: 'an old watch path takes what watch=1 takes',
    reason:
      'The API server checks the options of /watch/ paths as those of a list; client-go sends none of them there.',
    matches: ({ where, theirs }, { path }) => where === 'code' && theirs.startsWith('422') && path.includes('/watch/'),
  },
  {
    name: 'a token that is none is refused in our words',
    reason: 'Code and reason are the same; the text of a JSON parser is not part of the dialect.',
    matches: ({ where, theirs, ours }) =>
      where === 'message' && theirs.includes('continue') && ours.includes('continue'),
  },
  {
    name: 'of two faults in one request another is named',
    reason: 'Code and reason are the same.',
    matches: ({ where, theirs }) =>
      where === 'message' &&
      /you requested PartialObjectMetadata|field label not supported|not a known field selector|strconv\.ParseInt/.test(
        theirs,
      ),
  },
  {
    name: 'a number keeps the digits with which it is stored',
    reason: 'Go writes 1.0 as 1, 1e3 as 1000 and, in YAML, floats as 1e+20; the numbers are equal.',
    matches: ({ theirs, ours }) => /[.e]/i.test(theirs + ours) && /\d/.test(theirs) && Number(theirs) === Number(ours),
  },
  {
    name: 'a read of any revision is as of the last event',
    reason:
      'Where the progress of etcd cannot be trusted, the cache of a quiet resource stands there; what was asked for is any state, or one not older than that.',
    matches: ({ where, theirs, ours }, { path }) =>
      /^body (\[\]\.object)?\.metadata\.resourceVersion$/.test(where) &&
      /[?&]resourceVersion=/.test(path) &&
      Number(ours.replaceAll('"', '')) < Number(theirs.replaceAll('"', '')),
  },
  {
    name: 'the oldest revision after a change of the definition',
    reason: 'It is that of the last event or bookmark here and that of another list there; both say to list again.',
    matches: ({ where, theirs, ours }) =>
      where.endsWith('.object.message') && [theirs, ours].every((text) => text.startsWith('"too old resource version')),
  },
  {
    name: 'a path with dot segments is refused before its resource is known',
    reason: 'So there is nothing to warn of; proxies and browsers never send such a path.',
    matches: ({ where, ours }, { path }) => where === 'header warning' && ours === '(absent)' && /%2E/i.test(path),
  },
  {
    name: 'a bookmark of definitions has metadata alone',
    reason: 'The API server writes the zero value of its Go type around it; a bookmark means its resourceVersion.',
    matches: ({ where, ours }, { path }) =>
      path.includes('/customresourcedefinitions') &&
      /^body \[\]\.object\.(spec|status)$/.test(where) &&
      ours === '(absent)',
  },
  {
    name: 'a page token that is empty is left out',
    reason: 'Every client reads "" and an absent token as the end.',
    matches: ({ where, theirs, ours }) =>
      where.endsWith('.metadata.continue') && theirs === '""' && ours === '(absent)',
  },
  {
    name: 'history that the API server no longer holds',
    reason: 'Its cache begins where it was filled, and older watches are told to relist; ours still has the events.',
    matches: ({ where, theirs, ours }) =>
      where === 'body .length' && theirs === '"1: ERROR null"' && !ours.includes('ERROR'),
  },
  {
    name: 'a conversion webhook is not asked from here',
    reason:
      'Neither server has one to ask in this test: there every request fails, here those that meet an object of another version do, and with --passthrough they go on.',
    matches: (_, { path }) => path.includes('/conv.example.com/v2/'),
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
    name: 'a column whose path descends',
    reason: 'Go walks maps in random order, so its first value is another one in every answer.',
    matches: ({ where }) => where.endsWith('cells[Deep]'),
  },
  {
    name: 'a watch names the forms of a watch',
    reason:
      'Code and reason are the same; the API server names those of a list where a stream was asked for in protobuf.',
    matches: ({ where, theirs, ours }) =>
      where === 'message' && [theirs, ours].every((text) => text.includes('only the following media types')),
  },
  {
    name: 'the version is that of this program',
    reason: 'It says which dialect it speaks, and by what it was built.',
    matches: ({ where }, { path }) => path.startsWith('/version') && where.startsWith('body .'),
  },
  {
    name: 'the checks of health are those of this program',
    reason: 'Each has its path there as well as here; the API server’s are its own hooks, and etcd.',
    matches: ({ where }, { path }) =>
      /^\/(healthz|livez|readyz)\/(etcd|nothing)/.test(path) && (where === 'code' || where === 'header content-type'),
  },
  {
    name: 'the list of paths is that of this program',
    reason: 'It has what is served here.',
    matches: ({ where }, { path }) => /^\/(index\.html)?$/.test(path) && where.startsWith('body .paths'),
  },
  {
    name: 'an unknown path is a Status, not the list of paths',
    reason: 'Both are 404, and client-go and kubectl make the same NotFound of both.',
    matches: ({ where }, { path }) => path.startsWith('//') && /^(body \.|message|reason)/.test(where),
  },
  {
    name: 'OpenAPI in fewer words',
    reason:
      'Clients read schemas, kinds and the parameters of PATCH, which are there; descriptions, tags and operations of what is not served here are not.',
    matches: ({ where }, { path }) => path.startsWith('/openapi/v3') && /^body \.(paths|components)/.test(where),
  },
]
