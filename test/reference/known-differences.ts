import type { Row } from './row.js'

export const knownDifferences: readonly Row[] = []
