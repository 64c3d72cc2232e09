/**
 * Turns the operator's declarations (`--resource`, the config's resource table) into the resources served from the
 * start. All problems are collected and returned, so that the config reports them together.
 *
 * - `--resource secrets` adds a well-known resource that is off by default.
 * - `--resource resource.k8s.io/v1beta1` adds all resources of a version.
 * - `--resource flags=/config/flags/` declares a prefix as `flags.distributary.io/v1`. It is cluster-scoped, of kind
 *   `Flag`, and an object's name spells the rest of its key. A prefix is any bytes that end in a separator.
 * - `--resource=-events` omits a resource whose objects are elsewhere, under every group and version with the same
 *   keys.
 *
 * Two served prefixes must not overlap, because each key would be held and sent twice, and `x=/` would publish
 * Secrets that the operator has not named.
 */
import { type Key, keyFromBytes, keyFromText, keyToText } from '../../engine/model/event.js'
import { resourceId, type ApiResource } from '../model/api-resource.js'
import { servedResource, type ServedResource } from './resource-registry.js'
import {
  DEFAULT_ETCD_PREFIX,
  findWellKnown,
  normalizeEtcdPrefix,
  previewsOf,
  qualifiedName,
  storageVersionOf,
  wellKnownDeprecation,
  wellKnownResources,
  wellKnownSubresources,
} from './well-known-resources.js'

/** One entry of the config's resource table. Only the name and one form of the prefix are required. */
export interface ResourceDeclaration {
  /** The plural, which is also the path segment. */
  readonly name: string
  readonly prefix?: string
  /** The prefix in base64, for one that is not text. */
  readonly prefixBytes?: string
  /** Whether the prefix may end in something else than a separator: `a` then also covers `ab`. */
  readonly exact?: boolean
  /** The group: `distributary.io` when absent; '' is the core group. */
  readonly group?: string
  /** The version: `v1` when absent. */
  readonly version?: string
  /** The kind, derived from the name when absent: `feature-flags` gives `FeatureFlag`. */
  readonly kind?: string
  /** Whether the first segment after the prefix is the namespace. */
  readonly namespaced?: boolean
  /** Whether each value is a whole object, as in Kubernetes, whose metadata.name matches its key. */
  readonly objects?: boolean
  readonly shortNames?: readonly string[]
}

export interface ResolvedResources {
  readonly resources: readonly ServedResource[]
  /** Ids (`events`, `widgets.example.com`) of resources never served, even if a definition declares them. */
  readonly leftOut: readonly string[]
  /** One sentence per problem. If there is any, nothing should be served. */
  readonly problems: readonly string[]
}

const DEFAULT_GROUP = 'distributary.io'

const LABEL = /^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$/
const VERSION = /^v[1-9][0-9]{0,3}((alpha|beta)[1-9][0-9]{0,3})?$/
const KIND = /^[A-Z][A-Za-z0-9]{0,62}$/
/** ASCII except letters, digits, `-` and `_`, which are within names more often than between them. */
const ENDS_IN_SEPARATOR = /[^-\w\x80-\xff]$/

/**
 * @param options.names values of `--resource`: `NAME`, `NAME=/prefix/` or `-NAME`; `-NAME` overrides the other two.
 * @param options.declarations the config's table, in order.
 */
export function resolveResources(options: {
  readonly etcdPrefix?: string
  readonly names?: readonly string[]
  readonly declarations?: readonly ResourceDeclaration[]
}): ResolvedResources {
  const problems: string[] = []
  const etcdPrefix = options.etcdPrefix ?? DEFAULT_ETCD_PREFIX
  const root = keyFromText(`${normalizeEtcdPrefix(etcdPrefix)}/`)
  const table = wellKnownResources(etcdPrefix)
  const wanted = new Set(table.filter(({ served }) => served === 'default'))
  const declarations: ResourceDeclaration[] = [...(options.declarations ?? [])]

  const names = options.names ?? []
  for (const text of names) {
    if (text.startsWith('-')) continue
    const equals = text.indexOf('=')
    if (equals !== -1) {
      declarations.push({ name: text.slice(0, equals), prefix: text.slice(equals + 1) })
      continue
    }
    if (text.includes('/')) {
      const previews = previewsOf(table, text)
      if (previews.length === 0)
        problems.push(
          `resource ${quote(text)} is not an alpha or beta version, like "resource.k8s.io/v1beta1", nor api/all, api/beta or api/alpha`,
        )
      for (const preview of previews) wanted.add(preview)
      continue
    }
    const known = findWellKnown(table, text)
    if (known === undefined) {
      problems.push(`resource ${quote(text)} is not a known resource; declare a prefix as NAME=/prefix/`)
    } else {
      wanted.add(known)
    }
  }

  // The resources have the order of the table, not of the flags, because discovery uses it.
  const resources = table.filter((row) => wanted.has(row)).map(({ resource }) => wellKnown(resource))
  const held = table.map(({ resource }) => resource)
  for (const declaration of declarations) {
    const found = problemsOf(declaration, root)
    if (found.length === 0) {
      const resource = toResource(declaration)
      found.push(...clashesOf(resource, held))
      held.push(resource)
      resources.push(servedResource(resource, 'declared'))
    }
    problems.push(...found.map((problem) => `resource ${quote(declaration.name)}: ${problem}`))
  }
  const leftOut = new Set<string>()
  for (const text of names) {
    if (!text.startsWith('-')) continue
    const ids = idsOf(text.slice(1), held)
    const basic = ids.find((id) => BASIC_RESOURCES.has(id))
    if (basic !== undefined)
      problems.push(
        `resource ${quote(text)}: resources and permissions are derived from ${basic}, so it is always served`,
      )
    else if (ids.length === 0)
      problems.push(`resource ${quote(text)} is not a known resource; to leave out a custom resource, use -NAME.GROUP`)
    else for (const id of ids) leftOut.add(id)
  }
  const isServed = ({ resource }: ServedResource): boolean => !leftOut.has(resourceId(resource))
  return { resources: resources.filter(isServed), leftOut: [...leftOut], problems }
}

/** Resources that are always needed, because the served resources and permissions are derived from them. */
export const BASIC_RESOURCES: ReadonlySet<string> = new Set([
  'customresourcedefinitions.apiextensions.k8s.io',
  'apiservices.apiregistration.k8s.io',
  ...['roles', 'rolebindings', 'clusterroles', 'clusterrolebindings'].map((one) => `${one}.rbac.authorization.k8s.io`),
])

/**
 * Returns the ids that `-NAME` omits: everything with the same keys, or the custom resource of that name; nothing for
 * an unknown name.
 */
function idsOf(name: string, known: readonly ApiResource[]): readonly string[] {
  const named = known.find((one) => resourceId(one) === name) ?? known.find((one) => one.plural === name)
  if (named !== undefined) return known.filter((one) => one.etcdPrefix === named.etcdPrefix).map(resourceId)
  const isVersion = known.some((one) => qualifiedName(one) === name)
  return !isVersion && name.includes('.') && SUBDOMAIN.test(name) ? [name] : []
}

/**
 * Whether a definition could name this resource: its group must be neither Kubernetes' nor the one of declared
 * prefixes.
 */
export function mayBeCustom(id: string): boolean {
  const group = id.split('.').slice(1).join('.')
  return group !== DEFAULT_GROUP && !wellKnownResources().some(({ resource }) => resource.group === group)
}

/** Returns a built-in resource with everything known about it. */
export function wellKnown(resource: ApiResource): ServedResource {
  return servedResource(resource, 'well-known', {
    subresources: wellKnownSubresources(resource),
    deprecation: wellKnownDeprecation(resource),
    storageVersion: storageVersionOf(resource),
  })
}

/** @param root the prefix of everything that Kubernetes stores. */
function problemsOf(declaration: ResourceDeclaration, root: Key): string[] {
  const { name, group, version, kind, shortNames } = declaration
  const problems: string[] = []
  const check = (ok: boolean, problem: string): void => void (ok || problems.push(problem))
  check(LABEL.test(name), 'the name must be at most 63 lower-case letters, digits and "-", and begin with a letter')
  problems.push(...prefixProblems(declaration, root))
  check(
    group === undefined || group === '' || (group.length <= 253 && SUBDOMAIN.test(group)),
    `group ${quote(group ?? '')} is not a DNS name`,
  )
  check(
    version === undefined || VERSION.test(version),
    `version ${quote(version ?? '')} is not of the form v1 or v1beta2`,
  )
  check(
    kind === undefined || KIND.test(kind),
    `kind ${quote(kind ?? '')} is not a CamelCase word of at most 63 characters`,
  )
  for (const short of shortNames ?? []) check(LABEL.test(short), `short name ${quote(short)} is not a DNS label`)
  return problems
}

function prefixProblems(declaration: ResourceDeclaration, root: Key): string[] {
  const { prefix: text = '', prefixBytes, exact = false } = declaration
  if (prefixBytes !== undefined) {
    if (declaration.prefix !== undefined) return ['"prefix" and "prefixBytes" cannot be combined']
    const isBase64 = Buffer.from(prefixBytes, 'base64').toString('base64') === prefixBytes
    if (!isBase64) return [`"prefixBytes" ${quote(prefixBytes)} is not base64`]
  }
  const prefix = prefixOf(declaration)
  const shown = quote(keyToText(prefix))
  if (prefix === '') return ['the prefix is empty, and would publish everything in etcd']
  // Bytes of a flag or file that are not UTF-8 have already become this character.
  if (!text.isWellFormed() || text.includes('\ufffd'))
    return [
      `prefix ${shown} contains U+FFFD, which stands for bytes that are not text: give the bytes as "prefixBytes"`,
    ]
  if (prefix.startsWith(root)) {
    const under = `under ${keyToText(root)}, where Kubernetes stores its objects`
    if (!prefix.endsWith('/')) return [`prefix ${shown} must end in "/", because it is ${under}`]
    return prefix.includes('//') ? [`prefix ${shown} has an empty segment, and is ${under}`] : []
  }
  if (exact || ENDS_IN_SEPARATOR.test(prefix)) return []
  const why = 'otherwise it would also match keys of other prefixes; if that is meant, declare it "exact"'
  return [`prefix ${shown} must end in a separator such as "/": ${why}`]
}

function prefixOf({ prefix = '', prefixBytes }: ResourceDeclaration): Key {
  return prefixBytes === undefined ? keyFromText(prefix) : keyFromBytes(Buffer.from(prefixBytes, 'base64'))
}

function clashesOf(resource: ApiResource, others: readonly ApiResource[]): string[] {
  const problems = new Set<string>()
  const prefix = resource.etcdPrefix
  for (const other of others) {
    const otherPrefix = other.etcdPrefix
    const otherText = keyToText(otherPrefix)
    const sameVersion = other.group === resource.group && other.version === resource.version
    if (sameVersion && other.plural === resource.plural) {
      problems.add(`${resourceId(resource)} is already the name of ${otherText}; choose another name or group`)
    } else if (sameVersion && other.kind === resource.kind) {
      problems.add(`kind ${resource.kind} is already that of ${resourceId(other)}; give it a different "kind"`)
    }
    if (prefix.startsWith(otherPrefix) || otherPrefix.startsWith(prefix)) {
      problems.add(`prefix ${quote(keyToText(prefix))} overlaps ${quote(otherText)} of ${resourceId(other)}`)
    }
  }
  // A prefix above the whole Kubernetes tree overlaps with all of it, so only the first few problems are reported.
  const all = [...problems]
  return all.length > 3 ? [...all.slice(0, 3), `and ${all.length - 3} more conflicts`] : all
}

function toResource(declaration: ResourceDeclaration): ApiResource {
  const singular = singularOf(declaration.name)
  const kind = declaration.kind ?? singular.split('-').map(capitalize).join('')
  return {
    group: declaration.group ?? DEFAULT_GROUP,
    version: declaration.version ?? 'v1',
    plural: declaration.name,
    singular: declaration.kind === undefined ? singular : kind.toLowerCase(),
    kind,
    listKind: `${kind}List`,
    shortNames: declaration.shortNames ?? [],
    categories: [],
    namespaced: declaration.namespaced ?? false,
    etcdPrefix: prefixOf(declaration),
    holds: declaration.objects === true ? 'objects' : 'values',
  }
}

/**
 * Guesses the default singular: policies → policy, boxes → box, flags → flag, leases → lease; other words stay
 * unchanged.
 */
function singularOf(plural: string): string {
  if (/[^aeiou-]ies$/.test(plural)) return `${plural.slice(0, -3)}y`
  if (/(ss|x|sh|[^a]ch)es$/.test(plural)) return plural.slice(0, -2)
  if (/[^su]s$/.test(plural)) return plural.slice(0, -1)
  return plural
}

function capitalize(word: string): string {
  return word.slice(0, 1).toUpperCase() + word.slice(1)
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 128))
}
