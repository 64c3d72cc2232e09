/**
 * The freshness that a subscriber has reported to its sink, as a pure function of the known facts. This file decides;
 * `status-listener.ts` acts.
 *
 *     nothing ── a publisher confirms the content ──────────────▶ fresh
 *        │                                                        │  ▲
 *        └── trouble, or no publisher for a while ──▶ stale ◀─────┘  │
 *                                                       └────────────┘
 */
export type ReportedFreshness =
  | 'nothing'
  /** Reads may be answered, with the age of the content. */
  | 'stale'
  | 'fresh'

export interface Facts {
  /** How long the stream has been followed; null while it is not. */
  readonly followedMs: number | null
  /**
   * Whether reads may be answered from the stream, and the sink has everything that the stream had when the follower
   * started.
   */
  readonly isCurrent: boolean
  /** Whether the publisher reports that etcd is unreachable. */
  readonly isInTrouble: boolean
  /** The age of the content; null before the publisher has reported it. */
  readonly ageMs: number | null
}

/** A publisher is silent after this long without a usable status, which is more than three status intervals. */
export const SILENT_MS = 3_500

export function nextReportedFreshness(
  reported: ReportedFreshness,
  { followedMs, isCurrent, isInTrouble, ageMs }: Facts,
): ReportedFreshness {
  const isConfirmed = ageMs !== null && ageMs <= SILENT_MS && !isInTrouble
  if (followedMs === null) return reported === 'fresh' ? 'stale' : reported
  if (reported === 'fresh') return isConfirmed ? 'fresh' : 'stale'
  if (!isCurrent) return reported
  if (isConfirmed) return 'fresh'
  // There may be no publisher for a long time, so the content is served as it is.
  return isInTrouble || followedMs > SILENT_MS ? 'stale' : reported
}
