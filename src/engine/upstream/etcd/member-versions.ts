/**
 * The features of a member of an etcd cluster, by its version. After a failover, a single old member is enough for a
 * wrong result. So a feature is used only if every member has it, and the version of an absent member is remembered.
 */

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
