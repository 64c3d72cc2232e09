/**
 * Bugs of distributary that this comparison has found and that are to be fixed. Delete the row with the fix: a whole
 * run fails for a row that no difference matched. Permanent differences belong in exceptions.ts, with the reason why no
 * client minds.
 */
import type { Row } from './row.js'

export const knownDifferences: readonly Row[] = []
