/**
 * How etcd's watchers see a resource: which events they select, and the bytes that they share. The group of a range
 * encodes its events once; the header and the watch id, which differ between watchers, are added on the way to each
 * (`watch-messages.ts`).
 */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import type { GroupContents } from '../../engine/broadcast/groups.js'
import type { WatchSelector } from '../../engine/broadcast/matcher.js'
import type { WireFormat } from '../../engine/broadcast/wire-format.js'
import type { BodyEncoder, Change } from '../../engine/model/body-encoder.js'
import { type Key, keyToBytes } from '../../engine/model/event.js'
import type { Resource } from '../../engine/model/resource.js'
import { nameOfRest, restOfName } from '../../support/key-name.js'
import { commonPrefix, contains, isPrefixRange, type KeyRange } from '../key-range.js'
import { field, joinedParts, keyValueParts } from '../responses.js'
import type { WatchCreate } from './watch-requests.js'

const NOTHING = Buffer.alloc(0)

/** The bytes of events, and nothing around them. A bookmark is empty: the message around it tells the position. */
const WIRE: WireFormat = {
  key: 'etcd',
  transport: 'grpc',
  frame: (type, body) => (type === 'BOOKMARK' || type === 'ERROR' ? [] : [body]),
  envelope: null,
  afterError: () => null,
  mark: null,
  compression: 'none',
}

export const EVENTS_FIELD = 11

type Shown = Pick<WatchCreate, 'prevKv' | 'noPuts' | 'noDeletes'>

/**
 * Returns the group contents for a watch of a range, all of whose keys belong to the resource.
 *
 * @param namePath the fact with an object's name, by which the engine finds the watchers of one key.
 */
export function groupOf(resource: Resource, namePath: string, range: KeyRange, shown: Shown): GroupContents {
  const common = commonPrefix(range)
  return {
    scope: '',
    prefix: common === resource.etcdPrefix ? null : common,
    selector: selectorOf(resource.etcdPrefix, namePath, range),
    encoder: encoderOf(shown),
    wire: WIRE,
  }
}

function selectorOf(prefix: Key, namePath: string, range: KeyRange): WatchSelector {
  if (isPrefixRange(range)) return selector('', null, () => true, null)
  if (range.isOne) {
    const name = nameOfRest(range.start.slice(prefix.length))
    return selector(`etcd key ${JSON.stringify(name)}`, namePath, (found) => found === name, name)
  }
  const isIn = (name: string): boolean => contains(range, (prefix + (restOfName(name) ?? '')) as Key)
  return selector(`etcd range ${JSON.stringify([range.start, range.end])}`, namePath, isIn, null)
}

/**
 * @param namePath null if the name does not matter.
 * @param one the only name that matches; null if there may be several.
 */
function selector(
  canonical: string,
  namePath: string | null,
  matches: (name: string) => boolean,
  one: string | null,
): WatchSelector {
  return {
    canonical,
    text: canonical,
    isEmpty: canonical === '',
    hasTerms: canonical !== '',
    shard: null,
    paths: namePath === null ? [] : [namePath],
    matchesTerms: (subject) => namePath === null || matches(subject.field(namePath)),
    equalityTerms: () => (one === null || namePath === null ? [] : [{ path: namePath, value: one }]),
  }
}

function encoderOf({ prevKv, noPuts, noDeletes }: Shown): BodyEncoder {
  const encodeChange = ({ revision, object, previous }: Change): Buffer | null => {
    if (object === null ? noDeletes : noPuts) return null
    const event: Uint8Array[] = []
    if (object === null) {
      const deleted = new BinaryWriter().tag(1, WireType.LengthDelimited).bytes(keyToBytes(previous!.key))
      event.push(new BinaryWriter().tag(1, WireType.Varint).int32(1).finish())
      event.push(...field(2, [deleted.tag(3, WireType.Varint).int64(revision).finish()]))
    } else event.push(...field(2, keyValueParts(object, true)))
    if (prevKv && previous !== null) event.push(...field(3, keyValueParts(previous, true)))
    return joinedParts(field(EVENTS_FIELD, event))
  }
  return {
    key: `etcd${prevKv ? ' previous' : ''}${noPuts ? ' no-puts' : ''}${noDeletes ? ' no-deletes' : ''}`,
    schemaVersion: '',
    encode: (object, revision) => encodeChange({ revision, object, previous: null }),
    encodeChange,
    encodeFirst: null,
    isSame: null,
    bookmark: () => NOTHING,
    failure: () => ({ body: NOTHING, mustRestart: false, retryAfterSeconds: undefined }),
  }
}
