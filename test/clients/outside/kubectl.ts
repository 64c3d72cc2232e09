/** kubectl of this year, built from its own modules, for the same tests that the installed one passes. */
import { fileURLToPath } from 'node:url'
import { buildGoProgram } from '../../support/go-program.js'

const source = fileURLToPath(new URL('../../../../test/clients/go/kubectl', import.meta.url))
// A release sets these, and `kubectl version` compares them with the server's.
const version = 'k8s.io/component-base/version'
const released = { [`${version}.gitVersion`]: 'v1.37.2', [`${version}.gitMajor`]: '1', [`${version}.gitMinor`]: '37' }
// The tests read it when they are loaded, so it is set before.
process.env['KUBECTL_BIN'] = buildGoProgram(source, { variables: released })
await import('../kubectl.test.js')
await import('../kubectl-documents.test.js')
await import('../kubectl-writes.test.js')
