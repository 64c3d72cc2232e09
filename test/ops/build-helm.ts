/**
 * The first step of `npm run test:helm`: puts Helm, and the definitions of other projects' kinds, where the tests of
 * the chart look.
 */
import { provideCustomKinds } from './support/custom-kinds.js'
import { provideHelm } from './support/helm-binary.js'

process.stdout.write(`Helm is ${provideHelm()}\n`)
provideCustomKinds()
