/** Who callers are and what they may do. */
import { boolean, duration, file, list, pick, string } from '../option.js'
import { headerName } from './values.js'
import { SECOND, MINUTE } from './units.js'

export const AUTHORIZATION_MODES = ['AlwaysAllow', 'Policy', 'RBAC', 'Webhook'] as const

/** Asymmetric only: with a symmetric one, whoever can verify a token can make one. */
export const SIGNING_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'ES256',
  'ES384',
  'ES512',
  'PS256',
  'PS384',
  'PS512',
  'EdDSA',
] as const

export const accessOptions = {
  // ── Authentication ─────────────────────────────────────────────────────────────────────────────────────────────────
  clientCaFile: file({
    flag: '--client-ca-file',
    group: 'Authentication',
    doc: 'Accept client certificates signed by one of these authorities: the common name is the user, the organizations are the groups.',
  }),
  tokenAuthFile: file({
    flag: '--token-auth-file',
    group: 'Authentication',
    doc: 'CSV file of bearer tokens: token,user,uid,"group1,group2". Read again when it changes.',
  }),
  oidcIssuerUrl: string({
    flag: '--oidc-issuer-url',
    group: 'Authentication',
    default: null,
    check: (text) => (/^https:\/\/[^\s?#]+$/.test(text) ? null : 'must be an https URL without query or fragment'),
    doc: 'Accept JWTs of this OpenID Connect issuer. Needs --oidc-client-id.',
  }),
  oidcClientId: string({
    flag: '--oidc-client-id',
    group: 'Authentication',
    default: null,
    doc: 'Audience that a JWT must be meant for.',
  }),
  oidcAudiences: list({
    flag: '--oidc-audiences',
    group: 'Authentication',
    default: [],
    parseItem: (text) => text,
    doc: 'More audiences, of which one is enough.',
  }),
  oidcCaFile: file({
    flag: '--oidc-ca-file',
    group: 'Authentication',
    doc: "Certificate authorities for the issuer's own certificate. Default: the system's.",
  }),
  oidcUsernameClaim: string({
    flag: '--oidc-username-claim',
    group: 'Authentication',
    default: 'sub',
    doc: 'Claim that names the user. "email" counts only when email_verified does not say false.',
  }),
  oidcUsernamePrefix: string({
    flag: '--oidc-username-prefix',
    group: 'Authentication',
    default: null,
    doc: 'Put before the user name; "-" for none. Default: the issuer and "#", unless the claim is email.',
  }),
  oidcGroupsClaim: string({
    flag: '--oidc-groups-claim',
    group: 'Authentication',
    default: null,
    doc: 'Claim that holds the groups, a string or a list. Default: no groups.',
  }),
  oidcGroupsPrefix: string({
    flag: '--oidc-groups-prefix',
    group: 'Authentication',
    default: null,
    doc: 'Put before each group, so that an issuer cannot name a group such as system:masters.',
  }),
  oidcSigningAlgs: list({
    flag: '--oidc-signing-algs',
    group: 'Authentication',
    default: ['RS256'],
    choices: SIGNING_ALGORITHMS,
    parseItem: (text) => pick(SIGNING_ALGORITHMS, text),
    doc: 'Signature algorithms accepted. There is no symmetric one and no "none".',
  }),
  oidcClockSkew: duration({
    flag: '--oidc-clock-skew',
    group: 'Authentication',
    default: 10 * SECOND,
    min: 0,
    max: 5 * MINUTE,
    doc: 'How far the clocks of issuer and server may differ. An expired token lives this much longer.',
  }),
  authenticationKubeconfig: file({
    flag: '--authentication-kubeconfig',
    group: 'Authentication',
    doc: 'Kubeconfig of an API server that judges bearer tokens (TokenReview).',
  }),
  authenticationTokenWebhookCacheTtl: duration({
    flag: '--authentication-token-webhook-cache-ttl',
    group: 'Authentication',
    default: 10 * SECOND,
    min: 0,
    max: 10 * MINUTE,
    doc: 'How long the answer about a token is kept: a token taken back is believed that much longer.',
  }),
  requestheaderClientCaFile: file({
    flag: '--requestheader-client-ca-file',
    group: 'Authentication',
    doc: 'Believe the user headers of front proxies whose certificate one of these authorities signed. Use an authority that signs nothing else.',
  }),
  requestheaderAllowedNames: list({
    flag: '--requestheader-allowed-names',
    group: 'Authentication',
    default: [],
    parseItem: (text) => text,
    doc: 'Common names those proxies may have. Empty: any that the authority signed.',
  }),
  requestheaderUsernameHeaders: list({
    flag: '--requestheader-username-headers',
    group: 'Authentication',
    default: ['X-Remote-User'],
    parseItem: headerName,
    doc: 'Headers to look for the user name in, in this order.',
  }),
  requestheaderGroupHeaders: list({
    flag: '--requestheader-group-headers',
    group: 'Authentication',
    default: ['X-Remote-Group'],
    parseItem: headerName,
    doc: 'Headers that name the groups.',
  }),
  requestheaderExtraHeadersPrefix: list({
    flag: '--requestheader-extra-headers-prefix',
    group: 'Authentication',
    default: ['X-Remote-Extra-'],
    parseItem: headerName,
    doc: "Beginnings of headers that carry the user's other facts.",
  }),
  anonymousAuth: boolean({
    flag: '--anonymous-auth',
    group: 'Authentication',
    default: false,
    doc: 'Let requests without credentials in as system:anonymous, for the authorizer to judge.',
  }),

  // ── Authorization ──────────────────────────────────────────────────────────────────────────────────────────────────
  authorizationMode: list<(typeof AUTHORIZATION_MODES)[number]>({
    flag: '--authorization-mode',
    group: 'Authorization',
    default: ['AlwaysAllow'],
    choices: AUTHORIZATION_MODES,
    parseItem: (text) => pick(AUTHORIZATION_MODES, text),
    doc: 'Who decides, asked in this order; one yes is enough. AlwaysAllow lets every identity read everything served.',
  }),
  authorizationPolicyFile: file({
    flag: '--authorization-policy-file',
    group: 'Authorization',
    doc: 'YAML file of the Policy mode. Read again when it changes; a broken one keeps the last good one and says so.',
  }),
  authorizationKubeconfig: file({
    flag: '--authorization-kubeconfig',
    group: 'Authorization',
    doc: 'Kubeconfig of the API server that the Webhook mode asks (SubjectAccessReview).',
  }),
  authorizationWebhookCacheAuthorizedTtl: duration({
    flag: '--authorization-webhook-cache-authorized-ttl',
    group: 'Authorization',
    default: 10 * SECOND,
    min: 0,
    max: 10 * MINUTE,
    doc: 'How long a yes is kept: a right taken away lives that much longer, on running watches too.',
  }),
  authorizationWebhookCacheUnauthorizedTtl: duration({
    flag: '--authorization-webhook-cache-unauthorized-ttl',
    group: 'Authorization',
    default: 10 * SECOND,
    min: 0,
    max: 10 * MINUTE,
    doc: 'How long a no is kept: a right newly given is missed that much longer.',
  }),
} as const
