/**
 * Encodes JSON as protobuf, for clients that read only protobuf: whole objects that are stored as JSON, the metadata
 * of such objects, responses to writes, documents of discovery, Statuses.
 *
 * The encoder uses the same table as the decoder. Members missing from the table are dropped, and the bytes are those
 * that Go writes: fields are in the order of their numbers, and members that are not pointers are written even when
 * empty.
 */
import { isNumber, isRecord, type Json, type JsonRecord, jsonText, record, textMember, treeFrom } from '../json-tree.js'
import { goDuration } from '../../../support/duration.js'
import { orderlyMetadata } from '../object-metadata.js'
import { BackwardWriter } from './backward-writer.js'
import { CodecError } from './codec-error.js'
import { enveloped } from './resource-version-splice.js'
import { type Field, kubernetesSchema, type Message, META_PACKAGE, OBJECT_META, type Schema } from './schema.js'
import { oncePer } from '../../../support/memo.js'

/** The length of `2026-01-01T00:00:00Z`. */
const WHOLE_SECONDS = 20

const NOTHING: JsonRecord = Object.freeze(record())

/**
 * Returns the object in its envelope; null for a kind missing from the table. An object without an apiVersion is
 * encoded as `v1`, but its envelope has no apiVersion either.
 *
 * @throws CodecError when a member does not have the type that the table gives it.
 */
export function encodeObject(object: JsonRecord, schema: Schema): Buffer | null {
  const apiVersion = textMember(object, 'apiVersion')
  const kind = textMember(object, 'kind')
  const message = messageOf(schema, apiVersion === '' ? 'v1' : apiVersion, kind)
  if (message === undefined) return null
  return enveloped(apiVersion, kind, encodeMessage(object, message, schema))
}

/** Returns null for what protobuf cannot express. */
export function encodeIfPossible(object: Json, schema: Schema): Buffer | null {
  try {
    return isRecord(object) ? encodeObject(object, schema) : null
  } catch (error) {
    if (error instanceof CodecError) return null
    throw error
  }
}

/** Returns the metadata of a list, without an envelope. */
export function encodeListMeta(metadata: object): Buffer {
  const schema = kubernetesSchema()
  return encodeMessage(treeFrom(metadata) as JsonRecord, schema.message(`${META_PACKAGE}.ListMeta`)!, schema)
}

/**
 * Returns the ObjectMeta of an object of any kind. Its form is the same for all kinds.
 *
 * @param metadata as parsed by `JSON.parse`; members of wrong types are dropped.
 * @param resourceVersion replaces the stored one.
 */
export function encodeObjectMeta(metadata: unknown, resourceVersion: string): Buffer {
  const orderly = isRecord(metadata) ? orderlyMetadata(metadata) : NOTHING
  const schema = kubernetesSchema()
  return encodeMessage({ ...orderly, resourceVersion }, schema.message(OBJECT_META)!, schema, JSON.stringify)
}

function encodeMessage(value: JsonRecord, message: Message, schema: Schema, textOf = jsonText): Buffer {
  const encoder = new Encoder(schema, textOf)
  encoder.message(value, message)
  return encoder.out.finish()
}

/** The table has no kinds of lists, because every list consists of the same two fields. */
function messageOf(schema: Schema, apiVersion: string, kind: string): Message | undefined {
  const own = schema.messageOfKind(apiVersion, kind)
  const item = kind.endsWith('List') ? schema.messageOfKind(apiVersion, kind.slice(0, -'List'.length)) : undefined
  if (own !== undefined || item === undefined) return own
  const field = { ...item.fields[0]!, jsonName: 'metadata', messageName: `${META_PACKAGE}.ListMeta` }
  const items: Field = { ...field, number: 2, jsonName: 'items', label: 'repeated', messageName: item.fullName }
  return { ...item, fullName: `${item.fullName}List`, fields: [field, items] }
}

/** Fields that Go once wrote even when empty and has since removed. Stored objects may still have them. */
const OBSOLETE: ReadonlySet<string> = new Set([
  `${OBJECT_META}.clusterName`,
  'k8s.io.api.core.v1.EphemeralVolumeSource.readOnly',
  'k8s.io.api.core.v1.EventSeries.state',
  'k8s.io.api.events.v1beta1.EventSeries.state',
])

/** The fields of each message in the order in which they are written: the last one first. */
const backwards = oncePer(({ fullName, fields }: Message) =>
  fields.filter(({ jsonName }) => !OBSOLETE.has(`${fullName}.${jsonName}`)).sort((a, b) => b.number - a.number),
)

/** Writes everything from the end: the last field first, and the last item of a list first. */
class Encoder {
  readonly out = new BackwardWriter()

  /** @param textOf writes a value as JSON. */
  constructor(
    private readonly schema: Schema,
    private readonly textOf: (value: Json) => string,
  ) {}

  message(value: Json, message: Message): void {
    const { form, fields, fullName } = message
    const [first, second] = fields
    if (form === 'items') return this.#items(value, first!)
    if (form === 'either') return this.#either(value, first!, second!)
    if (!isRecord(value)) throw wrongType(fullName)
    for (const field of backwards(message)) this.#field(value, field)
  }

  /** Encodes JSONSchemaPropsOrArray, …OrBool and …OrStringArray. The second field is used if the JSON has its type. */
  #either(value: Json, first: Field, second: Field): void {
    if (second.label === 'repeated' ? !Array.isArray(value) : typeof value === 'boolean')
      return this.#single(value, first)
    if (second.label === 'repeated') return this.#items(value, second)
    this.#single(value, second)
    if (first.type === 'bool') this.#single(true, first)
  }

  #field(holder: JsonRecord, field: Field): void {
    // The members of an inlined message are in its parent.
    if (field.jsonName === '') return this.#single(holder, field)
    const value = holder[field.jsonName] ?? null
    if (field.label === 'repeated') return this.#items(value, field)
    if (field.label === 'map') return this.#entries(value, field)
    if (value !== null) return this.#single(value, field)
    // Go writes members that are not pointers even if empty.
    if (field.label !== 'pointer') this.#empty(field)
  }

  #items(value: Json, field: Field): void {
    if (value === null) return
    if (!Array.isArray(value)) throw wrongType(field.jsonName)
    for (let i = value.length - 1; i >= 0; i--) this.#single(value[i]!, field)
  }

  #entries(value: Json, field: Field): void {
    if (value === null) return
    if (!isRecord(value)) throw wrongType(field.jsonName)
    // Go writes maps in the order of their keys.
    const keys = Object.keys(value).sort()
    for (let i = keys.length - 1; i >= 0; i--) {
      const end = this.out.length
      this.#single(value[keys[i]!]!, field, 2)
      this.out.textField(1, keys[i]!)
      this.out.head(field.number, end)
    }
  }

  #empty(field: Field): void {
    switch (field.type) {
      case 'message': {
        const message = this.schema.message(field.messageName)
        const end = this.out.length
        if (message?.form === 'object') this.message(NOTHING, message)
        return this.out.head(field.number, end)
      }
      case 'bytes':
        return
      case 'string':
      case 'enum':
      case 'quantity':
      case 'json':
      case 'time':
      case 'microtime':
        return this.out.head(field.number, this.out.length)
      case 'duration':
        return this.#single('0s', field)
      case 'bool':
        return this.#single(false, field)
      default:
        return this.#single(0, field)
    }
  }

  /** Writes one value: an item of a list, a value of a map, or the member itself. */
  #single(value: Json, field: Field, number = field.number): void {
    const { out } = this
    const end = out.length
    switch (field.type) {
      case 'message': {
        const message = this.schema.message(field.messageName)
        if (message === undefined) throw wrongType(field.messageName)
        if (value !== null) this.message(value, message)
        return out.head(number, end)
      }
      case 'string':
      case 'enum':
        return this.out.textField(number, textOf(value, field))
      case 'bytes':
        out.bytes(Buffer.from(textOf(value, field), 'base64'))
        return out.head(number, end)
      case 'bool':
        if (typeof value !== 'boolean') throw wrongType(field.jsonName)
        return this.out.integerField(number, value ? 1 : 0)
      case 'double':
        return out.doubleField(number, Number(numberOf(value, field)))
      case 'int32':
      case 'int64':
      case 'uint32':
      case 'uint64':
        return this.out.integerField(number, integerOf(value, field))
      case 'time':
      case 'microtime':
        if (value !== null) this.#time(textOf(value, field))
        return out.head(number, end)
      case 'quantity':
        this.out.textField(1, isNumber(value) ? String(value) : textOf(value, field))
        return out.head(number, end)
      case 'intorstring': {
        const isText = typeof value === 'string'
        this.out.textField(3, isText ? value : '')
        this.out.integerField(2, isText ? 0 : integerOf(value, field))
        this.out.integerField(1, isText ? 1 : 0)
        return out.head(number, end)
      }
      case 'duration':
        this.out.integerField(1, nanoseconds(value, field))
        return out.head(number, end)
      case 'json':
        this.out.textField(1, this.textOf(value))
        return out.head(number, end)
      default:
        throw new CodecError('malformed', `no field of Kubernetes has the type ${field.type}`, 0)
    }
  }

  #time(text: string): void {
    const milliseconds = Date.parse(text)
    if (Number.isNaN(milliseconds)) throw new CodecError('malformed', `${text} is not a time`, 0)
    const fraction = text.length > WHOLE_SECONDS ? (/[.,](\d+)/.exec(text)?.[1] ?? '') : ''
    this.out.integerField(2, Number(fraction.slice(0, 9).padEnd(9, '0')))
    this.out.integerField(1, Math.floor(milliseconds / 1_000))
  }
}

function nanoseconds(value: Json, field: Field): bigint {
  const duration = goDuration(textOf(value, field))
  if (typeof duration === 'string') throw wrongType(field.jsonName)
  return BigInt(Math.round(duration))
}

function textOf(value: Json, { jsonName }: Field): string {
  if (value === null) return ''
  if (typeof value !== 'string') throw wrongType(jsonName)
  return value
}

function numberOf(value: Json, { jsonName }: Field): string {
  if (!isNumber(value)) throw wrongType(jsonName)
  return String(value)
}

function integerOf(value: Json, field: Field): number | bigint {
  if (typeof value === 'number' && value >= 0 && Number.isSafeInteger(value)) return value
  const text = numberOf(value, field)
  if (!/^-?\d{1,20}$/.test(text)) throw wrongType(field.jsonName)
  return BigInt(text)
}

function wrongType(name: string): CodecError {
  return new CodecError('wire-type', `${name} has another type in JSON`, 0)
}
