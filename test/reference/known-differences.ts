/**
 * Faults of distributary that the comparison has found and that are STILL TO BE MENDED. Whoever mends one deletes its row;
 * a run says which rows nothing needed. Nothing may be added here that is meant to stay: that is what exceptions.ts is for.
 */
import type { Row } from './report.js'

export const knownDifferences: readonly Row[] = []
