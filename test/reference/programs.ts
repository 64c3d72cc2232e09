/** The program that the comparison needs and no distribution has. */
import { fileURLToPath } from 'node:url'
import type { GoProgram } from '../support/go-program.js'

const folder = fileURLToPath(new URL('../../../test/reference/', import.meta.url))

/** The generic API server, serving custom resources. */
export const apiServer: GoProgram = { source: `${folder}apiserver` }
