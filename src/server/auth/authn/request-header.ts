/**
 * Authenticates users that a front proxy names in headers. The proxy identifies itself by a client certificate from an
 * authority that signs only proxies. Without such a certificate the headers are ignored, whatever they say.
 */
import type { X509Certificate } from 'node:crypto'

import { UnauthorizedError } from '../../../kubernetes/model/status.js'
import type { OptionValues } from '../../config/options.js'
import { trustedUntil } from '../peer-certificate.js'
import { unescapeExtraKey, utf8 } from '../user.js'
import type { WatchedFiles } from '../watched-file.js'
import { type AuthenticationRequest, type Authenticator, headerValues } from './authenticator.js'

/** The values of the options that begin with `--requestheader-`, and mean what those options say. */
type RequestHeaderValues = Pick<OptionValues, Extract<keyof OptionValues, `requestheader${string}`>>

export interface RequestHeaderOptions extends Omit<RequestHeaderValues, 'requestheaderClientCaFile'> {
  /** The bundle of `--requestheader-client-ca-file`. */
  readonly authorities: WatchedFiles<readonly X509Certificate[]>
}

export function requestHeader(options: RequestHeaderOptions): Authenticator {
  const { authorities, requestheaderAllowedNames: allowedNames } = options
  return {
    async authenticate(request) {
      const peer = request.tlsPeerCertificate
      if (peer === null) return null
      // The certificate is not a proxy's but a user's own, which this server accepts as well. Another authenticator
      // judges the certificate, and the headers are ignored.
      const expiresAt = peer.verified ? trustedUntil(peer, authorities.value) : null
      if (expiresAt === null) return null
      if (allowedNames.length > 0 && !allowedNames.includes(peer.commonName)) {
        throw new UnauthorizedError('Unauthorized', { cause: 'proxy certificate name not allowed' })
      }
      const names = options.requestheaderUsernameHeaders.map((header) => headerValues(request, header))
      // If several values were allowed, a proxy that appends its header to its client's header would let the client
      // choose the user.
      if (names.some((values) => values.length > 1))
        throw new UnauthorizedError('Unauthorized', { cause: 'the proxy names more than one user' })
      const name = names.flat().find((value) => value !== '')
      if (name === undefined) return null
      return {
        name: utf8(name),
        uid: '',
        groups: options.requestheaderGroupHeaders.flatMap((header) => headerValues(request, header).map(utf8)),
        extra: extraOf(request, options.requestheaderExtraHeadersPrefix),
        expiresAt,
      }
    },
    readsTokens: false,
    isOfProxy: true,
    changesSilently: false,
    onChange: (listener) => authorities.onChange(() => listener()),
    close: () => authorities.close(),
  }
}

function extraOf(
  request: AuthenticationRequest,
  prefixes: readonly string[],
): Readonly<Record<string, readonly string[]>> {
  const extra = new Map<string, string[]>()
  for (let i = 0; i + 1 < request.rawHeaders.length; i += 2) {
    const header = request.rawHeaders[i]?.toLowerCase() ?? ''
    const prefix = prefixes.find((one) => header.startsWith(one.toLowerCase()))
    if (prefix === undefined) continue
    const key = unescapeExtraKey(header.slice(prefix.length))
    extra.set(key, [...(extra.get(key) ?? []), utf8(request.rawHeaders[i + 1] ?? '')])
  }
  // fromEntries defines members, so that a key such as __proto__ becomes an ordinary one.
  return Object.fromEntries(extra)
}
