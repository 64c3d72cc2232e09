/** Rows of certificate requests, and of the trust bundles that certificates are checked against. */
import { listAt, numberAt, textAt } from '../../../support/fields.js'
import { humanDuration } from '../../../support/human-duration.js'
import { AGE, column, labels, named, type Printer, text } from './printer.js'

export const certificatePrinters: Readonly<Record<string, Printer>> = {
  CertificateSigningRequest: named(
    AGE,
    column('SignerName', 'Signer that the request is addressed to.', text('spec.signerName', '<none>')),
    column('Requestor', 'User who made the request.', 'spec.username'),
    column('RequestedDuration', 'Requested validity of the certificate.', (object) => {
      const seconds = numberAt(object, 'spec', 'expirationSeconds')
      return seconds === undefined ? '<none>' : humanDuration(seconds * 1_000)
    }),
    column('Condition', 'State of the request.', signingCondition),
  ),
  ClusterTrustBundle: named(
    column('SignerName', 'Signer that these trust anchors belong to.', text('spec.signerName', '<none>')),
  ),
  PodCertificateRequest: named(
    column('PodName', 'The requesting pod.', 'spec.podName'),
    column('ServiceAccountName', 'Service account of the pod.', 'spec.serviceAccountName'),
    column('NodeName', 'Node of the pod.', 'spec.nodeName'),
    column('SignerName', 'Signer that the request is addressed to.', 'spec.signerName'),
    column('State', 'State of the request.', (object) => typesOf(object).findLast(isFinal) ?? 'Pending'),
    column(
      'UnverifiedUserAnnotations',
      'Additional arguments from the pod to the signer.',
      labels('spec.unverifiedUserAnnotations'),
    ),
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
