/**
 * Reads objects as the bytes that the server sent, for programs that pass them on. Only name, namespace and
 * resourceVersion are parsed, and nothing is changed, so numbers above 2^53 and duplicate keys are preserved.
 *
 * The bytes of each object are copied, because a slice would keep the whole network chunk in memory as long as the
 * object.
 */
import type { StatusLike } from './watch-failure.js'
import { eachElement, eachMember, stringAt } from '../../support/json-members.js'
import {
  type DecodedEvent,
  type DecodedList,
  eventOf,
  INITIAL_EVENTS_END,
  type ObjectCodec,
  objectKey,
  orMalformed,
} from './object-codec.js'

/** An object as the bytes that the server sent. */
export interface BytesObject {
  /** JSON as sent. In a page of a list it may lack `kind` and `apiVersion`. */
  readonly bytes: Uint8Array
  /** '' if the object has no namespace. */
  readonly namespace: string
  readonly name: string
  readonly resourceVersion: string
}

const decoder = new TextDecoder()

/** Reads objects as the bytes that the server sent, to pass them on. */
export const bytesCodec: ObjectCodec<BytesObject> = {
  keyOf: ({ namespace, name }) => objectKey(namespace, name),

  decodeEvent: (line) =>
    orMalformed('a watch event', () => {
      let type = ''
      let object: Uint8Array | null = null
      eachMember(line, 0, (name, start, end) => {
        if (name === 'type') type = stringAt(line, start, end)
        else if (name === 'object') object = line.subarray(start, end)
        return type === '' || object === null
      })
      if (object === null) throw new Error('no object')
      return decoded(type, object)
    }),

  decodeObject: (type, object) => orMalformed('a watch event', () => decoded(type, object)),

  decodeList: (body) =>
    orMalformed('a list', () => {
      const list: { -readonly [K in keyof DecodedList<BytesObject>]: DecodedList<BytesObject>[K] } = {
        resourceVersion: '',
        continueToken: '',
        items: [],
      }
      eachMember(body, 0, (member, at) => {
        if (member === 'metadata') {
          eachMember(body, at, (name, start, end) => {
            if (name === 'resourceVersion') list.resourceVersion = stringAt(body, start, end)
            else if (name === 'continue') list.continueToken = stringAt(body, start, end)
            else if (name === 'remainingItemCount') list.remainingItemCount = countAt(body, start, end)
            return true
          })
        } else if (member === 'items' && body[at] === 0x5b) {
          eachElement(body, at, (start, end) => list.items.push(bytesObject(body.subarray(start, end)).object))
        }
        return true
      })
      if (list.resourceVersion === '') throw new Error('no resourceVersion')
      return list
    }),
}

function decoded(type: string, bytes: Uint8Array): DecodedEvent<BytesObject> {
  if (type === 'ERROR') return { type, status: JSON.parse(decoder.decode(bytes)) as StatusLike }
  const { object, endsInitialEvents } = bytesObject(bytes)
  const { namespace, name, resourceVersion } = object
  return eventOf(type, { object, key: objectKey(namespace, name), resourceVersion }, endsInitialEvents)
}

function bytesObject(bytes: Uint8Array): { object: BytesObject; endsInitialEvents: boolean } {
  let name = ''
  let namespace = ''
  let resourceVersion = ''
  let endsInitialEvents = false
  eachMember(bytes, 0, (member, at) => {
    if (member !== 'metadata') return true
    eachMember(bytes, at, (field, start, end) => {
      if (field === 'name') name = stringAt(bytes, start, end)
      else if (field === 'namespace') namespace = stringAt(bytes, start, end)
      else if (field === 'resourceVersion') resourceVersion = stringAt(bytes, start, end)
      else if (field === 'annotations' && bytes[start] === 0x7b) {
        eachMember(bytes, start, (annotation, from, to) => {
          if (annotation === INITIAL_EVENTS_END) endsInitialEvents = stringAt(bytes, from, to) === 'true'
          return true
        })
      }
      return true
    })
    return false
  })
  return { object: { bytes: new Uint8Array(bytes), namespace, name, resourceVersion }, endsInitialEvents }
}

function countAt(bytes: Uint8Array, start: number, end: number): number {
  const count = Number(decoder.decode(bytes.subarray(start, end)))
  if (!Number.isSafeInteger(count) || count < 0) throw new Error('remainingItemCount is not a whole number')
  return count
}
