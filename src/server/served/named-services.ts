/**
 * Follows the APIService objects in etcd, which name the group versions of other servers. Objects without
 * `spec.service` belong to the API server itself and are skipped.
 */
import { field, textAt } from '../../support/fields.js'
import type { StoredObject } from '../../engine/model/stored-object.js'
import type { ApiServices, NamedService } from '../transports/passthrough/api-services.js'
import type { ObjectFollower } from './followed-objects.js'

/** @param jsonOf returns the object as apiregistration.k8s.io/v1 JSON; null when it cannot be read. */
export function followApiServices(
  services: ApiServices,
  jsonOf: (object: StoredObject) => Buffer | null,
): ObjectFollower {
  return {
    onPresent(object) {
      const json = jsonOf(object)
      services.name(object.name, json === null ? null : namedService(JSON.parse(json.toString('utf8'))))
    },
    onAbsent: (name) => services.name(name, null),
  }
}

/** Returns null for an APIService without a service. */
function namedService(object: unknown): NamedService | null {
  const [group, version] = [textAt(object, 'spec', 'group'), textAt(object, 'spec', 'version')]
  const service = field(object, 'spec', 'service')
  if (group === '' || version === '' || typeof service !== 'object' || service === null) return null
  return { group, version, service: `${textAt(service, 'namespace')}/${textAt(service, 'name')}` }
}
