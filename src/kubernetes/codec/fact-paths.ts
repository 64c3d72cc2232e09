/** Which facts of Kubernetes' objects have a meaning for the engine, and the paths of labels. */
import { attributePath } from '../../engine/facts/field-path.js'
import type { FactPaths } from '../../engine/model/fact-source.js'

export const NAME_PATH = 'metadata.name'
export const NAMESPACE_PATH = 'metadata.namespace'

export const FACT_PATHS: FactPaths = {
  name: NAME_PATH,
  scope: NAMESPACE_PATH,
  // Fields of built-in kinds by which kubelets, schedulers and controllers select.
  common: new Set([
    'spec.nodeName',
    'spec.schedulerName',
    'spec.serviceAccountName',
    'spec.serviceAccount',
    'spec.restartPolicy',
    'spec.hostNetwork',
    'spec.unschedulable',
    'spec.signerName',
    'spec.type',
    'status.phase',
    'status.podIP',
    'status.nominatedNodeName',
    'status.replicas',
    'status.succeeded',
    'type',
    'reason',
    'involvedObject.kind',
    'involvedObject.namespace',
    'involvedObject.name',
    'involvedObject.uid',
  ]),
}

/** Returns the path of a label's fact. No field path has this form. */
export function labelPath(key: string): string {
  return attributePath('metadata.labels', key)
}
