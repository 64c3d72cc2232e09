/**
 * Converts Ingress of networking.k8s.io/v1beta1 and extensions/v1beta1 (which are the same) to and from
 * networking.k8s.io/v1: the default backend has another name, a service's name and port are in `service`, and the path
 * type is required.
 */
import { JsonObject } from './json-object.js'

export function toV1(ingress: JsonObject): JsonObject {
  return convert(ingress, 'backend', 'defaultBackend', backendToV1, (path) => {
    // v1beta1 sets this default on reading.
    if (!path.has('pathType')) insertPathType(path)
  })
}

export function toV1beta1(ingress: JsonObject): JsonObject {
  return convert(ingress, 'defaultBackend', 'backend', backendToV1beta1, () => {})
}

function convert(
  ingress: JsonObject,
  fromName: string,
  toName: string,
  convertBackend: (backend: JsonObject) => JsonObject,
  convertPath: (path: JsonObject) => void,
): JsonObject {
  return ingress.change('spec', (spec) =>
    spec
      .change(fromName, convertBackend)
      .rename(fromName, toName)
      .changeEach('rules', (rule) =>
        rule.change('http', (http) =>
          http.changeEach('paths', (path) => {
            convertPath(path)
            return path.set('backend', convertBackend(path.object('backend') ?? JsonObject.empty()))
          }),
        ),
      ),
  )
}

function insertPathType(path: JsonObject): void {
  const backend = path.get('backend')
  path.delete('backend').set('pathType', 'ImplementationSpecific').setIfAny('backend', backend)
}

function backendToV1(backend: JsonObject): JsonObject {
  const name = backend.text('serviceName')
  const port = backend.get('servicePort')
  const isName = port?.[0] === 0x22
  const number = port === undefined || isName ? '0' : port.toString('latin1')
  const result = JsonObject.empty()
  if (name !== '' || isName || number !== '0') {
    const servicePort = JsonObject.empty()
    if (isName && backend.text('servicePort') !== '') servicePort.set('name', port)
    if (number !== '0') servicePort.set('number', Buffer.from(number, 'latin1'))
    result.set('service', JsonObject.empty().set('name', name).set('port', servicePort))
  }
  return result.setIfAny('resource', backend.get('resource'))
}

function backendToV1beta1(backend: JsonObject): JsonObject {
  const service = backend.object('service')
  const port = service?.object('port') ?? null
  const result = JsonObject.empty()
  if (service !== null && service.text('name') !== '') result.set('serviceName', service.text('name'))
  const portName = port?.text('name') ?? ''
  result.set('servicePort', portName === '' ? (port?.get('number') ?? Buffer.from('0')) : portName)
  return result.setIfAny('resource', backend.get('resource'))
}
