/** `npm run test:helm`, first step: Helm into the user's cache folder, where the tests of the chart find it. */
import { provideHelm } from './support/helm-binary.js'

process.stdout.write(`Helm is ${provideHelm()}\n`)
