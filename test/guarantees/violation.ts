import type { Revision } from '../../src/engine/model/revision.js'

/** One name per guarantee of `src/SPEC.md`: what a broken one is reported as. */
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
   * @param missing the revision of which something did not come, where it is that.
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
