/** This year's kubectl, built from its own modules, for the same tests that the installed one passes. */
import { buildGoProgram } from '../../support/go-program.js'
import { newestKubectl } from '../programs.js'

// The tests read it when they are loaded, so it is set before that.
process.env['KUBECTL_BIN'] = buildGoProgram(newestKubectl)
await import('../kubectl.test.js')
await import('../kubectl-documents.test.js')
await import('../kubectl-drain.test.js')
await import('../kubectl-minimal.test.js')
await import('../kubectl-writes.test.js')
