/**
 * Checks ConfigMaps and Secrets as the API server does, because their keys become names of files and variables in
 * pods.
 */
import { isRecord, type Json, type JsonRecord, textMember } from '../codec/json-tree.js'
import { type FieldProblem, invalid, required, tooLong } from './field-errors.js'
import { isObject } from '../../support/fields.js'
import { jsonIn } from '../../support/json-text.js'

const MAX_BYTES = 1024 * 1024
const MAX_KEY_LENGTH = 253
const KEY = /^[-._a-zA-Z0-9]+$/
const KEY_RULE =
  "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"

export function configMapProblems(object: JsonRecord): readonly FieldProblem[] {
  const { data = null, binaryData = null } = object
  const problems = keyProblems('data', data)
  for (const key of keysOf(data)) {
    if (!isRecord(binaryData) || !Object.hasOwn(binaryData, key)) continue
    problems.push(invalid(`data[${key}]`, key, 'duplicate of key present in binaryData'))
  }
  problems.push(...keyProblems('binaryData', binaryData))
  if (sizeOf(data, 'utf8') + sizeOf(binaryData, 'base64') > MAX_BYTES) problems.push(tooLong('[]', MAX_BYTES))
  return problems
}

interface TypeRule {
  readonly keys: readonly string[]
  /** Whether one of the keys is enough. */
  readonly isAnyEnough?: boolean
  /** Whether the values must be JSON objects. */
  readonly isJson?: boolean
}

/** The keys that a Secret of a type must have. */
const REQUIRED: Readonly<Record<string, TypeRule>> = {
  'kubernetes.io/dockercfg': { keys: ['.dockercfg'], isJson: true },
  'kubernetes.io/dockerconfigjson': { keys: ['.dockerconfigjson'], isJson: true },
  'kubernetes.io/basic-auth': { keys: ['username', 'password'], isAnyEnough: true },
  'kubernetes.io/ssh-auth': { keys: ['ssh-privatekey'] },
  'kubernetes.io/tls': { keys: ['tls.crt', 'tls.key'] },
}
const ACCOUNT_TOKEN = 'kubernetes.io/service-account-token'
const ACCOUNT_NAME = 'kubernetes.io/service-account.name'

/** @param before null for a new object. */
export function secretProblems(before: JsonRecord | null, object: JsonRecord): readonly FieldProblem[] {
  const { data = null } = object
  const type = textMember(object, 'type')
  const problems: FieldProblem[] = []
  if (before !== null && textMember(before, 'type') !== type) problems.push(invalid('type', type, 'field is immutable'))
  problems.push(...keyProblems('data', data))
  if (sizeOf(data, 'base64') > MAX_BYTES) problems.push(tooLong('data', MAX_BYTES))
  if (type === ACCOUNT_TOKEN && textMember(object, 'metadata', 'annotations', ACCOUNT_NAME) === '') {
    problems.push(required(`metadata.annotations[${ACCOUNT_NAME}]`))
  }
  const rule: TypeRule = Object.hasOwn(REQUIRED, type) ? REQUIRED[type]! : { keys: [] }
  // An empty private key counts as a missing one.
  const missing = rule.keys.filter((key) => !keysOf(data).includes(key) || isEmptyKey(key, data))
  if (rule.isAnyEnough !== true || missing.length === rule.keys.length) {
    problems.push(...missing.map((key) => required(`data[${key}]`)))
  }
  if (missing.length === 0 && rule.isJson === true) {
    problems.push(...rule.keys.flatMap((key) => jsonProblems(key, data)))
  }
  return problems
}

function keysOf(map: Json): readonly string[] {
  return isRecord(map) ? Object.keys(map) : []
}

function isEmptyKey(key: string, data: Json): boolean {
  return key === 'ssh-privatekey' && isRecord(data) && data[key] === ''
}

function keyProblems(field: string, map: Json): FieldProblem[] {
  return keysOf(map).flatMap((key) => {
    const problems: string[] = []
    if (Buffer.byteLength(key) > MAX_KEY_LENGTH) problems.push(`must be no more than ${MAX_KEY_LENGTH} characters`)
    if (!KEY.test(key)) problems.push(KEY_RULE)
    if (key === '.' || key === '..') problems.push(`must not be '${key}'`)
    else if (key.startsWith('..')) problems.push("must not start with '..'")
    return problems.map((why) => invalid(`${field}[${key}]`, key, why))
  })
}

function sizeOf(map: Json, encoding: 'utf8' | 'base64'): number {
  let bytes = 0
  if (isRecord(map)) {
    for (const key in map) if (typeof map[key] === 'string') bytes += Buffer.byteLength(map[key], encoding)
  }
  return bytes
}

function jsonProblems(key: string, data: Json): readonly FieldProblem[] {
  const text = Buffer.from(textMember(data, key), 'base64').toString('utf8')
  const value = jsonIn(text)
  if (value === null || isObject(value)) return []
  return [invalid(`data[${key}]`, '<secret contents redacted>', 'it is not a JSON object')]
}
