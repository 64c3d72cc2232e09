/** The objects of a declared prefix, with the type of their values. */
import type { KubeObject } from './reflector/tree-codec.js'

/**
 * An object of a declared prefix: `key` is the whole key in etcd. Bytes of it that are not UTF-8 are shown as U+FFFD;
 * `keyBytes` then has the key in base64. Only the name identifies an object.
 */
export interface ValueObject<V> extends KubeObject {
  readonly key: string
  readonly keyBytes?: string
  readonly value: V
}

/** An object that `validate` rejected. */
export interface InvalidObject {
  /** As in the store: `namespace/name`, or `name` without a namespace. */
  readonly key: string
  /** As the server sent it. */
  readonly object: unknown
  /** Thrown by `validate`. */
  readonly error: unknown
}

/**
 * Turns a validator of values into a validator of objects, for the option `validate` of informers: `validate:
 * withValue(Flag.parse)`.
 *
 * @param parse gets the JSON value of a key, or its text; undefined for any other bytes. It returns the value to show,
 * or throws.
 */
export function withValue<V>(parse: (value: unknown) => V): (object: unknown) => ValueObject<V> {
  return (object) => {
    const sent = object as KubeObject & { readonly key: string; readonly value?: unknown; readonly text?: string }
    return { ...sent, value: parse('value' in sent ? sent.value : sent.text) }
  }
}
