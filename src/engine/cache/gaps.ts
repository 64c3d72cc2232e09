/** Ranges of history that were bridged by a difference (`--on-gap=coalesce`). No watch can resume inside one. */
import type { Revision } from '../model/revision.js'

/** Revisions strictly between these were never seen one by one. */
export interface Gap {
  readonly after: Revision
  readonly until: Revision
}

/**
 * Beyond this many gaps in one ring the oldest two are merged, which refuses some resumes unnecessarily but never
 * allows a wrong one.
 */
const MAX_GAPS = 64

export class Gaps {
  #gaps: readonly Gap[] = []

  /** @param floorRevision gaps below it no longer matter. */
  add(gap: Gap, floorRevision: Revision): void {
    const gaps = this.#gaps.filter(({ until }) => until > floorRevision)
    if (gaps.length >= MAX_GAPS) gaps.splice(0, 2, { after: gaps[0]!.after, until: gaps[1]!.until })
    this.#gaps = [...gaps, gap]
  }

  around(revision: Revision): Gap | undefined {
    return this.#gaps.find(({ after, until }) => revision > after && revision < until)
  }

  clear(): void {
    this.#gaps = []
  }
}
