/**
 * Reads a CustomResourceDefinition: one served resource per version, with its printer columns, short names,
 * categories, selectable fields and schema. These functions are pure; the follower of the definitions puts the result
 * into the registry under `ownerOfDefinition`.
 *
 * Both apiextensions.k8s.io/v1 and v1beta1 are read, because API servers still store v1beta1. The conversion `None`
 * only changes the apiVersion. This server cannot call a conversion webhook. It serves the versions anyway, and an
 * object that is stored in another version than the requested one becomes an error that says so.
 */
import { createHash } from 'node:crypto'
import { DefinedSchema } from '../codec/defined-schema.js'
import { exactText } from '../codec/exact-json.js'
import { keyFromText } from '../../engine/model/event.js'
import type { ApiResource } from '../model/api-resource.js'
import { MAX_DEFINITION_VERSIONS } from '../model/limits.js'
import { compareVersions } from './discovery.js'
import {
  type CustomDefinition,
  type PrinterColumn,
  servedResource,
  type ServedResource,
  type Subresources,
} from './resource-registry.js'
import { conditionOf } from './table/printer.js'
import { countAt, field, has, isObject, listAt, textAt, textsAt } from '../../support/fields.js'
import { getOrMake } from '../../support/memo.js'
import { normalizeEtcdPrefix } from './well-known-resources.js'

export type DefinitionReading =
  | {
      readonly kind: 'defined'
      /** One resource per version, in the definition's order. All have the same etcd prefix. */
      readonly resources: readonly ServedResource[]
      /** The version in which objects are written now; older objects may still be stored in another version. */
      readonly storageVersion: string
      readonly conversion: 'None' | 'Webhook'
    }
  /**
   * The API server does not serve the definition (yet) either, or the object is not a definition. `isPending`: its
   * controllers have yet to decide.
   */
  | { readonly kind: 'not-served'; readonly reason: string; readonly isPending?: boolean }

/** Returns the owner for `ResourceRegistry.set`. @param name of the CustomResourceDefinition object. */
export function ownerOfDefinition(name: string): string {
  return `customresourcedefinition/${name}`
}

const LABEL = /^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/
const GROUP = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)+$/
const KIND = /^[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$/

/**
 * @param definition the object parsed from JSON (`exact-json.ts`), of any shape.
 * @param etcdPrefix the API server's `--etcd-prefix`.
 */
export function readDefinition(definition: unknown, etcdPrefix: string): DefinitionReading {
  const spec = field(definition, 'spec')
  const names = namesOf(definition)
  const group = textAt(spec, 'group')
  const plural = textAt(names, 'plural')
  const kind = textAt(names, 'kind')
  if (!GROUP.test(group))
    return notServed(`spec.group ${JSON.stringify(group)} is not a DNS name with at least two labels`)
  if (!LABEL.test(plural)) return notServed(`spec.names.plural ${JSON.stringify(plural)} is not a DNS label`)
  if (!KIND.test(kind)) return notServed(`spec.names.kind ${JSON.stringify(kind)} is not a kind`)
  const waiting = notYetEstablished(definition)
  if (waiting !== null) return waiting

  if (listAt(spec, 'versions').length > MAX_DEFINITION_VERSIONS)
    return notServed(`it has more than ${MAX_DEFINITION_VERSIONS} versions`)
  const versions = versionsOf(spec)
  const stored = versions.find(({ storage }) => storage)
  if (stored === undefined) return notServed('no version is marked as the storage version')
  const conversion = textAt(spec, 'conversion', 'strategy') === 'Webhook' ? 'Webhook' : 'None'
  const resource: Omit<ApiResource, 'version'> = {
    group,
    plural,
    singular: textAt(names, 'singular') || kind.toLowerCase(),
    kind,
    listKind: textAt(names, 'listKind') || `${kind}List`,
    shortNames: textsAt(names, 'shortNames').filter((name) => LABEL.test(name)),
    categories: textsAt(names, 'categories'),
    namespaced: textAt(spec, 'scope') !== 'Cluster',
    etcdPrefix: keyFromText(`${normalizeEtcdPrefix(etcdPrefix)}/${group}/${plural}/`),
    holds: 'kubernetes',
  }
  const shared: CustomDefinition = {
    fingerprint: fingerprintOf(definition),
    storedVersion: stored.name,
    schemas: Object.fromEntries(versions.map(({ name, schema }) => [name, schema])),
    preservesUnknownFields: preservesUnknownFields(definition),
  }
  const resources = versions
    .filter((version) => version.served)
    .map((version) =>
      servedResource({ ...resource, version: version.name }, 'custom', {
        printerColumns: version.printerColumns,
        selectableFields: version.selectableFields,
        schema: version.schema,
        definition: shared,
        subresources: version.subresources,
        deprecation: deprecationOf(version, versions, group, kind),
        storageVersion: stored.served ? stored.name : null,
        convertsByWebhook: conversion === 'Webhook',
      }),
    )
  return { kind: 'defined', resources, storageVersion: stored.name, conversion }
}

/**
 * The API server serves the names that it has accepted. When a change requests a name that another definition in the
 * group already uses, the previous names stay.
 */
function namesOf(definition: unknown): unknown {
  const accepted = field(definition, 'status', 'acceptedNames')
  return textAt(accepted, 'kind') === '' ? field(definition, 'spec', 'names') : accepted
}

/** The API server reinstalls a resource when any of these members changes, and for no other change. */
function fingerprintOf(definition: unknown): string {
  const relevant = [field(definition, 'spec'), field(definition, 'status', 'acceptedNames')]
  return createHash('sha256').update(exactText(relevant)).digest('hex')
}

/** True by default in v1beta1. */
function preservesUnknownFields(definition: unknown): boolean {
  const given = field(definition, 'spec', 'preserveUnknownFields')
  return given === undefined ? textAt(definition, 'apiVersion').endsWith('/v1beta1') : given === true
}

/** Returns the deprecation warning. If the definition gives no text, the text names a version to use instead. */
function deprecationOf(version: Version, all: readonly Version[], group: string, kind: string): string | null {
  const { name, isDeprecated, deprecationWarning } = version
  if (!isDeprecated) return null
  if (deprecationWarning !== null) return deprecationWarning === '' ? null : deprecationWarning
  let best: Version | undefined
  for (const one of all) {
    if (!one.served || one.isDeprecated || compareVersions(one.name, name) >= 0) continue
    if (best === undefined || compareVersions(one.name, best.name) < 0) best = one
  }
  const use = best === undefined ? '' : `; use ${group}/${best.name} ${kind}`
  return `${group}/${name} ${kind} is deprecated${use}`
}

function notServed(reason: string): Extract<DefinitionReading, { kind: 'not-served' }> {
  return { kind: 'not-served', reason }
}

/**
 * Says why a definition is not established. The API server serves a definition once its controllers have accepted
 * its names and established it. A definition without conditions was not written by an API server and counts as
 * established.
 */
function notYetEstablished(definition: unknown): DefinitionReading | null {
  if (listAt(definition, 'status', 'conditions').length === 0) return null
  const established = textAt(conditionOf(definition, 'Established'), 'status')
  if (established === 'True') return null
  const refused = conditionOf(definition, 'NamesAccepted')
  if (textAt(refused, 'status') === 'False')
    return notServed(`its names are not accepted: ${textAt(refused, 'message')}`)
  return { ...notServed('it is not established'), isPending: true }
}

interface Version {
  readonly name: string
  readonly served: boolean
  readonly storage: boolean
  readonly isDeprecated: boolean
  /** null if the definition gives no text. */
  readonly deprecationWarning: string | null
  readonly printerColumns: readonly PrinterColumn[]
  readonly selectableFields: readonly string[]
  readonly schema: DefinedSchema | undefined
  readonly subresources: Subresources
}

/** A v1beta1 definition may have a single `version`, and one set of columns and one schema for all its versions. */
function versionsOf(spec: unknown): readonly Version[] {
  const given = listAt(spec, 'versions').filter((version) => LABEL.test(textAt(version, 'name')))
  const old = textAt(spec, 'version')
  const list = given.length > 0 || !LABEL.test(old) ? given : [{ name: old, served: true, storage: true }]
  // Old definitions have one schema for all versions, and others often repeat it.
  const schemas = new Map<string, DefinedSchema>()
  return list.map((version) => {
    const columns = listAt(version, 'additionalPrinterColumns')
    const schema = field(version, 'schema', 'openAPIV3Schema') ?? field(spec, 'validation', 'openAPIV3Schema')
    return {
      name: textAt(version, 'name'),
      served: field(version, 'served') === true,
      storage: field(version, 'storage') === true,
      isDeprecated: field(version, 'deprecated') === true,
      deprecationWarning: has(version, 'deprecationWarning') ? textAt(version, 'deprecationWarning') : null,
      printerColumns: (columns.length > 0 ? columns : listAt(spec, 'additionalPrinterColumns')).map(printerColumn),
      selectableFields: listAt(version, 'selectableFields').map((entry) => textAt(entry, 'jsonPath')),
      schema: isObject(schema)
        ? getOrMake(schemas, exactText(schema), (text) => DefinedSchema.ofText(text))
        : undefined,
      subresources: subresourcesOf(field(version, 'subresources') ?? field(spec, 'subresources')),
    }
  })
}

function subresourcesOf(subresources: unknown): Subresources {
  const scale = field(subresources, 'scale')
  const selector = textAt(scale, 'labelSelectorPath')
  return {
    status: isObject(field(subresources, 'status')),
    scale: isObject(scale)
      ? {
          specReplicas: simplePath(textAt(scale, 'specReplicasPath')),
          statusReplicas: simplePath(textAt(scale, 'statusReplicasPath')),
          selector: selector === '' ? null : simplePath(selector),
          isBuiltIn: false,
        }
      : null,
    eviction: false,
    readOnly: [],
  }
}

/** Reads a path such as `.spec.replicas`, where the API server allows only names. */
function simplePath(jsonPath: string): readonly string[] {
  return jsonPath.split('.').filter((name) => name !== '')
}

function printerColumn(column: unknown): PrinterColumn {
  return {
    name: textAt(column, 'name'),
    type: textAt(column, 'type'),
    format: textAt(column, 'format'),
    description: textAt(column, 'description'),
    priority: countAt(column, 'priority'),
    jsonPath: has(column, 'jsonPath') ? textAt(column, 'jsonPath') : textAt(column, 'JSONPath'),
  }
}
