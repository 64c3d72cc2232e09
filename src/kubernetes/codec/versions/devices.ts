/**
 * Converts ResourceClaim, ResourceClaimTemplate and ResourceSlice of resource.k8s.io/v1beta1, which 1.32 and 1.33
 * stored, to and from the later versions. There a request has its members in `exactly`, and a device has no `basic`.
 *
 * Source: kubernetes 1.37, pkg/apis/resource/v1beta1/conversion.go.
 */
import { JsonObject } from './json-object.js'

type Change = (object: JsonObject) => JsonObject

export function claimFromV1beta1(claim: JsonObject): JsonObject {
  return claim.change('spec', eachRequest(nestRequest))
}

export function claimToV1beta1(claim: JsonObject): JsonObject {
  return claim.change('spec', eachRequest(flattenRequest))
}

export function templateFromV1beta1(template: JsonObject): JsonObject {
  return template.change('spec', claimFromV1beta1)
}

export function templateToV1beta1(template: JsonObject): JsonObject {
  return template.change('spec', claimToV1beta1)
}

export function sliceFromV1beta1(slice: JsonObject): JsonObject {
  return slice.change('spec', (spec) =>
    spec.changeEach('devices', (device) => merged(device.get('name'), device.object('basic'))),
  )
}

export function sliceToV1beta1(slice: JsonObject): JsonObject {
  return slice.change('spec', (spec) =>
    spec.changeEach('devices', (device) =>
      JsonObject.empty()
        .set('name', device.get('name') ?? '')
        .set('basic', device.delete('name')),
    ),
  )
}

function eachRequest(change: Change): Change {
  return (spec) => spec.change('devices', (devices) => devices.changeEach('requests', change))
}

/** A request that names a class, or has any other member, asks for exactly these devices. */
function nestRequest(request: JsonObject): JsonObject {
  const name = request.get('name') ?? ''
  const alternatives = request.get('firstAvailable')
  request.delete('name').delete('firstAvailable')
  // The class is written even when it is empty.
  const isEmpty = request.names().every((each) => each === 'deviceClassName' && request.text(each) === '')
  return JsonObject.empty()
    .set('name', name)
    .setIfAny('exactly', isEmpty ? undefined : request)
    .setIfAny('firstAvailable', alternatives)
}

function flattenRequest(request: JsonObject): JsonObject {
  const exactly = request.object('exactly') ?? JsonObject.empty().set('deviceClassName', '')
  return merged(request.get('name'), exactly).setIfAny('firstAvailable', request.get('firstAvailable'))
}

function merged(name: Buffer | undefined, members: JsonObject | null): JsonObject {
  const result = JsonObject.empty().set('name', name ?? '')
  for (const each of members?.names() ?? []) result.setIfAny(each, members?.get(each))
  return result
}
