/** The fixed limits of the dialect; see `engine/model/limits.ts`. */

/**
 * The length of a selector. A quarter of what the server accepts as URL and headers, and the time to parse a selector
 * is proportional to its length.
 */
export const MAX_SELECTOR_LENGTH = 16_384
/**
 * Each term costs a lookup per event and group as long as the watch lives, and a real selector has far fewer than a
 * hundred. Values in `in (…)` do not count.
 */
export const MAX_SELECTOR_TERMS = 256
/** The fields of a projection: far more fields than anyone writes by hand. Each costs a comparison for every key along its path. */
export const MAX_SELECTED_FIELDS = 64
/** The token of a page is part of the URL; those that the server makes are far shorter. */
export const MAX_PAGE_TOKEN_LENGTH = 16_384
/** All rules of `strip` together, here and at an upstream: every response of discovery repeats them in a header. */
export const MAX_STRIP_LENGTH = 2_048
/**
 * The maximum accepted depth of an object, and the size of the scanner's stack. No API object comes close: CRDs nest a few dozen
 * levels.
 */
export const MAX_JSON_DEPTH = 512
/** The most values that aliases may expand to in one document; a long text counts as several. */
export const MAX_ALIASED_VALUES = 200_000
/** The limit on the messages in a protobuf body. The largest objects of real clusters have a tenth as many. */
export const MAX_BODY_MESSAGES = 100_000
/** The largest body of a write, in bytes, that is handled on the event loop. */
export const MAX_LOOP_BODY_BYTES = 8 * 1024
/** The number of resources that a write thread remembers. Beyond this number, it forgets all of them. */
export const MAX_KNOWN_RESOURCES = 200
/**
 * The length of a pattern in a definition. Compiling takes more than linear time in the length of a pattern. Patterns of real definitions are a tenth as long.
 */
export const MAX_PATTERN_LENGTH = 4_096
/** The most problems reported for one object, so that a broken client does not get megabytes back. */
export const MAX_PROBLEMS = 64
/** The operations of a JSON Patch: the API server's limit. */
export const MAX_PATCH_OPERATIONS = 10_000
/**
 * The most bytes that one patch may copy, as in the API server. Without this limit, a few lines that each double a
 * member would fill memory.
 */
export const MAX_COPIED_BYTES = 3 * 1024 * 1024
/** The most values that one patch may visit. The largest body holds fewer than half as many. */
export const MAX_PATCH_WORK = 4_000_000
/**
 * The JSON that reading may add to one object: the defaults of its definition, or what the versions of a v1beta1
 * definition share. Ten times as much as etcd stores of an object by default.
 */
export const MAX_ADDED_BYTES = 16 * 1024 * 1024
/** The versions of a definition. Each is a resource of its own; real definitions have a few. */
export const MAX_DEFINITION_VERSIONS = 100
