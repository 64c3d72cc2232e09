/** Chooses the encoder for a negotiated form of a resource. */
import { BadRequestError } from '../../../engine/model/status.js'
import type { Schema } from '../../codec/protobuf/schema.js'
import type { Negotiated } from '../accept.js'
import type { Projection } from '../projection.js'
import type { ServedResource } from '../resource-registry.js'
import { type JsonView, jsonEncoder } from './json-encoder.js'
import { metadataView } from './metadata-view.js'
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

/** @throws BadRequestError */
export function chooseEncoder(
  { view, schema, now }: EncodersOptions,
  served: ServedResource,
  form: Pick<Negotiated, 'encoding' | 'transform' | 'metaVersion'>,
  includeObject: string,
  projection: Projection | null,
): ObjectEncoder {
  const isPlain = form.encoding !== 'protobuf' && form.transform === 'none'
  if (projection !== null && !isPlain) {
    throw new BadRequestError('fields requires whole objects in JSON or YAML')
  }
  const { metaVersion } = form
  if (form.encoding === 'protobuf' && form.transform !== 'table')
    return form.transform === 'none'
      ? protobufEncoder(served.resource, view, schema)
      : protobufMetadataEncoder(served.resource, metadataView(served.resource, view), metaVersion)
  switch (form.transform) {
    case 'table': {
      const include = includedInRows(includeObject)
      const shown = include === 'Metadata' ? metadataView(served.resource, view) : view
      return tableEncoder(served, shown, { include, metaVersion }, now)
    }
    case 'partial':
      return partialEncoder(served.resource, metadataView(served.resource, view), metaVersion)
    case 'none': {
      const whole = jsonEncoder(served.resource, view, served.origin === 'well-known')
      return projection === null ? whole : projectedEncoder(whole, view, projection)
    }
  }
}
