import type { Resource } from '../../src/engine/model/resource.js'
import { ANY_FIELD } from '../../src/kubernetes/dialect/field-labels.js'
import { readSelector, type Selector, selectorOf } from '../../src/kubernetes/dialect/selector.js'

/** Parses the parameters of a request into a selector. @throws BadRequestError */
export function parseSelector(
  labelSelector: string | undefined,
  fieldSelector: string | undefined,
  fieldLabels = ANY_FIELD,
  resource?: Pick<Resource, 'holds'>,
): Selector {
  return selectorOf(readSelector({ labelSelector, fieldSelector }), fieldLabels, resource)
}
