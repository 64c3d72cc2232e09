/** Clients that nobody here wrote, and how each is run: the runner follows this table, and docs/clients.md is made from it. */

import type { GoProgram } from '../support/go-program.js'
import { clientGo, newestKubectl } from './programs.js'

export interface OutsideClient {
  readonly name: string
  readonly version: string
  /** A sentence on what the client does in its test. */
  readonly does: string
  /** Its test, in the repository. */
  readonly test: string
  /** `npm test` runs it always; `npm run test:clients` where its tools are. */
  readonly runsIn: 'npm test' | 'npm run test:clients'
  /** The program that has to be built first. Where it cannot be, the client is skipped with a line that says why. */
  readonly program?: GoProgram
  /** A note on what a user of the client has to set or to know. */
  readonly note?: string
}

export const outsideClients: readonly OutsideClient[] = [
  {
    name: 'kubectl',
    version: 'the installed one, 1.20 or newer',
    does: 'get in every form, describe, watch, wait, explain, create, apply, patch, edit, scale, label, delete, over objects that a kube-apiserver stored',
    test: 'test/clients/kubectl.test.ts',
    runsIn: 'npm test',
  },
  {
    name: '@kubernetes/client-node',
    version: '1.4',
    does: 'lists in pages, custom objects, its Informer and its Watch through cuts and an expired revision',
    test: 'test/clients/client-node.test.ts',
    runsIn: 'npm test',
    note: 'over plain HTTP it needs `skipTLSVerify: true`',
  },
  {
    name: 'curl',
    version: 'the installed one',
    does: 'a watch over HTTP/1.1 and HTTP/2',
    test: 'test/clients/curl.test.ts',
    runsIn: 'npm test',
  },
  {
    name: 'client-go',
    version: '0.37.2',
    does: 'typed, dynamic and metadata informers with its detectors on, with WatchList and without; eight writers of one object; leader election',
    test: 'test/clients/outside/client-go.ts',
    runsIn: 'npm run test:clients',
    program: clientGo,
  },
  {
    name: 'kubectl 1.37',
    version: '0.37.2 of k8s.io/kubectl',
    does: 'what the installed kubectl does',
    test: 'test/clients/outside/kubectl.ts',
    runsIn: 'npm run test:clients',
    program: newestKubectl,
  },
]
