/**
 * PartialObjectMetadata: an object reduced to its metadata. The metadata is cut out of the stored bytes and the
 * resourceVersion is inserted; nothing is parsed or re-encoded.
 */
import type { ListMetadata } from '../codec/protobuf/encode.js'
import { endOfValue } from '../../support/json-walk.js'
import type { Spliceable } from '../codec/json-scan.js'
import type { MetaVersion } from './accept.js'
import { formatResourceVersion } from '../model/resource-version.js'
import type { Revision } from '../../engine/model/revision.js'

const opens = (metaVersion: MetaVersion): Buffer =>
  Buffer.from(`{"kind":"PartialObjectMetadata","apiVersion":"${metaVersion}","metadata":{`)

const OPEN: Readonly<Record<MetaVersion, Buffer>> = {
  'meta.k8s.io/v1': opens('meta.k8s.io/v1'),
  'meta.k8s.io/v1beta1': opens('meta.k8s.io/v1beta1'),
}

/** Returns `{"resourceVersion":"…"[,"continue":"…"][,"remainingItemCount":n][,"shardInfo":{…}]}`. */
export function listMetadataJson(metadata: ListMetadata): string {
  return JSON.stringify({
    resourceVersion: metadata.resourceVersion,
    continue: metadata.continue === '' ? undefined : metadata.continue,
    remainingItemCount: metadata.remainingItemCount,
    shardInfo: metadata.shardInfo,
  })
}

/**
 * Returns the object's metadata as a PartialObjectMetadata, in a separate buffer.
 *
 * @throws RangeError when the object has no metadata object. Such a value is served wrapped instead.
 */
export function partialObject(
  { bytes, revisionOffset }: Spliceable,
  revision: Revision,
  metaVersion: MetaVersion = 'meta.k8s.io/v1',
): Buffer {
  const open = OPEN[metaVersion]
  if (revisionOffset < 0) throw new RangeError('no metadata object to put a resourceVersion into')
  const end = endOfValue(bytes, revisionOffset - 1)
  const isEmpty = end - revisionOffset === 1
  const member = `"resourceVersion":"${formatResourceVersion(revision)}"${isEmpty ? '' : ','}`
  const target = Buffer.allocUnsafe(open.length + member.length + (end - revisionOffset) + 1)
  let at = open.copy(target)
  at += target.write(member, at, 'latin1')
  at += bytes.copy(target, at, revisionOffset, end)
  target[at] = 0x7d
  return target
}

/** Opens a PartialObjectMetadataList. Items follow, joined by commas, and then `LIST_TAIL`. */
export function partialObjectListHead(metadata: ListMetadata, metaVersion: MetaVersion = 'meta.k8s.io/v1'): Buffer {
  const json = listMetadataJson(metadata)
  return Buffer.from(`{"kind":"PartialObjectMetadataList","apiVersion":"${metaVersion}","metadata":${json},"items":[`)
}

export const LIST_TAIL = Buffer.from(']}')
