/**
 * Converts CustomResourceDefinition from apiextensions.k8s.io/v1beta1, which API servers still store, to v1. Members
 * that v1beta1 has once for all versions (validation, subresources, printer columns, selectable fields) are copied into
 * each version, a webhook's members move into `webhook`, and v1beta1's read defaults are set. The other direction is
 * not needed: no client has asked for v1beta1 since 1.22.
 */
import { JsonObject } from './json-object.js'

const FALSE = Buffer.from('false', 'latin1')
const TRUE = Buffer.from('true', 'latin1')

export function toV1(definition: JsonObject): JsonObject {
  const spec = definition.object('spec')
  if (spec === null) return definition
  const names = withNameDefaults(spec.object('names') ?? JsonObject.empty())
  const versions = convertVersions(spec)
  const result = JsonObject.empty()
    .set('group', spec.get('group') ?? '')
    .set('names', names)
    .set('scope', spec.text('scope') === '' ? 'Namespaced' : spec.text('scope'))
    .set('versions', versions)
    .set('conversion', convertConversion(spec.object('conversion')))
  // v1 leaves false out; in v1beta1 an absent member means true.
  const preserves = spec.get('preserveUnknownFields')
  if (preserves === undefined || !preserves.equals(FALSE)) result.set('preserveUnknownFields', TRUE)
  return withStoredVersions(definition.set('spec', result), versions)
}

function withNameDefaults(names: JsonObject): JsonObject {
  const kind = names.text('kind')
  const result = JsonObject.empty()
    .set('plural', names.get('plural') ?? '')
    .set('singular', names.text('singular') === '' ? kind.toLowerCase() : names.text('singular'))
    .setIfAny('shortNames', names.get('shortNames'))
    .set('kind', kind)
    .set('listKind', names.text('listKind') === '' && kind !== '' ? `${kind}List` : names.text('listKind'))
    .setIfAny('categories', names.get('categories'))
  for (const empty of ['singular', 'listKind']) if (result.text(empty) === '') result.delete(empty)
  return result
}

function convertVersions(spec: JsonObject): JsonObject[] {
  let versions = spec.objects('versions') ?? []
  if (versions.length === 0 && spec.text('version') !== '') {
    versions = [JsonObject.empty().set('name', spec.text('version')).set('served', TRUE).set('storage', TRUE)]
  }
  const schema = objectBytes(spec, 'validation')
  const subresources = objectBytes(spec, 'subresources')
  const columns = spec.objects('additionalPrinterColumns')
  const selectable = spec.objects('selectableFields')
  return versions.map((version) => {
    const result = JsonObject.empty()
    for (const name of ['name', 'served', 'storage', 'deprecated', 'deprecationWarning']) {
      result.setIfAny(name, version.get(name))
    }
    const ownColumns = columns ?? version.objects('additionalPrinterColumns')
    return result
      .setIfAny('schema', schema ?? version.get('schema'))
      .setIfAny('subresources', subresources ?? version.get('subresources'))
      .setIfAny(
        'additionalPrinterColumns',
        ownColumns?.map((column) => column.rename('JSONPath', 'jsonPath')),
      )
      .setIfAny('selectableFields', selectable ?? version.get('selectableFields'))
  })
}

function objectBytes(parent: JsonObject, name: string): Buffer | undefined {
  return parent.object(name) === null ? undefined : parent.get(name)
}

function convertConversion(conversion: JsonObject | null): JsonObject {
  const strategy = conversion?.text('strategy') ?? ''
  const result = JsonObject.empty().set('strategy', strategy === '' ? 'None' : strategy)
  const client = conversion?.object('webhookClientConfig') ?? null
  let reviewVersions = conversion?.get('conversionReviewVersions')
  if (reviewVersions === undefined && strategy === 'Webhook') reviewVersions = Buffer.from('["v1beta1"]', 'latin1')
  if (client === null && reviewVersions === undefined) return result
  client?.change('service', (service) => (service.has('port') ? service : service.set('port', Buffer.from('443'))))
  return result.set(
    'webhook',
    JsonObject.empty()
      .setIfAny('clientConfig', client ?? undefined)
      .set('conversionReviewVersions', reviewVersions ?? Buffer.from('null')),
  )
}

function withStoredVersions(definition: JsonObject, versions: readonly JsonObject[]): JsonObject {
  const status = definition.object('status')
  const stored = status?.get('storedVersions')?.toString('latin1') ?? ''
  if (status === null || (stored !== '' && stored !== 'null' && stored !== '[]')) return definition
  const storage = versions.find((version) => version.get('storage')?.equals(TRUE) === true)
  if (storage === undefined) return definition
  const names = Buffer.from(JSON.stringify([storage.text('name')]), 'utf8')
  return definition.set('status', status.set('storedVersions', names))
}
