/**
 * Decides whether etcd's answers to progress requests can be trusted.
 *
 * Before 3.4.31 and 3.5.13 the answer could overtake the events it covers (etcd #15220, #17507). After a failover a
 * single old member is enough for a wrong answer, so every member counts, and the version of an absent member is
 * remembered.
 */
export function isProgressTrusted(version: string): boolean {
  const match = /^(\d+)\.(\d+)\.(\d+)(-?)/.exec(version)
  if (!match) return false
  const [major, minor, patch] = match.slice(1, 4).map(Number) as [number, number, number]
  // A pre-release precedes its release, and may lack the fix.
  const isPreRelease = match[4] === '-'
  if (major !== 3) return major > 3
  if (minor === 4) return patch > 31 || (patch === 31 && !isPreRelease)
  if (minor === 5) return patch > 13 || (patch === 13 && !isPreRelease)
  return minor > 6 || (minor === 6 && (patch > 0 || !isPreRelease))
}
