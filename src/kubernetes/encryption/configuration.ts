/**
 * Reads an EncryptionConfiguration, the file that kube-apiserver's `--encryption-provider-config` names. It follows
 * the API server's rules and refuses the same content. Error messages name the place and never quote the content,
 * which may be a key.
 *
 * Source: k8s.io/apiserver 0.37 pkg/apis/apiserver/v1 and pkg/apis/apiserver/validation.
 */
import { jsonText } from '../codec/json-tree.js'
import { parseYamlTree } from '../codec/yaml-tree.js'
import { goDuration } from '../../support/duration.js'
import { parseYaml } from '../../support/yaml.js'

export type ProviderConfiguration =
  | { readonly kind: 'identity' }
  | { readonly kind: 'aescbc' | 'aesgcm' | 'secretbox'; readonly keys: readonly NamedKey[] }
  | { readonly kind: 'kms'; readonly name: string; readonly endpoint: string; readonly timeoutMs: number }

export interface NamedKey {
  readonly name: string
  readonly secret: Buffer
}

export interface ResourceConfiguration {
  /** `secrets`, `deployments.apps`, `*.apps`, `*.` for the core group, `*.*`. */
  readonly resources: readonly string[]
  readonly providers: readonly ProviderConfiguration[]
}

const KEY_BYTES = { aescbc: [16, 24, 32], aesgcm: [16, 24, 32], secretbox: [32] } as const
const NOT_REST: ReadonlySet<string> = new Set(['apiserveripinfo', 'serviceipallocations', 'servicenodeportallocations'])
const KMS_TIMEOUT_MS = 3_000

/** @throws Error that lists every problem. */
export function parseEncryptionConfiguration(content: Buffer): readonly ResourceConfiguration[] {
  const reader = new Reader()
  const resources = reader.read(content.toString('utf8'))
  if (reader.problems.length > 0) throw new Error(reader.problems.join('; '))
  return resources
}

type Fields = Readonly<Record<string, unknown>>

class Reader {
  readonly problems: string[] = []
  readonly #plugins = new Set<string>()
  /** Wildcards of earlier entries. They would hide later entries. */
  readonly #masks: string[] = []

  read(text: string): readonly ResourceConfiguration[] {
    // The library's own messages quote the text, which includes keys.
    const { document, lines } = parseYaml(text, { uniqueKeys: true })
    for (const { code, pos } of document.errors) this.problems.push(`line ${lines.linePos(pos[0]).line}: ${code}`)
    if (this.problems.length > 0) return []
    const root = this.#fields(this.#plain(text), 'the file', ['apiVersion', 'kind', 'resources'])
    if (root === null) return []
    if (root['apiVersion'] !== 'apiserver.config.k8s.io/v1' || root['kind'] !== 'EncryptionConfiguration')
      this.problems.push('it must be an EncryptionConfiguration of apiserver.config.k8s.io/v1')
    return this.#items(root['resources'], 'resources').map((entry, i) => this.#resource(entry, `resources[${i}]`))
  }

  /** Reads YAML 1.1, as the API server does: the name `n` is a boolean, unless it is in quotes. */
  #plain(text: string): unknown {
    try {
      return JSON.parse(jsonText(parseYamlTree(text).value))
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error
      this.problems.push('it holds what JSON cannot express')
      return null
    }
  }

  #resource(entry: unknown, place: string): ResourceConfiguration {
    const fields = this.#fields(entry, place, ['resources', 'providers']) ?? {}
    const resources = this.#items(fields['resources'], `${place}.resources`).map(String)
    resources.forEach((resource, i) => this.#checkResource(resource, `${place}.resources[${i}]`))
    this.#checkOverlap(resources, `${place}.resources`)
    const providers = this.#items(fields['providers'], `${place}.providers`).flatMap(
      (provider, i) => this.#provider(provider, `${place}.providers[${i}]`) ?? [],
    )
    this.#masks.push(...resources.filter((resource) => resource.startsWith('*')))
    return { resources, providers }
  }

  #checkResource(resource: string, place: string): void {
    const { name, group } = parseGroupResource(resource)
    const problem =
      resource !== resource.toLowerCase()
        ? 'must not contain capital letters'
        : resource === '*'
          ? 'must be "*." for the core group, or "*.*" for all resources'
          : NOT_REST.has(resource)
            ? 'has no REST API and cannot be encrypted'
            : group === 'events.k8s.io'
              ? 'is stored as "events", of the core group'
              : group === 'extensions'
                ? 'is of a group that has been removed'
                : group === '*' && name !== '*'
                  ? 'names one resource of every group'
                  : this.#masks.some((mask) => covers(mask, { name, group }))
                    ? 'is hidden by an earlier wildcard'
                    : null
    if (problem !== null) this.problems.push(`${place}: ${JSON.stringify(resource)} ${problem}`)
  }

  #checkOverlap(resources: readonly string[], place: string): void {
    if (new Set(resources).size < resources.length) this.problems.push(`${place}: a resource is named twice`)
    const parsed = resources.map(parseGroupResource)
    const isHidden = resources.some((mask, i) =>
      parsed.some((one, j) => i !== j && mask !== resources[j] && mask.startsWith('*') && covers(mask, one)),
    )
    if (isHidden) this.problems.push(`${place}: a wildcard hides another entry of the same list`)
  }

  #provider(entry: unknown, place: string): ProviderConfiguration | null {
    const fields = this.#fields(entry, place, ['aescbc', 'aesgcm', 'secretbox', 'identity', 'kms'])
    if (fields === null) return null
    const given = Object.keys(fields)
    const [kind] = given
    if (given.length !== 1 || kind === undefined) {
      this.problems.push(`${place}: exactly one of aescbc, aesgcm, secretbox, identity and kms is required`)
      return null
    }
    switch (kind) {
      case 'identity':
        this.#fields(fields[kind] ?? {}, `${place}.${kind}`, [])
        return { kind }
      case 'kms':
        return this.#kms(fields[kind], `${place}.${kind}`)
      case 'aescbc':
      case 'aesgcm':
      case 'secretbox': {
        const { keys } = this.#fields(fields[kind], `${place}.${kind}`, ['keys']) ?? {}
        const found = this.#items(keys, `${place}.${kind}.keys`)
        return { kind, keys: found.flatMap((key, i) => this.#key(key, `${place}.${kind}.keys[${i}]`, KEY_BYTES[kind])) }
      }
      default:
        return null
    }
  }

  #key(entry: unknown, place: string, lengths: readonly number[]): NamedKey[] {
    const { name, secret } = this.#fields(entry, place, ['name', 'secret']) ?? {}
    if (typeof name !== 'string' || name === '') this.problems.push(`${place}.name is required`)
    if (typeof secret !== 'string' || secret === '') {
      this.problems.push(`${place}.secret is required`)
      return []
    }
    if (!/^[A-Za-z0-9+/]*={0,2}$/.test(secret) || secret.length % 4 !== 0) {
      this.problems.push(`${place}.secret must be base64`)
      return []
    }
    const bytes = Buffer.from(secret, 'base64')
    if (!lengths.includes(bytes.length))
      this.problems.push(`${place}.secret has ${bytes.length} bytes, and must have ${lengths.join(' or ')}`)
    return typeof name === 'string' ? [{ name, secret: bytes }] : []
  }

  #kms(entry: unknown, place: string): ProviderConfiguration | null {
    const known = ['apiVersion', 'name', 'cachesize', 'endpoint', 'timeout']
    const { apiVersion, name, endpoint, timeout, cachesize } = this.#fields(entry, place, known) ?? {}
    const problems: string[] = []
    if (apiVersion !== 'v2') problems.push('apiVersion must be v2')
    if (cachesize !== undefined) problems.push('cachesize is not supported in v2')
    if (typeof name !== 'string' || name === '' || name.includes(':'))
      problems.push('name is required and must not contain ":"')
    else if (this.#plugins.has(name)) problems.push(`name ${JSON.stringify(name)} is given twice`)
    else this.#plugins.add(name)
    if (typeof endpoint !== 'string' || !/^unix:\/\/\/./.test(endpoint)) problems.push('endpoint must be unix:///PATH')
    const given = typeof timeout === 'string' ? goDuration(timeout) : ''
    const timeoutMs = timeout === undefined ? KMS_TIMEOUT_MS : Number(given) / 1e6
    if (!(timeoutMs > 0)) problems.push('timeout must be a positive duration')
    this.problems.push(...problems.map((problem) => `${place}.${problem}`))
    return problems.length > 0 ? null : { kind: 'kms', name: String(name), endpoint: String(endpoint), timeoutMs }
  }

  #items(value: unknown, place: string): readonly unknown[] {
    if (Array.isArray(value) && value.length > 0) return value
    this.problems.push(`${place} must be a list with at least one entry`)
    return []
  }

  #fields(value: unknown, place: string, known: readonly string[]): Fields | null {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      this.problems.push(`${place} must be a map`)
      return null
    }
    const unknown = Object.keys(value).filter((name) => !known.includes(name))
    if (unknown.length > 0) this.problems.push(`${place} has unknown fields: ${unknown.length}`)
    return value as Fields
  }
}

export interface GroupResource {
  readonly name: string
  readonly group: string
}

/** `deployments.apps` → deployments of apps; `*.` → all of the core group. */
export function parseGroupResource(text: string): GroupResource {
  const dot = text.indexOf('.')
  return dot === -1 ? { name: text, group: '' } : { name: text.slice(0, dot), group: text.slice(dot + 1) }
}

function covers(mask: string, { group }: GroupResource): boolean {
  return mask === '*.*' || mask === `*.${group}`
}
