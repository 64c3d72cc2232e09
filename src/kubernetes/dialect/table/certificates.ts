/** Rows of certificate requests, and of the trust bundles that certificates are checked against. */
import { listAt, numberAt, textAt } from '../../../support/fields.js'
import { humanDuration } from '../../../support/human-duration.js'
import { AGE, column, formatLabels, NAME, type Printer, printer } from './printer.js'

const podOf = (member: string) => (object: unknown) => textAt(object, 'spec', member)

export const certificatePrinters: Readonly<Record<string, Printer>> = {
  CertificateSigningRequest: printer(
    NAME,
    AGE,
    column(
      'SignerName',
      'string',
      'The signer that is asked to sign.',
      (object) => textAt(object, 'spec', 'signerName') || '<none>',
    ),
    column('Requestor', 'string', 'The user who made the request.', (object) => textAt(object, 'spec', 'username')),
    column('RequestedDuration', 'string', 'How long it should be valid.', (object) => {
      const seconds = numberAt(object, 'spec', 'expirationSeconds')
      return seconds === undefined ? '<none>' : humanDuration(seconds * 1_000)
    }),
    column('Condition', 'string', 'What was decided.', signingCondition),
  ),
  ClusterTrustBundle: printer(
    NAME,
    column(
      'SignerName',
      'string',
      'Who signs with these roots.',
      (object) => textAt(object, 'spec', 'signerName') || '<none>',
    ),
  ),
  PodCertificateRequest: printer(
    NAME,
    column('PodName', 'string', 'The requesting pod.', podOf('podName')),
    column('ServiceAccountName', 'string', 'Service account of the pod.', podOf('serviceAccountName')),
    column('NodeName', 'string', 'Node of the pod.', podOf('nodeName')),
    column('SignerName', 'string', 'The signer that is asked to sign.', podOf('signerName')),
    column('State', 'string', 'What was decided.', (object) =>
      listAt(object, 'status', 'conditions')
        .map((condition) => textAt(condition, 'type'))
        .filter((type) => /^(Issued|Denied|Failed)$/.test(type))
        .reduce((_, type) => type, 'Pending'),
    ),
    column('UnverifiedUserAnnotations', 'string', 'What the pod says to the signer.', (object) =>
      formatLabels(object, 'spec', 'unverifiedUserAnnotations'),
    ),
  ),
}

function signingCondition(object: unknown): string {
  const types = new Set(listAt(object, 'status', 'conditions').map((condition) => textAt(condition, 'type')))
  const decision = types.has('Denied') ? 'Denied' : types.has('Approved') ? 'Approved' : 'Pending'
  const failed = types.has('Failed') ? ',Failed' : ''
  return `${decision}${failed}${textAt(object, 'status', 'certificate') === '' ? '' : ',Issued'}`
}
