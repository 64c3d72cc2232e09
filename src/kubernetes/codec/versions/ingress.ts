/**
 * Converts Ingress of networking.k8s.io/v1beta1 and extensions/v1beta1 (which are the same) to and from
 * networking.k8s.io/v1. In v1 the default backend has another name, a service's name and port are in `service`, and
 * the path type is required.
 */
import { type JsonRecord, member, record, recordAt, recordsAt, renameMember, textMember } from '../json-tree.js'

export function toV1(ingress: JsonRecord): void {
  convert(ingress, 'backend', 'defaultBackend', backendToV1)
  // v1beta1 sets this default on reading.
  for (const path of pathsOf(ingress)) path['pathType'] ??= 'ImplementationSpecific'
}

export function toV1beta1(ingress: JsonRecord): void {
  convert(ingress, 'defaultBackend', 'backend', backendToV1beta1)
}

function convert(ingress: JsonRecord, from: string, to: string, backendOf: (old: JsonRecord) => JsonRecord): void {
  const spec = recordAt(ingress, 'spec')
  if (spec === null) return
  renameMember(spec, from, to)
  const byDefault = recordAt(spec, to)
  if (byDefault !== null) spec[to] = backendOf(byDefault)
  for (const path of pathsOf(ingress)) path['backend'] = backendOf(recordAt(path, 'backend') ?? record())
}

function pathsOf(ingress: JsonRecord): readonly JsonRecord[] {
  return recordsAt(ingress, 'spec', 'rules').flatMap((rule) => recordsAt(rule, 'http', 'paths'))
}

function backendToV1(backend: JsonRecord): JsonRecord {
  const { resource } = backend
  const name = textMember(backend, 'serviceName')
  const servicePort = backend['servicePort'] ?? 0
  const result = record()
  if (name !== '' || servicePort !== 0) {
    const port = record()
    if (typeof servicePort !== 'string') port['number'] = servicePort
    else if (servicePort !== '') port['name'] = servicePort
    if (port['number'] === 0) delete port['number']
    result['service'] = record({ name, port })
  }
  if (resource !== undefined) result['resource'] = resource
  return result
}

function backendToV1beta1(backend: JsonRecord): JsonRecord {
  const { service, resource } = backend
  const name = textMember(service, 'name')
  return record({
    ...(name === '' ? {} : { serviceName: name }),
    servicePort: textMember(service, 'port', 'name') || (member(service, 'port', 'number') ?? 0),
    ...(resource === undefined ? {} : { resource }),
  })
}
