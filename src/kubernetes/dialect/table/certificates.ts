/** Rows of certificate requests, and of the trust bundles that certificates are checked against. */
import { listAt, numberAt, textAt } from '../../../support/fields.js'
import { humanDuration } from '../../../support/human-duration.js'
import { AGE, column, labels, NAME, type Printer, printer, text } from './printer.js'

export const certificatePrinters: Readonly<Record<string, Printer>> = {
  CertificateSigningRequest: printer(
    NAME,
    AGE,
    column('SignerName', 'The signer that is asked to sign.', text('spec.signerName', '<none>')),
    column('Requestor', 'The user who made the request.', 'spec.username'),
    column('RequestedDuration', 'How long it should be valid.', (object) => {
      const seconds = numberAt(object, 'spec', 'expirationSeconds')
      return seconds === undefined ? '<none>' : humanDuration(seconds * 1_000)
    }),
    column('Condition', 'What was decided.', signingCondition),
  ),
  ClusterTrustBundle: printer(
    NAME,
    column('SignerName', 'Who signs with these roots.', text('spec.signerName', '<none>')),
  ),
  PodCertificateRequest: printer(
    NAME,
    column('PodName', 'The requesting pod.', 'spec.podName'),
    column('ServiceAccountName', 'Service account of the pod.', 'spec.serviceAccountName'),
    column('NodeName', 'Node of the pod.', 'spec.nodeName'),
    column('SignerName', 'The signer that is asked to sign.', 'spec.signerName'),
    column('State', 'What was decided.', (object) => typesOf(object).findLast(isFinal) ?? 'Pending'),
    column('UnverifiedUserAnnotations', 'What the pod says to the signer.', labels('spec.unverifiedUserAnnotations')),
  ),
}

function typesOf(object: unknown): readonly string[] {
  return listAt(object, 'status', 'conditions').map((condition) => textAt(condition, 'type'))
}

function isFinal(type: string): boolean {
  return /^(Issued|Denied|Failed)$/.test(type)
}

function signingCondition(object: unknown): string {
  const types = new Set(typesOf(object))
  const decision = types.has('Denied') ? 'Denied' : types.has('Approved') ? 'Approved' : 'Pending'
  const failed = types.has('Failed') ? ',Failed' : ''
  return `${decision}${failed}${textAt(object, 'status', 'certificate') === '' ? '' : ',Issued'}`
}
