/**
 * Remembers the gaps in the history that a difference has bridged (`--on-gap=coalesce`), because no watch can resume
 * inside a gap.
 */
import type { Revision } from '../model/revision.js'

/** The cache never saw the revisions strictly between these two one by one. */
export interface Gap {
  readonly after: Revision
  readonly until: Revision
}

/**
 * If a ring has more gaps than this, the oldest two are merged. Some watches then cannot resume although they could
 * have, but no watch resumes where it must not.
 */
const MAX_GAPS = 64

export class Gaps {
  #gaps: readonly Gap[] = []

  /** @param floorRevision gaps below this revision no longer matter. */
  add(gap: Gap, floorRevision: Revision): void {
    const gaps = this.#gaps.filter(({ until }) => until > floorRevision)
    if (gaps.length >= MAX_GAPS) gaps.splice(0, 2, { after: gaps[0]!.after, until: gaps[1]!.until })
    this.#gaps = [...gaps, gap]
  }

  around(revision: Revision): Gap | undefined {
    return this.#gaps.find(({ after, until }) => revision > after && revision < until)
  }

  /** Returns the end of the last gap of which a part lies between the two revisions; null if there is none. */
  endBetween(after: Revision, until: Revision): Revision | null {
    return this.#gaps.findLast((gap) => gap.after < until && gap.until > after)?.until ?? null
  }

  clear(): void {
    this.#gaps = []
  }
}
