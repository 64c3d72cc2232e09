/** The query parameters of writes, and DeleteOptions, which may be a body or query parameters. */
import { type Json, member, textMember } from '../codec/json-tree.js'
import { flagParameter, integerParameter, parameter } from '../dialect/query.js'
import { BadRequestError, InvalidError } from '../model/status.js'
import { type FieldProblem, forbiddenField, invalid, notSupported, required, tooLong } from './field-errors.js'
import { parseTimeToLive, TIME_TO_LIVE_RULE } from './time-to-live.js'

export type FieldValidation = 'Ignore' | 'Warn' | 'Strict'

export interface WriteOptions {
  readonly dryRun: boolean
  /** The manager's name is never ''. */
  readonly fieldManager: string
  readonly fieldValidation: FieldValidation
  /** Only an apply may be forced. */
  readonly force: boolean
  /** The `ttl` parameter in seconds: 0 means no limit, null that none is given. */
  readonly ttlSeconds: number | null
}

/** The limit in bytes. */
const MAX_MANAGER_LENGTH = 128
/** The characters that Go's `unicode.IsPrint` excludes. */
const UNPRINTABLE = /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu

export function managerProblems(field: string, manager: string): readonly FieldProblem[] {
  const problems: FieldProblem[] = []
  if (Buffer.byteLength(manager) > MAX_MANAGER_LENGTH) problems.push(tooLong(field, MAX_MANAGER_LENGTH))
  for (const { 0: character, index } of manager.slice(0, MAX_MANAGER_LENGTH).matchAll(UNPRINTABLE)) {
    const code = character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')
    const position = Buffer.byteLength(manager.slice(0, index))
    problems.push(invalid(field, manager, `invalid character U+${code} (at position ${position})`))
  }
  return problems
}

/** @param verb the kind of the options in error messages. @throws InvalidError, BadRequestError */
export function parseWriteOptions(
  query: URLSearchParams,
  userAgent: string,
  verb: 'Create' | 'Update' | 'Patch',
  isApply = false,
): WriteOptions {
  const problems: FieldProblem[] = []
  const manager = parameter(query, 'fieldManager') ?? ''
  problems.push(...managerProblems('fieldManager', manager))
  if (isApply && manager === '') problems.push(required('fieldManager', 'is required for apply patch'))
  const force = flagParameter(query, 'force') ?? false
  if (query.has('force') && verb === 'Patch' && !isApply) {
    problems.push(forbiddenField('force', 'may not be specified for non-apply patch'))
  }
  const validation = parameter(query, 'fieldValidation') ?? ''
  if (!['', 'Ignore', 'Warn', 'Strict'].includes(validation)) {
    problems.push(notSupported('fieldValidation', validation, ['', 'Ignore', 'Strict', 'Warn']))
  }
  const dryRun = readDryRun(query.getAll('dryRun'), problems)
  const ttl = parameter(query, 'ttl')
  const ttlSeconds = ttl === undefined || ttl === '0' ? null : parseTimeToLive(ttl)
  if (ttl !== undefined && ttl !== '0' && ttlSeconds === null) {
    problems.push(invalid('ttl', ttl, TIME_TO_LIVE_RULE))
  }
  if (problems.length > 0) throw InvalidError.forFields(`${verb}Options`, 'meta.k8s.io', '', problems)
  return {
    dryRun,
    fieldManager: manager === '' ? defaultManager(userAgent) : manager,
    fieldValidation: validation === '' ? 'Warn' : (validation as FieldValidation),
    force,
    ttlSeconds: ttl === '0' ? 0 : ttlSeconds,
  }
}

/**
 * Returns the default field manager, as in the API server: the printable characters of the user agent before its
 * first slash, as many as fit.
 *
 * @param userAgent as in HTTP headers, one character per byte.
 */
function defaultManager(userAgent: string): string {
  const [first = ''] = Buffer.from(userAgent, 'latin1').toString('utf8').split('/', 1)
  let name = ''
  let length = 0
  for (const character of first.replaceAll(UNPRINTABLE, '')) {
    length += Buffer.byteLength(character)
    if (length > MAX_MANAGER_LENGTH) break
    name += character
  }
  return name === '' ? 'unknown' : name
}

function readDryRun(values: readonly string[], problems: FieldProblem[]): boolean {
  if (values.some((value) => value !== 'All')) problems.push(notSupported('dryRun', values, ['All']))
  return values.length > 0
}

export interface DeleteOptions {
  readonly dryRun: boolean
  /** null if the client does not require a UID. */
  readonly uid: string | null
  readonly resourceVersion: string | null
}

const PROPAGATION = ['Foreground', 'Background', 'Orphan']

/**
 * Grace periods and propagation policies are checked but have no effect, because nothing here runs pods or collects
 * garbage.
 *
 * @param body whose members have the right types; null if there was none.
 * @throws BadRequestError, InvalidError
 */
export function parseDeleteOptions(query: URLSearchParams, body: Json): DeleteOptions {
  const problems: FieldProblem[] = []
  const kind = textMember(body, 'kind')
  if (kind !== '' && kind !== 'DeleteOptions') {
    throw new BadRequestError(`the body of a delete must be DeleteOptions, not ${JSON.stringify(kind)}`)
  }
  const policy = textMember(body, 'propagationPolicy') || (parameter(query, 'propagationPolicy') ?? '')
  if (policy !== '' && !PROPAGATION.includes(policy)) {
    problems.push(notSupported('propagationPolicy', policy, [...PROPAGATION, 'nil']))
  }
  if (policy !== '' && typeof (member(body, 'orphanDependents') ?? null) === 'boolean') {
    const why = 'orphanDependents and deletionPropagation cannot be both set'
    problems.push(invalid('propagationPolicy', policy, why))
  }
  integerParameter(query, 'gracePeriodSeconds')
  const inBody = member(body, 'dryRun')
  const listed = Array.isArray(inBody) ? inBody.map((value) => (typeof value === 'string' ? value : '')) : []
  const dryRun = readDryRun([...query.getAll('dryRun'), ...listed], problems)
  if (problems.length > 0) throw InvalidError.forFields('DeleteOptions', 'meta.k8s.io', '', problems)
  const precondition = (name: string): string | null => {
    // As in the API server, with a body, a resourceVersion in the query only determines which collection is deleted.
    if (body === null) return parameter(query, name) || null
    const value = member(body, 'preconditions', name)
    return typeof value === 'string' ? value : null
  }
  return { dryRun, uid: precondition('uid'), resourceVersion: precondition('resourceVersion') }
}
