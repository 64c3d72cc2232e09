/** Chooses the encoder for a negotiated form of a resource. */
import { BadRequestError } from '../../model/status.js'
import { MANAGED_FIELDS } from '../../codec/left-out-fields.js'
import type { Schema } from '../../codec/protobuf/schema.js'
import type { Negotiated } from '../accept.js'
import type { Projection } from '../projection.js'
import type { ServedResource } from '../resource-registry.js'
import { type JsonView, jsonEncoder } from './json-encoder.js'
import { leftOutOfForm } from './left-out-of-form.js'
import type { ObjectEncoder } from './object-encoder.js'
import { partialEncoder } from './partial-encoder.js'
import { projectedEncoder } from './projected-encoder.js'
import { protobufMetadataEncoder } from './protobuf-metadata-encoder.js'
import { protobufEncoder } from './protobuf-encoder.js'
import { includedInRows } from '../table/encode-table.js'
import { tableEncoder } from './table-encoder.js'

export interface EncodersOptions {
  readonly view: JsonView
  readonly schema: Schema
  /** The wall clock in milliseconds. */
  readonly now: () => number
}

type Form = Pick<Negotiated, 'encoding' | 'transform' | 'metaVersion' | 'dropsManagedFields'>

/** @throws BadRequestError */
export function chooseEncoder(
  options: EncodersOptions,
  served: ServedResource,
  form: Form,
  includeObject: string,
  projection: Projection | null,
): ObjectEncoder {
  const encoder = encoderFor(options, served, form, includeObject, projection)
  return form.dropsManagedFields ? { ...encoder, key: `${encoder.key}/drop=${MANAGED_FIELDS}` } : encoder
}

function encoderFor(
  { view: whole, schema, now }: EncodersOptions,
  served: ServedResource,
  form: Form,
  includeObject: string,
  projection: Projection | null,
): ObjectEncoder {
  const isPlain = form.encoding !== 'protobuf' && form.transform === 'none'
  if (projection !== null && !isPlain) {
    throw new BadRequestError('fields requires whole objects in JSON or YAML')
  }
  const { metaVersion } = form
  const include = includedInRows(form.transform === 'table' ? includeObject : 'None')
  const isMetadata = form.transform === 'partial' || include === 'Metadata'
  const leftOut = leftOutOfForm(served.resource, isMetadata, form.dropsManagedFields)
  const view: JsonView =
    leftOut === null
      ? whole
      : (object) => {
          const json = whole(object)
          return json === null ? null : leftOut.fromJson(json)
        }
  if (form.encoding === 'protobuf' && form.transform !== 'table')
    return form.transform === 'none'
      ? protobufEncoder(served.resource, view, schema, leftOut)
      : protobufMetadataEncoder(served.resource, view, metaVersion, leftOut)
  switch (form.transform) {
    case 'table':
      // The cells are those of the whole object.
      return tableEncoder(served, whole, { include, metaVersion, leftOut }, now)
    case 'partial':
      return partialEncoder(served.resource, view, metaVersion)
    case 'none': {
      const encoder = jsonEncoder(served.resource, view, served.origin === 'well-known')
      return projection === null ? encoder : projectedEncoder(encoder, view, projection)
    }
  }
}
