/**
 * Bugs of distributary that this comparison has found and that are to be fixed. Delete the row with the fix: a whole
 * run fails for a row that no difference matched. Permanent differences belong in exceptions.ts, with the reason why no
 * client minds.
 */
import type { Question } from './ask.js'
import type { Row } from './row.js'

const isOpenApi = ({ path }: Question): boolean => path.startsWith('/openapi/')

export const knownDifferences: readonly Row[] = [
  {
    name: 'OpenAPI documents',
    reason: 'Required fields, list types and defaults of Kubernetes’ own kinds; paths of subresources; v2.',
    matches: ({ where }, question) => isOpenApi(question) && /^(body|text|code|header)/.test(where),
  },
]
