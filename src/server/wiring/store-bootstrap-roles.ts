/**
 * Stores Kubernetes' own Roles and bindings in etcd at the start, as the API server does, if this server runs without
 * an API server. Until they are stored, callers that are bound to them would be refused, so the server does not become
 * ready before that.
 */
import { exactCopy } from '../../kubernetes/codec/exact-json.js'
import { type PlainObject, reconcile } from '../auth/authz/bootstrap-roles.js'
import { isRecord, treeFrom } from '../../kubernetes/codec/json-tree.js'
import type { ResourceRegistry } from '../../kubernetes/dialect/resource-registry.js'
import { NotImplementedError } from '../../kubernetes/model/status.js'
import { statusOf } from '../../kubernetes/model/status-of.js'
import type { OffLoopWriter } from '../../kubernetes/writes/off-loop-writer.js'
import { sleep } from '../../support/clock.js'
import { readPackageFile } from '../../support/package-file.js'
import type { HealthCheck } from '../transports/server/health.js'
import type { ServerDeps } from './server-deps.js'

/** The data is a separate file, which the compiler does not copy. `npm run generate:roles` makes it. */
const FILE = 'src/server/auth/authz/bootstrap-roles.json'
const GROUP = 'rbac.authorization.k8s.io'
const AT_ONCE = 16
const RETRY_MS = 1_000

export interface BootstrapRolesParts {
  readonly writer: Pick<OffLoopWriter, 'ensure'>
  readonly registry: Pick<ResourceRegistry, 'find'>
  /** Aborted when the server stops. */
  readonly signal: AbortSignal
}

export class BootstrapRoles {
  #isDone = false

  constructor(
    private readonly deps: Pick<ServerDeps, 'clock' | 'logger'>,
    private readonly parts: BootstrapRolesParts,
  ) {}

  readonly check: HealthCheck = {
    name: 'bootstrap-roles',
    problem: () => (this.#isDone ? null : "Kubernetes' own roles are not stored yet"),
  }

  /** Resolves when all of them are stored, or when the server stops. Never rejects. */
  async keep(): Promise<void> {
    const { clock, logger } = this.deps
    const { signal } = this.parts
    let left = readObjects()
    const total = left.length
    let changed = 0
    for (let attempt = 1; !signal.aborted; attempt++) {
      const failed: PlainObject[] = []
      let problem: unknown
      const queue = left.values()
      const work = async (): Promise<void> => {
        for (const object of queue) {
          if (signal.aborted) return
          try {
            if (await this.#keepOne(object)) changed++
          } catch (error) {
            problem = error
            failed.push(object)
          }
        }
      }
      await Promise.all(Array.from({ length: AT_ONCE }, work))
      if (signal.aborted) return
      left = failed
      if (left.length === 0) break
      if (attempt === 1)
        logger.warn({ err: problem, objects: left.length }, "cannot store Kubernetes' own roles; retrying")
      await sleep(clock, RETRY_MS, signal)
    }
    this.#isDone = !signal.aborted
    if (changed > 0) logger.info({ objects: total, changed }, "stored Kubernetes' own roles and bindings")
  }

  /** @returns whether something was written. @throws StatusError */
  async #keepOne(expected: PlainObject): Promise<boolean> {
    const { name, namespace } = expected['metadata'] as { readonly name: string; readonly namespace?: string }
    const plural = `${String(expected['kind']).toLowerCase()}s`
    const served = this.parts.registry.find(GROUP, 'v1', plural)
    if (served === undefined) return false
    try {
      return await this.parts.writer.ensure({ served, namespace: namespace ?? '', name }, async (held) => {
        const wanted = await reconcile(expected, held === null ? null : (exactCopy(held) as PlainObject))
        if (wanted.kind === 'keep') return null
        const object = treeFrom(wanted.object)
        return isRecord(object) ? { object, recreates: wanted.kind === 'recreate' } : null
      })
    } catch (error) {
      const status = statusOf(error)
      // Retrying is unlikely to help. Either an API server has stored the object, or finalizers keep a replaced
      // binding, or other writers changed the object at every attempt.
      if (status.code >= 500 && !(status instanceof NotImplementedError)) throw status
      this.deps.logger.warn(
        { err: status, kind: plural, name },
        "one of Kubernetes' own roles or bindings could not be updated",
      )
      return false
    }
  }
}

function readObjects(): readonly PlainObject[] {
  return JSON.parse(readPackageFile(FILE).toString('utf8')) as readonly PlainObject[]
}
