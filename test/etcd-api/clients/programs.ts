/** Clients of etcd's API that are built from their Go modules. */
import { fileURLToPath } from 'node:url'
import type { GoProgram } from '../../support/go-program.js'

const folder = fileURLToPath(new URL('../../../../test/etcd-api/clients/', import.meta.url))

export const clientv3: GoProgram = { source: `${folder}clientv3` }

export const coreDns: GoProgram = { source: `${folder}coredns-etcd` }

export const robustness: GoProgram = { source: `${folder}robustness` }
