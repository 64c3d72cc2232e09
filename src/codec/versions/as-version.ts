/**
 * An object ready to be served in a version that may not be the stored one: conversion, and where its resourceVersion goes
 * afterwards. The same for objects that came as JSON (`scanObject`) and as protobuf (`decodeObject`).
 */
import { type ScannedObject, scanObject } from '../json-scan.js'
import { convert } from './convert.js'

/**
 * @returns the object itself when it is of that version already; null when it cannot be had in it, which is then said
 *   rather than made up.
 */
export function asVersion(object: ScannedObject, apiVersion: string): ScannedObject | null {
  if (object.apiVersion === apiVersion) return object
  const json = convert(object.bytes, object.apiVersion, apiVersion, object.kind)
  return json === null ? null : scanObject(json)
}
