/**
 * Converts CustomResourceDefinition from apiextensions.k8s.io/v1beta1, which API servers still store, to v1. Members
 * that v1beta1 has once for all versions (validation, subresources, printer columns, selectable fields) are copied into
 * each version, a webhook's members move into `webhook`, and v1beta1's read defaults are set. The other direction is
 * not needed: no client has asked for v1beta1 since 1.22.
 */
import {
  ensureRecord,
  isRecord,
  type Json,
  type JsonRecord,
  jsonText,
  record,
  recordAt,
  recordsAt,
  renameMember,
  textMember,
} from '../json-tree.js'
import { CodecError } from '../protobuf/codec-error.js'
import { MAX_ADDED_BYTES } from '../../model/limits.js'

export function toV1(definition: JsonRecord): void {
  const spec = recordAt(definition, 'spec')
  if (spec === null) return
  moveIntoVersions(spec)
  if (textMember(spec, 'scope') === '') spec['scope'] = 'Namespaced'
  spec['conversion'] = conversionOf(recordAt(spec, 'conversion'))
  // v1 leaves false out; in v1beta1 an absent member means true.
  if (spec['preserveUnknownFields'] === false) delete spec['preserveUnknownFields']
  else spec['preserveUnknownFields'] = true
  fillDefinition(definition)
}

/** Sets the defaults of a definition that depend on its other members. */
export function fillDefinition(definition: JsonRecord): void {
  const spec = recordAt(definition, 'spec')
  if (spec === null) return
  const { names } = spec
  const kind = textMember(names, 'kind')
  if (isRecord(names) && kind !== '') {
    if (textMember(names, 'singular') === '') names['singular'] = kind.toLowerCase()
    if (textMember(names, 'listKind') === '') names['listKind'] = `${kind}List`
  }
  spec['conversion'] ??= record({ strategy: 'None' })
  const service = recordAt(spec, 'conversion', 'webhook', 'clientConfig', 'service')
  if (service !== null) service['port'] ??= 443
  // Without it, the version could be removed while objects are stored in it.
  const status = ensureRecord(definition, 'status')
  const { storedVersions } = status
  const stored = storageVersionOf(definition)
  if (stored !== '' && !(Array.isArray(storedVersions) && storedVersions.length > 0))
    status['storedVersions'] = [stored]
}

/** Returns '' if no version is marked. */
export function storageVersionOf(definition: JsonRecord): string {
  return textMember(
    recordsAt(definition, 'spec', 'versions').find(({ storage }) => storage === true),
    'name',
  )
}

function moveIntoVersions(spec: JsonRecord): void {
  const { version: only, validation, subresources, additionalPrinterColumns, selectableFields } = spec
  const given = recordsAt(spec, 'versions')
  const versions =
    given.length === 0 && typeof only === 'string' && only !== ''
      ? [record({ name: only, served: true, storage: true })]
      : given
  const shared = [validation, subresources, additionalPrinterColumns, selectableFields]
  const bytes = shared.reduce<number>((sum, one) => sum + (one === undefined ? 0 : jsonText(one).length), 0)
  if (bytes * versions.length > MAX_ADDED_BYTES) {
    throw new CodecError('too-large', `what its ${versions.length} versions share takes ${bytes} bytes in each`)
  }
  for (const version of versions) {
    if (isRecord(validation)) version['schema'] = validation
    if (isRecord(subresources)) version['subresources'] = subresources
    if (Array.isArray(additionalPrinterColumns)) version['additionalPrinterColumns'] = additionalPrinterColumns
    if (Array.isArray(selectableFields)) version['selectableFields'] = selectableFields
    for (const column of recordsAt(version, 'additionalPrinterColumns')) renameMember(column, 'JSONPath', 'jsonPath')
  }
  for (const name of ['version', 'validation', 'subresources', 'additionalPrinterColumns', 'selectableFields']) {
    delete spec[name]
  }
  spec['versions'] = versions
}

function conversionOf(old: JsonRecord | null): JsonRecord {
  const strategy = textMember(old, 'strategy') || 'None'
  const clientConfig = recordAt(old, 'webhookClientConfig')
  const reviewVersions: Json = old?.['conversionReviewVersions'] ?? (strategy === 'Webhook' ? ['v1beta1'] : null)
  if (clientConfig === null && reviewVersions === null) return record({ strategy })
  const webhook = record({
    ...(clientConfig === null ? {} : { clientConfig }),
    conversionReviewVersions: reviewVersions,
  })
  return record({ strategy, webhook })
}
