/** Objects with every member that Go writes for an absent one, as those that have passed through an API server. */
import { type JsonRecord, parseJsonTree } from '../../src/kubernetes/codec/json-tree.js'
import { decodeObject } from '../../src/kubernetes/codec/protobuf/decode.js'
import { encodeObject } from '../../src/kubernetes/codec/protobuf/encode-object.js'
import { kubernetesSchema } from '../../src/kubernetes/codec/protobuf/schema.js'

/** @param object of a built-in kind. */
export function wholeObject(object: object): object {
  return fromProtobuf(toProtobuf(object))
}

/** The value that an API server stores. @param object of a built-in kind. */
export function toProtobuf(object: object): Buffer {
  const tree = parseJsonTree(Buffer.from(JSON.stringify(object))).value as JsonRecord
  return encodeObject(tree, kubernetesSchema())!
}

export function fromProtobuf(value: Buffer): object {
  return JSON.parse(decodeObject(value, kubernetesSchema()).bytes.toString()) as object
}
