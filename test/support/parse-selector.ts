import type { ApiResource } from '../../src/kubernetes/model/api-resource.js'
import { ANY_FIELD } from '../../src/kubernetes/dialect/field-labels.js'
import { readSelector, type Selector, selectorOf } from '../../src/kubernetes/dialect/selector.js'

/** Parses the parameters of a request into a selector. @throws BadRequestError */
export function parseSelector(
  labelSelector: string | undefined,
  fieldSelector: string | undefined,
  fieldLabels = ANY_FIELD,
  resource?: Pick<ApiResource, 'holds'>,
): Selector {
  return selectorOf(readSelector({ labelSelector, fieldSelector }), fieldLabels, resource)
}

export const EVERYTHING = parseSelector(undefined, undefined)

export function parseShardedSelector(shardSelector: string, labelSelector = '', fieldSelector = ''): Selector {
  return selectorOf(readSelector({ shardSelector, labelSelector, fieldSelector }), ANY_FIELD)
}
