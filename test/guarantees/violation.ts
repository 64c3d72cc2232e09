import type { Revision } from '../../src/engine/model/revision.js'

/** One name per guarantee of `src/SPEC.md`, used to report violations. */
export type Guarantee =
  | 'ordered'
  | 'unique'
  | 'atomic'
  | 'reliable'
  | 'resumable'
  | 'bookmarkable'
  | 'fresh'
  | 'aged'
  | 'convergent'

export class Violation extends Error {
  override readonly name: string

  /**
   * @param where the watch or list that saw it.
   * @param missing the revision of a missing event, for violations of that kind.
   */
  constructor(
    readonly guarantee: Guarantee,
    readonly where: string,
    message: string,
    readonly missing: Revision | null = null,
  ) {
    super(`${where}: ${message}`)
    this.name = `not ${guarantee}`
  }
}
