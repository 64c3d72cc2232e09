/** Explains what the authorizers of a configuration would decide, for `distributary config check --explain`. */
import { readFileSync } from 'node:fs'
import { type Attributes, pathAttributes } from '../auth/authz/authorizer.js'
import { parsePolicy, type PolicyFileRule, type RulePart, unmetBy } from '../auth/authz/policy.js'
import { ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, type User } from '../auth/user.js'
import type { Config } from '../config/load.js'
import { parseQuery } from '../../kubernetes/dialect/query.js'
import { parseRequestPath } from '../../kubernetes/dialect/request-path.js'
import { attributesOf, type Verb } from '../transports/api/request-attributes.js'

/** The names of a rule's parts in the file. */
const NAMED: Readonly<Record<RulePart, string>> = {
  who: 'it is for other users and groups',
  verbs: 'its verbs do not include this one',
  apiGroups: 'its apiGroups do not include this one',
  resources: 'its resources do not include this one, or it has paths',
  namespaces: 'its namespaces do not include this one',
  names: 'its names do not include this one',
  paths: 'its paths do not include this one, or it has resources',
}

/**
 * @param request `USER VERB PATH [GROUP...]` with a Kubernetes verb, such as `ann list /api/v1/namespaces/web/pods
 * team-web`.
 * @returns lines; the first line is the decision.
 * @throws Error for a malformed request; StatusError for an invalid path.
 */
export function explainDecision(config: Config, request: string): readonly string[] {
  const [name, verb, target, ...groups] = request.split(/\s+/).filter((word) => word !== '')
  if (name === undefined || verb === undefined || target?.startsWith('/') !== true) {
    throw new Error(
      `--explain: ${JSON.stringify(request)} is not of the form USER VERB PATH [GROUP...], such as "ann list /api/v1/namespaces/web/pods team-web"`,
    )
  }
  const known = name === ANONYMOUS.name ? ALL_UNAUTHENTICATED : ALL_AUTHENTICATED
  const user: User = { ...ANONYMOUS, name, groups: [...groups, known] }
  const attributes = attributesAt(config, verb, target)
  const described = `${name} ${verb} ${target}`
  const reasons: string[] = []
  for (const mode of config.authorizationMode) {
    if (mode === 'AlwaysAllow') return [`allowed: ${described}: AlwaysAllow`]
    if (mode !== 'Policy') {
      reasons.push(`${mode} is not consulted, because it depends on ${mode === 'Webhook' ? 'another server' : 'etcd'}`)
      continue
    }
    const rules = parsePolicy(readFileSync(config.authorizationPolicyFile!, 'utf8'))
    const rule = rules.find((one) => unmetBy(one, user, attributes) === null)
    if (rule !== undefined) return [`allowed: ${described}: Policy: ${rule.name}`]
    reasons.push(...whyNot(rules, user, attributes))
  }
  const isKnown = config.authorizationMode.every((mode) => mode === 'Policy')
  return [`${isKnown ? 'refused' : 'not decided here'}: ${described}`, ...reasons.map((reason) => `  ${reason}`)]
}

function attributesAt(config: Config, verb: string, target: string): Attributes {
  const mark = target.indexOf('?')
  const path = mark === -1 ? target : target.slice(0, mark)
  const parsed = parseRequestPath(path, (group, version, plural) =>
    config.resources.find(
      ({ resource }) => resource.group === group && resource.version === version && resource.plural === plural,
    ),
  )
  if (parsed.kind !== 'resource') return pathAttributes(verb, path)
  const query = parseQuery(mark === -1 ? '' : target.slice(mark + 1))
  return attributesOf({ request: {}, path, query }, parsed, verb as Verb)
}

function whyNot(rules: readonly PolicyFileRule[], user: User, attributes: Attributes): readonly string[] {
  const unmet = rules.map((rule) => ({ rule, part: unmetBy(rule, user, attributes)! }))
  const own = unmet.filter(({ part }) => part !== 'who')
  const others = unmet.length - own.length
  return [
    ...own.map(({ rule, part }) => `${rule.name}: ${NAMED[part]}`),
    ...(others === 0 ? [] : [`rules for other users and groups: ${others}`]),
  ]
}
