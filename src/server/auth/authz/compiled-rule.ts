/**
 * A policy rule, compiled so that a decision costs only a few look-ups, whatever the rule looks like. Users write the
 * rules. They may repeat a verb a hundred thousand times, or end a path in as many stars, so compiling is one linear
 * pass.
 */
import type { Attributes } from './authorizer.js'
import type { PolicyRule } from './rbac-types.js'

export class CompiledRule {
  readonly verbs: ReadonlySet<string>
  readonly apiGroups: ReadonlySet<string>
  readonly resources: ReadonlySet<string>
  /** null means every name, and also requests without a name. */
  readonly names: ReadonlySet<string> | null
  readonly paths: PathPatterns

  constructor(rule: PolicyRule) {
    this.verbs = new Set(rule.verbs)
    this.apiGroups = new Set(rule.apiGroups)
    this.resources = new Set(rule.resources)
    this.names = rule.resourceNames.length === 0 ? null : new Set(rule.resourceNames)
    this.paths = new PathPatterns(rule.nonResourceURLs)
  }

  /** Whether the rule allows a request. */
  allows(attributes: Attributes): boolean {
    if (!hasOrAll(this.verbs, attributes.verb)) return false
    if (!attributes.isResourceRequest) return this.paths.covers(attributes.path)
    const { group, resource, subresource, name } = attributes
    return (
      hasOrAll(this.apiGroups, group) &&
      this.#allowsResource(resource, subresource) &&
      (this.names === null || this.names.has(name))
    )
  }

  /**
   * `pods` does not include `pods/log`; `*` includes all subresources; `*\/scale` is that subresource of every
   * resource.
   */
  #allowsResource(resource: string, subresource: string): boolean {
    const { resources } = this
    if (resources.has('*')) return true
    if (subresource === '') return resources.has(resource)
    return resources.has(`${resource}/${subresource}`) || resources.has(`*/${subresource}`)
  }
}

export function hasOrAll(allowed: ReadonlySet<string>, wanted: string): boolean {
  return allowed.has('*') || allowed.has(wanted)
}

/** Paths in which a trailing star matches any continuation; other stars have no special meaning. */
class PathPatterns {
  readonly #exact: ReadonlySet<string>
  /**
   * Sorted, and no prefix begins with another one. So only the last prefix that sorts before a path can match the path.
   */
  readonly #prefixes: readonly string[]

  constructor(patterns: readonly string[]) {
    this.#exact = new Set(patterns)
    const prefixes: string[] = []
    for (const prefix of patterns
      .filter((pattern) => pattern.endsWith('*'))
      .map(withoutStars)
      .sort()) {
      const last = prefixes.at(-1)
      if (last === undefined || !prefix.startsWith(last)) prefixes.push(prefix)
    }
    this.#prefixes = prefixes
  }

  /** Whether the patterns match every path. */
  get coversAll(): boolean {
    return this.#prefixes[0] === ''
  }

  /** Whether the patterns match a path, or everything that another pattern matches. */
  covers(pattern: string): boolean {
    if (this.#exact.has(pattern)) return true
    let low = 0
    let high = this.#prefixes.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#prefixes[middle]! <= pattern) low = middle + 1
      else high = middle
    }
    return low > 0 && pattern.startsWith(this.#prefixes[low - 1]!)
  }
}

/** Uses no regular expression, because `/\*+$/` takes quadratic time for many stars in the middle. */
function withoutStars(pattern: string): string {
  let end = pattern.length
  while (end > 0 && pattern[end - 1] === '*') end--
  return pattern.slice(0, end)
}
