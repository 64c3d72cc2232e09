/** Which encoder writes a negotiated form of a resource. */
import { BadRequestError, NotAcceptableError } from '../../model/status.js'
import type { Negotiated } from '../accept.js'
import type { IncludeObject } from '../list-options.js'
import type { Projection } from '../projection.js'
import type { ServedResource } from '../resource-registry.js'
import { type JsonView, jsonEncoder } from './json-encoder.js'
import type { ObjectEncoder } from './object-encoder.js'
import { partialEncoder } from './partial-encoder.js'
import { projectedEncoder } from './projected-encoder.js'
import { tableEncoder } from './table-encoder.js'

export interface EncodersOptions {
  readonly view: JsonView
  /** Wall clock, milliseconds. */
  readonly now: () => number
}

/** @throws NotAcceptableError, BadRequestError */
export function chooseEncoder(
  { view, now }: EncodersOptions,
  served: ServedResource,
  form: Pick<Negotiated, 'encoding' | 'transform'>,
  include: IncludeObject,
  projection: Projection | null,
): ObjectEncoder {
  if (form.encoding === 'protobuf') {
    throw new NotAcceptableError(`${served.resource.plural} cannot be had as protobuf: they are not stored so`)
  }
  if (projection !== null && form.transform !== 'none') {
    throw new BadRequestError(
      `fields cannot be combined with as=${form.transform === 'table' ? 'Table' : 'PartialObjectMetadata'}`,
    )
  }
  switch (form.transform) {
    case 'table':
      return tableEncoder(served, view, include, now)
    case 'partial':
      return partialEncoder(served.resource, view)
    case 'none': {
      const whole = jsonEncoder(served.resource, view)
      return projection === null ? whole : projectedEncoder(whole, view, projection)
    }
  }
}
