/** The metadata of a bookmark's object: only a position, the same in every encoding. */
import type { Bookmark } from '../../../engine/model/bookmark.js'
import { formatResourceVersion } from '../../model/resource-version.js'
import type { BookmarkMetadata } from '../../codec/protobuf/encode.js'

/** The annotation of the bookmark that ends an initial state. */
const INITIAL_EVENTS_END = 'k8s.io/initial-events-end'

export function bookmarkMetadata({ revision, endsInitialEvents }: Bookmark): BookmarkMetadata {
  const resourceVersion = formatResourceVersion(revision)
  return endsInitialEvents ? { resourceVersion, annotations: { [INITIAL_EVENTS_END]: 'true' } } : { resourceVersion }
}
