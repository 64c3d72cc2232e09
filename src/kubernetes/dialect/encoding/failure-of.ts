/** Says errors in a watch as Statuses, and tells the transport what the client has to do next. */
import type { Failure } from '../../../engine/model/body-encoder.js'
import { type Status } from '../../model/status.js'
import { statusOf } from '../../model/status-of.js'
import type { ObjectEncoder } from './object-encoder.js'

type EncodeStatus = (status: Status) => Buffer

export function failureOf(caught: unknown, encodeStatus: EncodeStatus): Failure {
  const error = statusOf(caught)
  return {
    body: encodeStatus(error.toStatus()),
    mustRestart: error.code === 410,
    retryAfterSeconds: error.details?.retryAfterSeconds,
  }
}

/** What encoders have in common unless they show a part of the objects or tables. */
export function wholeObjects(
  encodeStatus: EncodeStatus,
): Pick<ObjectEncoder, 'status' | 'failure' | 'encodeFirst' | 'isSame'> {
  return {
    status: encodeStatus,
    failure: (error) => failureOf(error, encodeStatus),
    encodeFirst: null,
    isSame: null,
  }
}
