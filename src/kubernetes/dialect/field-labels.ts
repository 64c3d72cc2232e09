/**
 * The field labels that a selector may use, by resource, and the paths of their values.
 *
 * Kubernetes' own kinds and custom resources accept the labels that the API server accepts, so that a typo is
 * rejected instead of selecting everything. Declared prefixes accept any scalar path. With `--select-any-field`, so
 * do all other resources.
 *
 * Source: the field label conversions that Kubernetes 1.37 registers (`AddFieldLabelConversionFunc`), and its
 * `ToSelectableFields`.
 */
import { apiVersion, type ApiResource, resourceId } from '../model/api-resource.js'
import { BadRequestError } from '../model/status.js'
import type { ServedResource } from './resource-registry.js'
import { assertNotStripped } from './stripped-fields.js'
import { type FieldLabel, ownFieldLabels } from './well-known-resources.js'
import { oncePer } from '../../support/memo.js'

export interface FieldLabels {
  /**
   * Returns null if the value is at the path of the label's name.
   *
   * @throws BadRequestError when the resource cannot be selected by the label.
   */
  find(label: string): FieldLabel | null
}

const NAMED = ['metadata.name', 'metadata.namespace']

export const ANY_FIELD: FieldLabels = { find: () => null }

type Selected = Pick<ServedResource, 'resource' | 'origin' | 'definition' | 'selectableFields'>

/** @param isAnySelectable whether Kubernetes' own kinds and custom resources can be selected by any scalar path. */
export function fieldLabelsOf(served: Selected, isAnySelectable: boolean): FieldLabels {
  const labels = isAnySelectable ? anyOf(served.resource) : labelsOf(served)
  if (served.resource.stripped === undefined) return labels
  return {
    find(label) {
      assertNotStripped(served.resource, label)
      return labels.find(label)
    },
  }
}

const labelsOf = oncePer(({ resource, origin, definition, selectableFields }: Selected): FieldLabels => {
  const any = anyOf(resource)
  // This is a custom resource of an upstream that does not expose its definitions, so its labels are unknown here.
  if (origin === 'declared' || resource.holds !== 'kubernetes' || (origin === 'custom' && definition === null))
    return any
  const own = origin === 'custom' ? customLabels(resource, selectableFields) : ownFieldLabels(resource)?.keys()
  const taken = new Set(own === undefined ? NAMED : ['metadata.name', ...own])
  return {
    find(label) {
      if (!taken.has(label)) throw new BadRequestError(refusal(resource, label, own === undefined))
      return any.find(label)
    },
  }
})

function anyOf(resource: ApiResource): FieldLabels {
  const own = ownFieldLabels(resource)
  if (own === undefined) return ANY_FIELD
  return {
    find(label) {
      const found = own.get(label)
      return found === undefined || (found.otherwise === '' && found.paths.join() === label) ? null : found
    },
  }
}

function customLabels({ namespaced }: ApiResource, selectableFields: readonly string[]): readonly string[] {
  const fields = selectableFields.map((path) => path.replace(/^\./, ''))
  return [...(namespaced ? ['metadata.namespace'] : []), ...fields]
}

/** The refusal in the API server's words, which differ by kind. */
function refusal(resource: ApiResource, label: string, isDefault: boolean): string {
  const quoted = JSON.stringify(label)
  if (isDefault) return `${quoted} is not a known field selector: only "metadata.name", "metadata.namespace"`
  const id = resourceId(resource)
  if (id === 'jobs.batch') return `field label ${quoted} not supported for Job`
  if (id === 'resourceslices.resource.k8s.io')
    return `field label not supported for ${apiVersion(resource)}, Kind=${resource.kind}: ${label}`
  return `field label not supported: ${label}`
}
