/**
 * A message of the schema prepared for the decoder: the slot of each field number, the required wire type of each
 * field, and the bytes written before its value in JSON. A plan is built once per message and schema, at first use.
 */
import { CodecError } from './codec-error.js'
import { type Field, type Message, OBJECT_META, type ScalarType, type Schema, type SpecialType } from './schema.js'
import { LENGTH, SCALAR_WIRE_TYPES } from './wire.js'
import { isStruct, zeroOf } from './zero-value.js'
import { oncePer } from '../../../support/memo.js'

export type FieldType = ScalarType | SpecialType | 'message'

/** Far above every field number in Kubernetes; limits the size of the table indexed by number. */
const MAX_FIELD_NUMBER = 10_000

export const WIRE_TYPES: Record<FieldType, number> = {
  ...SCALAR_WIRE_TYPES,
  time: LENGTH,
  microtime: LENGTH,
  duration: LENGTH,
  quantity: LENGTH,
  intorstring: LENGTH,
  json: LENGTH,
  message: LENGTH,
}

export class PlanField {
  readonly number: number
  readonly jsonName: string
  readonly type: FieldType
  readonly label: Field['label']
  /** The wire type of one occurrence: for a map, that of an entry; for a repeated field, that of an element. */
  readonly wireType: number
  /** Whether many numbers may come in one length-delimited occurrence. */
  readonly isPackable: boolean
  readonly isInline: boolean
  readonly omitsEmpty: boolean
  /** Whether a zero struct is omitted. */
  readonly omitsZero: boolean
  /** Structs are written even when they are empty, unless their tag says `omitzero`. */
  readonly isStruct: boolean
  /**
   * Whether nothing is written for an absent field. This holds for most fields of most messages, so absent fields are
   * skipped quickly.
   */
  readonly isSkippedWhenAbsent: boolean
  /** Whether the field is known but never written. */
  readonly isHidden: boolean
  /** `"name":` */
  readonly prefix: Buffer
  /** The JSON that is written if the field is absent on the wire: for example `null` for bytes. */
  readonly zero: Buffer
  readonly keyType: ScalarType
  readonly enumNames: ReadonlyMap<number, string> | null
  private readonly messageName: string
  private messagePlan: Plan | null = null

  constructor(field: Field, isHidden: boolean) {
    this.number = field.number
    this.jsonName = field.jsonName
    this.type = field.type
    this.label = field.label
    this.wireType = field.label === 'map' ? LENGTH : WIRE_TYPES[field.type]
    this.isPackable = field.label === 'repeated' && this.wireType !== LENGTH
    this.isInline = field.jsonName === ''
    this.omitsEmpty = field.isOmittedWhenEmpty
    this.omitsZero = field.isOmittedWhenZero
    this.isStruct = isStruct(field)
    this.isSkippedWhenAbsent =
      isHidden ||
      (field.label === 'value' && this.isStruct && !this.omitsZero
        ? false
        : this.omitsEmpty || (field.label === 'pointer' && this.isInline))
    this.isHidden = isHidden
    this.prefix = Buffer.from(`${JSON.stringify(field.jsonName)}:`, 'utf8')
    this.zero = Buffer.from(JSON.stringify(field.type === 'bytes' ? null : zeroOf(field)), 'utf8')
    this.keyType = field.keyType
    this.enumNames = field.enumNames
    this.messageName = field.messageName
  }

  /** The plan of the field's message, looked up at first use because schemas are recursive. */
  plan(plans: Plans): Plan {
    this.messagePlan ??= plans.ofMessage(this.messageName)
    return this.messagePlan
  }
}

export class Plan {
  readonly name: string
  readonly form: Message['form']
  readonly isKind: boolean
  /** The fields in output order. */
  readonly fields: readonly PlanField[]
  /** Maps a field number to an index in `fields`, -1 for none. */
  readonly slotOf: Int16Array
  /**
   * `"kind":…,"apiVersion":…,` of the last object. Options are kinds of any apiVersion that a client sends, so no more
   * than one is kept.
   */
  head: { readonly apiVersion: string; readonly bytes: Buffer } | null = null

  /** @param hiddenName the name of a field that is silently skipped. */
  constructor(message: Message, hiddenName?: string) {
    this.name = message.fullName
    this.form = message.form
    this.isKind = message.isKind
    this.fields = message.fields.map((field) => new PlanField(field, field.jsonName === hiddenName))
    const highest = this.fields.reduce((max, field) => Math.max(max, field.number), 0)
    if (highest > MAX_FIELD_NUMBER) {
      throw new CodecError('unsupported', `${message.fullName} has field ${highest}, above ${MAX_FIELD_NUMBER}`)
    }
    this.slotOf = new Int16Array(highest + 1).fill(-1)
    for (const [slot, field] of this.fields.entries()) this.slotOf[field.number] = slot
  }
}

/** The plans of one schema. */
export class Plans {
  private readonly byName = new Map<string, Plan>()

  private metadata: Plan | null = null

  constructor(readonly schema: Schema) {}

  /** The plan of ObjectMeta as served, without the resourceVersion, which is inserted later. */
  get metadataPlan(): Plan {
    this.metadata ??= this.ofMessage(OBJECT_META, 'resourceVersion')
    return this.metadata
  }

  ofKind(apiVersion: string, kind: string): Plan {
    const message = this.schema.messageOfKind(apiVersion, kind)
    if (message === undefined) {
      throw new CodecError('unknown-kind', `no schema for kind ${quote(kind)} of ${quote(apiVersion)}`)
    }
    return this.ofMessage(message.fullName)
  }

  ofMessage(fullName: string, hiddenName?: string): Plan {
    const key = hiddenName === undefined ? fullName : `${fullName} without ${hiddenName}`
    let plan = this.byName.get(key)
    if (plan === undefined) {
      const message = this.schema.message(fullName)
      if (message === undefined) throw new CodecError('unknown-kind', `no schema for message ${quote(fullName)}`)
      plan = new Plan(message, hiddenName)
      this.byName.set(key, plan)
    }
    return plan
  }
}

export const plansOf = oncePer((schema: Schema) => new Plans(schema))

/** Quotes a name from stored bytes, cut to fit a log line. */
function quote(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text)
}
