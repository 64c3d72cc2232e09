/**
 * Authenticates users by client certificate: the common name is the user and the organizations are the groups, as in
 * the API server. The TLS layer has checked signature, dates and purpose. This file checks that the certificate leads
 * to an authority *for users*.
 */
import type { X509Certificate } from 'node:crypto'

import { UnauthorizedError } from '../../../kubernetes/model/status.js'
import { trustedUntil } from '../peer-certificate.js'
import type { WatchedFiles } from '../watched-file.js'
import type { Authenticator } from './authenticator.js'

/** @param authorities `--client-ca-file`, read again when it changes. */
export function clientCertificate(authorities: WatchedFiles<readonly X509Certificate[]>): Authenticator {
  return {
    async authenticate({ tlsPeerCertificate: peer }) {
      if (peer === null) return null
      const expiresAt = peer.verified ? trustedUntil(peer, authorities.value) : null
      if (expiresAt === null) {
        throw new UnauthorizedError('Unauthorized', {
          cause:
            peer.verified && peer.chain.length === 1
              ? 'client certificate not signed by a CA of --client-ca-file; if an intermediate CA signed it, the client must send that certificate as well'
              : 'client certificate not signed by a CA of --client-ca-file',
        })
      }
      if (peer.commonName === '') return null
      return { name: peer.commonName, uid: '', groups: peer.organizations, extra: {}, expiresAt }
    },
    readsTokens: false,
    changesSilently: false,
    onChange: (listener) => authorities.onChange(() => listener()),
    close: () => authorities.close(),
  }
}
