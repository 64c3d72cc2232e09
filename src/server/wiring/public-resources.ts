/** Checks at startup that everyone may read the resources that caches may serve to everyone (`--public-caching`). */
import { type ApiResource, resourceId } from '../../kubernetes/model/api-resource.js'
import type { ResourceRegistry } from '../../kubernetes/dialect/resource-registry.js'
import { sleep } from '../../support/clock.js'
import { type Attributes, resourceAttributes } from '../auth/authz/authorizer.js'
import type { RequestGate } from '../transports/gate/request-gate.js'
import type { ServerDeps } from './server-deps.js'

/**
 * How long the start waits for permissions that cannot be read yet. Until they can be read, every response is private.
 */
const WAIT_MS = 10_000
const POLL_MS = 50

/** @throws Error that names a resource which system:anonymous may not list. */
export async function checkPublicResources(
  { config, clock, logger }: Pick<ServerDeps, 'config' | 'clock' | 'logger'>,
  { registry, gate }: { readonly registry: ResourceRegistry; readonly gate: Pick<RequestGate, 'letsAnybody'> },
  signal: AbortSignal,
): Promise<void> {
  const startedMs = clock.monotonic()
  for (const { resource } of config.publicCaching) {
    const served = registry.list().find((one) => resourceId(one.resource) === resource)?.resource
    if (served === undefined) logger.warn({ resource }, 'a resource of --public-caching is not served yet')
    const attributes = listOf(served ?? resource)
    for (;;) {
      const isAllowed = await gate.letsAnybody(attributes).catch(() => null)
      if (isAllowed === false) {
        throw new Error(
          `--public-caching: system:anonymous may not list ${resource}, but shared caches would show it to anyone`,
        )
      }
      if (isAllowed === true || signal.aborted) break
      if (clock.monotonic() - startedMs >= WAIT_MS) {
        logger.warn({ resource }, 'permissions cannot be read yet; until then, shared caches may not keep answers')
        break
      }
      await sleep(clock, POLL_MS, signal).catch(() => {})
    }
  }
}

/** @param served the resource, or the id of a custom resource that is not defined yet. */
function listOf(served: ApiResource | string): Attributes {
  const [plural = '', ...group] = typeof served === 'string' ? served.split('.') : []
  const resource = typeof served === 'string' ? { group: group.join('.'), version: 'v1', plural } : served
  return resourceAttributes({ verb: 'list', resource, namespace: '', name: '', path: '' })
}
