/** Kinds whose versions differ in one detail each. */
import { JsonObject, parseArray, withoutAnnotations } from './json-object.js'

/** A key that means "no pod" where an empty selector means every pod, and "every pod" where it means none. */
const EMPTY_SELECTOR_KEY = 'pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match'

/** An empty selector of policy/v1beta1 selects no pod, one of policy/v1 every pod; API servers preserve the meaning. */
export function disruptionBudgetToV1(budget: JsonObject): JsonObject {
  return exchangeSelector(budget, 'Exists', 'DoesNotExist')
}

export function disruptionBudgetToV1beta1(budget: JsonObject): JsonObject {
  return exchangeSelector(budget, 'DoesNotExist', 'Exists')
}

function exchangeSelector(budget: JsonObject, operatorForEmpty: string, operatorToEmpty: string): JsonObject {
  return budget.change('spec', (spec) =>
    spec.change('selector', (selector) => {
      const labels = selector.object('matchLabels')?.names().length ?? 0
      const [expression, ...more] = selector.objects('matchExpressions') ?? []
      if (labels > 0 || more.length > 0) return selector
      if (expression === undefined) {
        const placeholder = JsonObject.empty().set('key', EMPTY_SELECTOR_KEY).set('operator', operatorForEmpty)
        return JsonObject.empty().set('matchExpressions', [placeholder])
      }
      const isPlaceholder =
        expression.text('key') === EMPTY_SELECTOR_KEY && expression.text('operator') === operatorToEmpty
      return isPlaceholder ? JsonObject.empty() : selector
    }),
  )
}

/**
 * Renames `assuredConcurrencyShares` of v1beta1 and v1beta2 to `nominalConcurrencyShares`, its name since v1beta3, or
 * back.
 */
export function renameShares(from: string, to: string): (configuration: JsonObject) => JsonObject {
  return (configuration) =>
    configuration.change('spec', (spec) => spec.change('limited', (limited) => limited.rename(from, to)))
}

/** In flowcontrol v1beta3, shares of 0 mean the default unless this annotation is present; v1 has no need of it. */
const ZERO_SHARES = 'flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares'

export function priorityLevelFromV1beta3(configuration: JsonObject): JsonObject {
  return withoutAnnotations(configuration, [ZERO_SHARES])
}

export function priorityLevelToV1beta3(configuration: JsonObject): JsonObject {
  const shares = configuration.object('spec')?.object('limited')?.get('nominalConcurrencyShares')
  if (shares?.toString() !== '0') return configuration
  const metadata = configuration.object('metadata') ?? JsonObject.empty()
  const annotations = metadata.object('annotations') ?? JsonObject.empty()
  return configuration.set('metadata', metadata.set('annotations', annotations.set(ZERO_SHARES, '')))
}

/** Conditions of certificates.k8s.io/v1 must have a status; v1beta1 had none at first, which meant true. */
export function signingRequestToV1(request: JsonObject): JsonObject {
  return request.change('status', (status) =>
    status.changeEach('conditions', (condition) => {
      if (condition.text('status') !== '') return condition
      const result = JsonObject.empty().setIfAny('type', condition.get('type')).set('status', 'True')
      for (const name of condition.names()) if (!result.has(name)) result.setIfAny(name, condition.get(name))
      return result
    }),
  )
}

/**
 * In certificates.k8s.io/v1 a pod's key is part of the stub of its request; v1beta1 had the key and a proof beside it.
 */
export function podCertificateToV1(request: JsonObject): JsonObject {
  return request.change('spec', (spec) => spec.delete('pkixPublicKey').delete('proofOfPossession'))
}

/** What v1 does not have is null in v1beta1, where neither member is optional. */
export function podCertificateToV1beta1(request: JsonObject): JsonObject {
  return request.change('spec', (spec) => {
    const complete = JsonObject.empty()
    for (const name of spec.names()) if (!AFTER_THE_KEY.includes(name)) complete.setIfAny(name, spec.get(name))
    for (const name of ['pkixPublicKey', 'proofOfPossession']) complete.set(name, spec.get(name) ?? NULL)
    for (const name of AFTER_THE_KEY) complete.setIfAny(name, spec.get(name))
    return complete
  })
}

const AFTER_THE_KEY = ['stubPKCS10Request', 'unverifiedUserAnnotations']
const NULL = Buffer.from('null')

/** In node.k8s.io/v1alpha1 all members were in a spec. */
export function runtimeClassFromV1alpha1(runtimeClass: JsonObject): JsonObject {
  const spec = runtimeClass.object('spec') ?? JsonObject.empty()
  return runtimeClass
    .delete('spec')
    .set('handler', spec.get('runtimeHandler') ?? '')
    .setIfAny('overhead', spec.get('overhead'))
    .setIfAny('scheduling', spec.get('scheduling'))
}

/** Returns the objects of an annotation that is a JSON array; null when it is absent or not such an array. */
export function arrayInAnnotation(annotations: JsonObject | null, name: string): JsonObject[] | null {
  const text = annotations?.text(name) ?? ''
  if (text === '') return null
  try {
    JSON.parse(text)
  } catch {
    return null
  }
  return parseArray(Buffer.from(text, 'utf8'))
}
