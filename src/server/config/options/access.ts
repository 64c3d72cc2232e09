/** Options for authentication and authorization. */
import { boolean, duration, file, list, pick, string } from '../option.js'
import { headerName, isIssuerUrl } from './values.js'
import { SECOND, MINUTE } from './units.js'

const AUTHORIZATION_MODES = ['AlwaysAllow', 'Node', 'Policy', 'RBAC', 'Webhook'] as const

/** Only asymmetric algorithms: with a symmetric one, anyone who can verify a token can create one. */
const SIGNING_ALGORITHMS = [
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

export const authenticationOptions = {
  clientCaFile: file({
    doc: 'PEM file with the CAs whose client certificates the server accepts: the common name is the user, the organizations are the groups.',
  }),
  tokenAuthFile: file({
    doc: 'CSV file of bearer tokens: token,user,uid,"group1,group2". The server reloads it when it changes.',
  }),
  oidcIssuerUrl: string({
    default: null,
    check: (text) => (isIssuerUrl(text) ? null : 'must be an https URL without user, password, query or fragment'),
    doc: 'OpenID Connect issuer whose JWTs the server accepts. Requires --oidc-client-id.',
  }),
  oidcClientId: list({
    default: [],
    doc: 'Audiences: a JWT must name one of them.',
  }),
  oidcCaFile: file({
    doc: "PEM file with the CAs that verify the issuer's certificate. Default: the system's.",
  }),
  oidcUsernameClaim: string({
    default: 'sub',
    doc: 'Claim with the user name. The server rejects "email" if email_verified is false.',
  }),
  oidcUsernamePrefix: string({
    default: null,
    doc: 'Prefix for user names; "-" for none. Default: the issuer and "#", or none if the claim is email.',
  }),
  oidcGroupsClaim: string({
    default: null,
    doc: 'Claim with the groups, as a string or a list. Default: no groups.',
  }),
  oidcGroupsPrefix: string({
    default: null,
    doc: 'Prefix for group names, so that an issuer cannot assign a group such as system:masters.',
  }),
  oidcSigningAlgs: list({
    default: ['RS256'],
    choices: SIGNING_ALGORITHMS,
    parseItem: (text) => pick(SIGNING_ALGORITHMS, text),
    doc: 'Accepted signature algorithms. Symmetric algorithms and "none" are not available.',
  }),
  serviceAccountIssuer: list({
    default: [],
    doc: 'Issuers of service account tokens, as configured on the API server. The server verifies such tokens itself and looks up the pod, node or Secret that a token is bound to in its own cache. If it cannot decide, it asks the API server of --authentication-kubeconfig.',
  }),
  serviceAccountKeyFile: list({
    default: [],
    doc: 'PEM files with the keys that verify service account tokens; the server reloads them when they change. Default: the keys that the API server of --authentication-kubeconfig publishes at /openid/v1/jwks, or those of the discovery document of the issuer.',
  }),
  apiAudiences: list({
    default: [],
    doc: 'Accepted audiences: a service account token must name one of them. The server also requests them in TokenReview. Default: --service-account-issuer, and in TokenReview those of the API server.',
  }),
  authenticationKubeconfig: file({
    doc: 'Kubeconfig of the API server that reviews bearer tokens (TokenReview).',
  }),
  authenticationTokenWebhookCacheTtl: duration({
    default: 10 * SECOND,
    min: 0,
    max: 10 * MINUTE,
    doc: 'How long the server caches the review of a token. A revoked token stays valid for that long.',
  }),
  requestheaderClientCaFile: file({
    doc: 'PEM file with the CAs that sign the certificates of front proxies; the server trusts the user headers of those proxies. Use a CA that signs nothing else.',
  }),
  requestheaderAllowedNames: list({
    default: [],
    doc: 'Accepted common names of front proxies. Empty: every name that the CA signed.',
  }),
  requestheaderUsernameHeaders: list({
    default: ['X-Remote-User'],
    parseItem: headerName,
    doc: 'Headers with the user name, in the order in which the server looks for them.',
  }),
  requestheaderGroupHeaders: list({
    default: ['X-Remote-Group'],
    parseItem: headerName,
    doc: 'Headers with the groups.',
  }),
  requestheaderExtraHeadersPrefix: list({
    default: ['X-Remote-Extra-'],
    parseItem: headerName,
    doc: 'Prefixes of the headers with further attributes of the user.',
  }),
  ticketKeyFile: file({
    doc: 'File with the key for tickets, with which browsers log in when they cannot send a token. At least 32 characters, and the same file on every replica. The server reloads it when it changes. It may have several keys, one per line: the first signs, and all are accepted. A ticket is valid only on servers with the same --nats-cluster.',
  }),
  anonymousAuth: boolean({
    default: false,
    doc: 'Accept requests without credentials as user system:anonymous; the authorizer decides what they may do.',
  }),
} as const

export const authorizationOptions = {
  authorizationMode: list<(typeof AUTHORIZATION_MODES)[number]>({
    default: ['AlwaysAllow'],
    choices: AUTHORIZATION_MODES,
    parseItem: (text) => pick(AUTHORIZATION_MODES, text),
    doc: 'Authorizers, in the order in which the server consults them; the first that allows or denies the request decides. Node allows kubelets what the API server allows them. AlwaysAllow lets every caller read everything the server serves. With an authenticator, --passthrough or --apiservice you must set the mode explicitly.',
  }),
  authorizationPolicyFile: file({
    doc: 'YAML file with the rules for Policy mode. The server reloads it when it changes; if the new file is invalid, it logs an error and keeps the previous policy.',
  }),
  authorizationKubeconfig: file({
    doc: 'Kubeconfig of the API server that decides in the Webhook mode (SubjectAccessReview).',
  }),
  authorizationWebhookCacheAuthorizedTtl: duration({
    default: 10 * SECOND,
    min: 0,
    max: 10 * MINUTE,
    doc: 'How long the server caches a decision to allow a request. A revoked permission stays valid for that long, even on running watches.',
  }),
  authorizationWebhookCacheUnauthorizedTtl: duration({
    default: 10 * SECOND,
    min: 0,
    max: 10 * MINUTE,
    doc: 'How long the server caches a decision to deny a request. A new permission takes effect only after that.',
  }),
} as const
