/** Kinds whose versions differ in one detail each. */
import {
  ensureRecord,
  isEmptyRecord,
  type JsonRecord,
  member,
  record,
  recordAt,
  recordsAt,
  renameMember,
  textMember,
} from '../json-tree.js'

/** No pod has this label. A selector that requires it matches no pod, and one that forbids it matches every pod. */
const EMPTY_SELECTOR_KEY = 'pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match'

/** An empty selector matches no pod in policy/v1beta1 but every pod in policy/v1; API servers preserve the meaning. */
export function disruptionBudgetToV1(budget: JsonRecord): void {
  exchangeSelector(budget, 'Exists', 'DoesNotExist')
}

export function disruptionBudgetToV1beta1(budget: JsonRecord): void {
  exchangeSelector(budget, 'DoesNotExist', 'Exists')
}

function exchangeSelector(budget: JsonRecord, operatorForEmpty: string, operatorToEmpty: string): void {
  const selector = recordAt(budget, 'spec', 'selector')
  if (selector === null || !isEmptyRecord(recordAt(selector, 'matchLabels'))) return
  const [expression, ...more] = recordsAt(selector, 'matchExpressions')
  if (more.length > 0) return
  if (expression === undefined) {
    selector['matchExpressions'] = [record({ key: EMPTY_SELECTOR_KEY, operator: operatorForEmpty })]
  } else if (expression['key'] === EMPTY_SELECTOR_KEY && expression['operator'] === operatorToEmpty) {
    delete selector['matchExpressions']
  }
}

/**
 * Renames `assuredConcurrencyShares` of v1beta1 and v1beta2 to `nominalConcurrencyShares`, its name since v1beta3, or
 * back.
 */
export function renameShares(from: string, to: string): (configuration: JsonRecord) => void {
  return (configuration) => {
    const limited = recordAt(configuration, 'spec', 'limited')
    if (limited !== null) renameMember(limited, from, to)
  }
}

/** In flowcontrol v1beta3, shares of 0 mean the default unless this annotation is present; v1 does not need it. */
const ZERO_SHARES = 'flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares'

export function priorityLevelFromV1beta3(configuration: JsonRecord): void {
  dropAnnotations(configuration, [ZERO_SHARES])
}

export function priorityLevelToV1beta3(configuration: JsonRecord): void {
  if (member(configuration, 'spec', 'limited', 'nominalConcurrencyShares') !== 0) return
  ensureRecord(ensureRecord(configuration, 'metadata'), 'annotations')[ZERO_SHARES] = ''
}

/** Removes annotations, and the member that holds them if none is left. */
function dropAnnotations(object: JsonRecord, names: readonly string[]): void {
  const metadata = recordAt(object, 'metadata')
  const annotations = recordAt(metadata, 'annotations')
  for (const name of names) delete annotations?.[name]
  if (isEmptyRecord(annotations)) delete metadata?.['annotations']
}

/**
 * Conditions in certificates.k8s.io/v1 must have a status. At first v1beta1 had no such field, and every condition was
 * true.
 */
export function signingRequestToV1(request: JsonRecord): void {
  for (const condition of recordsAt(request, 'status', 'conditions')) {
    if (textMember(condition, 'status') === '') condition['status'] = 'True'
  }
}

/** Members that only v1beta1 has. In v1 the pod's key is in the stub of the certificate request. */
const KEY_AND_PROOF = ['pkixPublicKey', 'proofOfPossession']

export function podCertificateToV1(request: JsonRecord): void {
  for (const name of KEY_AND_PROOF) delete recordAt(request, 'spec')?.[name]
}

/** v1beta1 requires both members, so missing ones become null. */
export function podCertificateToV1beta1(request: JsonRecord): void {
  const spec = ensureRecord(request, 'spec')
  for (const name of KEY_AND_PROOF) spec[name] ??= null
}

/** In node.k8s.io/v1alpha1 all members are in a `spec`. */
export function runtimeClassFromV1alpha1(runtimeClass: JsonRecord): void {
  const { runtimeHandler = '', ...members } = recordAt(runtimeClass, 'spec') ?? record()
  delete runtimeClass['spec']
  Object.assign(runtimeClass, { handler: runtimeHandler, ...members })
}
