/**
 * Combines the configured modes. The modes are tried in order until one allows the request or denies it explicitly. A
 * mode that fails never counts as allowing the request.
 */
import { ServiceUnavailableError } from '../../../kubernetes/model/status.js'
import type { Authorizer } from './authorizer.js'

/** An authorizer, and the API server's name for its mode, which precedes its reasons. */
export interface NamedAuthorizer {
  readonly name: string
  readonly authorizer: Authorizer
}

export function unionAuthorizer(named: readonly NamedAuthorizer[]): Authorizer {
  const authorizers = named.map(({ authorizer }) => authorizer)
  return {
    changesSilently: authorizers.some((authorizer) => authorizer.changesSilently),
    async authorize(user, attributes) {
      const reasons: string[] = []
      let failure: unknown
      for (const { name, authorizer } of named) {
        try {
          const decision = await authorizer.authorize(user, attributes)
          if (decision.allowed) return decision
          if (decision.reason !== '') reasons.push(`${name}: ${decision.reason}`)
          if (decision.denied === true) return { ...decision, reason: reasons.join('\n') }
        } catch (error) {
          failure = error
        }
      }
      // The mode that failed might have allowed the request, so do not answer with a 403.
      if (failure instanceof ServiceUnavailableError) throw failure
      if (failure !== undefined)
        throw new ServiceUnavailableError('authorization is currently unavailable', { cause: failure })
      return { allowed: false, reason: reasons.join('\n'), rule: null }
    },
    async rulesFor(user, namespace) {
      const all = await Promise.all(authorizers.map((authorizer) => authorizer.rulesFor(user, namespace)))
      const errors = all.flatMap(({ evaluationError }) => evaluationError ?? [])
      return {
        resourceRules: all.flatMap(({ resourceRules }) => resourceRules),
        nonResourceRules: all.flatMap(({ nonResourceRules }) => nonResourceRules),
        incomplete: all.some(({ incomplete }) => incomplete),
        ...(errors.length === 0 ? {} : { evaluationError: errors.join('; ') }),
      }
    },
    onChange(listener) {
      const ends = authorizers.map((authorizer) => authorizer.onChange(listener))
      return () => ends.forEach((end) => end())
    },
    close: () => authorizers.forEach((authorizer) => authorizer.close()),
  }
}
