/**
 * The features of a member of an etcd cluster, by its version. After a failover, a single old member is enough for a
 * wrong result. So a feature is used only if every member has it, and the version of an absent member is remembered.
 */
import { keyFromText } from '../../model/event.js'
import { type StateReader, UpstreamError } from '../upstream.js'

/**
 * Whether the responses to progress requests can be trusted. Before 3.4.31 and 3.5.13 a response could overtake the
 * events it covers (etcd #15220, #17507).
 */
export function isProgressTrusted(version: string): boolean {
  return isAtLeast(version, { 4: 31, 5: 13, 6: 0 })
}

/** Whether the member supports `KV.RangeStream`. A proxy in front of it may still not support it. */
export function hasRangeStream(version: string): boolean {
  return isAtLeast(version, { 7: 0 })
}

/** Whether the member reads the keys of a range without values from its index, which does not have their leases. */
export function hasFastKeysOnly(version: string): boolean {
  return isAtLeast(version, { 7: 0 })
}

export const AUTH_BYPASS =
  'the roles of this etcd do not protect it (GHSA-xg4h-6gfc-h4m8): upgrade to 3.5.33, 3.6.14, 3.7.1 or later'

/**
 * Whether etcd checks permissions, however it knows its user: no role but root's covers the first of all keys.
 * @throws UpstreamError if etcd does not say.
 */
export async function checksRoles(reader: Pick<StateReader, 'readKey'>, signal?: AbortSignal): Promise<boolean> {
  try {
    await reader.readKey(keyFromText('\0'), signal === undefined ? {} : { signal })
    return false
  } catch (error) {
    if (!(error instanceof UpstreamError) || error.code === 'unavailable') throw error
    return error.code === 'permission-denied'
  }
}

/** Whether the member's authorization can be bypassed by authenticated users (GHSA-xg4h-6gfc-h4m8). */
export function hasAuthBypass(version: string): boolean {
  return !isAtLeast(version, { 5: 33, 6: 14, 7: 1 })
}

/**
 * @param since the first patch release with the feature, by minor release of etcd 3. Every minor release above the last
 * one listed has the feature.
 */
function isAtLeast(version: string, since: Readonly<Record<number, number>>): boolean {
  const match = /^(\d+)\.(\d+)\.(\d+)(-?)/.exec(version)
  if (!match) return false
  const [major, minor, patch] = match.slice(1, 4).map(Number) as [number, number, number]
  if (major !== 3) return major > 3
  const needed = since[minor]
  if (needed === undefined) return minor > Math.max(...Object.keys(since).map(Number))
  // A pre-release precedes its release, so it may lack the feature.
  const isPreRelease = match[4] === '-'
  return patch > needed || (patch === needed && !isPreRelease)
}
