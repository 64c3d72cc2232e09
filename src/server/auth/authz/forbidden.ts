/**
 * Words a 403 as the API server does, because tools and people search for that text. Source: apiserver's
 * responsewriters, Go's %q.
 */
import { ForbiddenError } from '../../../kubernetes/model/status.js'
import type { User } from '../user.js'
import { type Attributes, attributesResource, type Decision } from './authorizer.js'

export function forbidden(user: User, attributes: Attributes, decision: Pick<Decision, 'reason'>): ForbiddenError {
  const why = decision.reason === '' ? '' : `: ${decision.reason}`
  const message = withoutHtml(sentence(user, attributes)) + why
  const { group, name, resource } = attributes
  if (!attributes.isResourceRequest) return new ForbiddenError(`forbidden: ${message}`, { details: {} })
  const what =
    name === '' ? attributesResource(attributes) : `${attributesResource(attributes)} ${JSON.stringify(name)}`
  return new ForbiddenError(`${what} is forbidden: ${message}`, {
    details: { ...(name === '' ? {} : { name }), ...(group === '' ? {} : { group }), kind: resource },
  })
}

function sentence(user: User, a: Attributes): string {
  const who = JSON.stringify(user.name)
  if (!a.isResourceRequest) return `User ${who} cannot ${a.verb} path ${JSON.stringify(a.path)}`
  const resource = JSON.stringify(a.subresource === '' ? a.resource : `${a.resource}/${a.subresource}`)
  const where = a.namespace === '' ? 'at the cluster scope' : `in the namespace ${JSON.stringify(a.namespace)}`
  return `User ${who} cannot ${a.verb} resource ${resource} in API group ${JSON.stringify(a.group)} ${where}`
}

/** Escapes the name and the path, which the caller chooses, so that no browser takes them for HTML. */
function withoutHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
