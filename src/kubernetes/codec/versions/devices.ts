/**
 * Converts ResourceClaim, ResourceClaimTemplate and ResourceSlice of resource.k8s.io/v1beta1, which 1.32 and 1.33
 * stored, to and from the later versions. In the later versions a request has its members in `exactly`, and a device
 * has no `basic`.
 *
 * Source: kubernetes 1.37, pkg/apis/resource/v1beta1/conversion.go.
 */
import { type Json, type JsonRecord, record, recordAt, recordsAt } from '../json-tree.js'

export function claimFromV1beta1(claim: Json | undefined): void {
  for (const request of requestsOf(claim)) {
    const exactly = moveOut(request, ['name', 'firstAvailable'])
    // A request that names a class or has any other member becomes an `exactly`.
    const isEmpty = Object.keys(exactly).every((name) => name === 'deviceClassName' && exactly[name] === '')
    if (!isEmpty) request['exactly'] = exactly
  }
}

export function claimToV1beta1(claim: Json | undefined): void {
  for (const request of requestsOf(claim)) moveUp(request, 'exactly', record({ deviceClassName: '' }))
}

export function templateFromV1beta1({ spec }: JsonRecord): void {
  claimFromV1beta1(spec)
}

export function templateToV1beta1({ spec }: JsonRecord): void {
  claimToV1beta1(spec)
}

export function sliceFromV1beta1(slice: JsonRecord): void {
  for (const device of recordsAt(slice, 'spec', 'devices')) moveUp(device, 'basic')
}

export function sliceToV1beta1(slice: JsonRecord): void {
  for (const device of recordsAt(slice, 'spec', 'devices')) device['basic'] = moveOut(device, ['name'])
}

function requestsOf(claim: Json | undefined): readonly JsonRecord[] {
  return recordsAt(claim, 'spec', 'devices', 'requests')
}

/** Removes all members except the kept ones. @returns the removed ones. */
function moveOut(object: JsonRecord, kept: readonly string[]): JsonRecord {
  const moved = record()
  for (const name of Object.keys(object)) {
    if (kept.includes(name)) continue
    moved[name] = object[name]!
    delete object[name]
  }
  object['name'] ??= ''
  return moved
}

function moveUp(object: JsonRecord, name: string, otherwise = record()): void {
  const inner = recordAt(object, name) ?? otherwise
  delete object[name]
  Object.assign(object, inner)
  object['name'] ??= ''
}
