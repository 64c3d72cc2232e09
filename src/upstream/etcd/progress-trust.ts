/**
 * Which etcd tells the truth when it is asked for progress.
 *
 * Before 3.4.31 and 3.5.13 the answer could overtake the events it covers (etcd #15220, #17507). One old member is enough
 * to be lied to after a failover, so all of them count; a version is remembered while its member is away.
 */
export function isProgressTrusted(version: string): boolean {
  const match = /^(\d+)\.(\d+)\.(\d+)(-?)/.exec(version)
  if (!match) return false
  const [major, minor, patch] = match.slice(1, 4).map(Number) as [number, number, number]
  // A pre-release comes before its release, and may lack what that has.
  const isPreRelease = match[4] === '-'
  if (major !== 3) return major > 3
  if (minor === 4) return patch > 31 || (patch === 31 && !isPreRelease)
  if (minor === 5) return patch > 13 || (patch === 13 && !isPreRelease)
  return minor > 6 || (minor === 6 && (patch > 0 || !isPreRelease))
}
