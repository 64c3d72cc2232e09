/**
 * The messages of kinds, and the form of each message's fields in Kubernetes' JSON. The built-in kinds come from the
 * table in `kubernetes-schema.txt`; `descriptors.ts` adds those of a FileDescriptorSet. A message's line is parsed
 * when the message is first requested, so a server that serves only pods never parses the thousand others.
 *
 * The table's notation has one line per message, with members in the order in which Go writes them:
 *
 *     = m k8s.io.apimachinery.pkg.apis.meta.v1         an alias of a package, for the lines below
 *     @ k8s.io.api.apps.v1 apps/v1 v1beta2             messages of a package, and the apiVersion of its kinds
 *     Deployment* metadata?:1:m/ObjectMeta spec?:2:DeploymentSpec
 *
 * Versions after the apiVersion are those of the same group in which the messages below are the same. Where they are
 * the same in another group as well, another `@` with its package, apiVersion and versions follows on the same line.
 *
 * After a message's name, `*` marks a kind, and `[]` a message whose JSON is the array in its only field. `|array`
 * and `|bool` mark a message whose JSON is its second field when that is set, and otherwise its first.
 *
 * A field is `jsonName:number:type`. An empty name means that the field is inlined. `?` after the name means that the
 * field is left out when empty; `??` means the same, for a struct as well. Before the type, `*` marks a pointer,
 * which is written whenever it is present, even if its value is empty. `[]` marks a repeated field, and `{}` a map
 * with strings as keys. A type with a capital letter is a message. If it belongs to another package, `alias/` or the
 * whole package and `/` come first. The other types are protobuf's scalars and the six of `SpecialType`.
 */
import { getOrMake } from '../../../support/memo.js'
import { readPackageFile } from '../../../support/package-file.js'
import type { SCALAR_WIRE_TYPES } from './wire.js'

export type ScalarType = keyof typeof SCALAR_WIRE_TYPES

/**
 * Messages whose JSON is not an object of their fields. The bytes of `json` are JSON (RawExtension, FieldsV1, JSON).
 */
export type SpecialType = 'time' | 'microtime' | 'duration' | 'quantity' | 'intorstring' | 'json'

export interface Field {
  readonly number: number
  /** The name is '' for an inlined message. */
  readonly jsonName: string
  readonly isOmittedWhenEmpty: boolean
  /** Whether a struct is left out as well; otherwise Go writes it even when it is empty. */
  readonly isOmittedWhenZero: boolean
  readonly label: 'value' | 'pointer' | 'repeated' | 'map'
  /** The type of the field, or of the values of a map. `message` goes with `messageName`. */
  readonly type: ScalarType | SpecialType | 'message'
  readonly messageName: string
  /** Only maps have a key type, which is 'string' in all of Kubernetes. */
  readonly keyType: ScalarType
  /** The JSON names of an enum's numbers; null for other types. */
  readonly enumNames: ReadonlyMap<number, string> | null
}

export interface Message {
  readonly fullName: string
  readonly form: 'object' | 'items' | 'either'
  /** Whether its JSON starts with kind and apiVersion. */
  readonly isKind: boolean
  readonly fields: readonly Field[]
}

export const META_PACKAGE = 'k8s.io.apimachinery.pkg.apis.meta.v1'
export const OBJECT_META = `${META_PACKAGE}.ObjectMeta`
const NO_FIELDS: readonly string[] = []
/** The apiVersions whose kinds are remembered: how many, and the longest. Kubernetes has fewer than a hundred. */
const MAX_KNOWN_VERSIONS = 1_000
const MAX_KNOWN_LENGTH = 512

/** A descriptor set's additions: whole messages, and the kinds among them. */
export interface SchemaAdditions {
  readonly messages: Iterable<Message>
  /** Packages in which kinds are looked up by convention, before the built-in ones. @see isPackageOf */
  readonly packages: Iterable<string>
  /**
   * Maps `group/version/Kind` (or `version/Kind` of the core group) to a full message name; tried before every
   * convention.
   */
  readonly kinds: ReadonlyMap<string, string>
}

/**
 * Whether a package contains the kinds of an apiVersion, as packages are usually named. The last part of the package is
 * the version. The parts before it end in the group's labels (`edge.example.com.v1`), in the same labels backwards
 * (`com.example.edge.v1`), or in the first of them (`k8s.io.api.rbac.v1` for `rbac.authorization.k8s.io/v1`); the core
 * group is `core`. A `-` in a group is a `_` in a package.
 */
export function isPackageOf(packageName: string, apiVersion: string): boolean {
  const slash = apiVersion.lastIndexOf('/')
  const group = slash === -1 ? 'core' : apiVersion.slice(0, slash).replaceAll('-', '_')
  const labels = group.split('.')
  const parts = packageName.split('.')
  if (parts.pop() !== apiVersion.slice(slash + 1)) return false
  const before = `.${parts.join('.')}`
  return [group, labels.toReversed().join('.'), labels[0]!].some((end) => before.endsWith(`.${end}`))
}

/** Replaces the version, which is the last part of both a package and an apiVersion. */
function inVersion(name: string, version: string): string {
  return name.replace(/\w+$/, version)
}

export class Schema {
  private readonly messages = new Map<string, Message>()
  /** Messages by apiVersion, then by kind. */
  private readonly kinds = new Map<string, Map<string, Message>>()

  private constructor(
    private readonly lines: ReadonlyMap<string, string>,
    private readonly packageOf: ReadonlyMap<string, string>,
    private readonly aliases: ReadonlyMap<string, string>,
    private readonly explicitKinds: ReadonlyMap<string, string>,
    private readonly addedPackages: ReadonlySet<string>,
  ) {}

  /** Parses a table in the notation above. @throws SyntaxError when a line does not follow it. */
  static parse(text: string): Schema {
    const lines = new Map<string, string>()
    const packageOf = new Map<string, string>()
    const aliases = new Map<string, string>()
    let packages: string[] = []
    for (const line of text.split('\n')) {
      if (line === '' || line.startsWith('#')) continue
      const [first = '', name = '', second = ''] = line.split(' ')
      if (first === '=') aliases.set(name, second)
      else if (first === '@') {
        packages = []
        for (const group of line.slice('@ '.length).split(' @ ')) {
          const [ofGroup = '', apiVersion = '', ...others] = group.split(' ')
          for (const one of [ofGroup, ...others.map((version) => inVersion(ofGroup, version))]) {
            packageOf.set(inVersion(apiVersion, one.slice(one.lastIndexOf('.') + 1)), one)
            packages.push(one)
          }
        }
      } else for (const one of packages) lines.set(`${one}.${/^\w+/.exec(first)?.[0]}`, line)
    }
    return new Schema(lines, packageOf, aliases, new Map(), new Set())
  }

  /** Returns this schema with other messages added to it or replacing its own. */
  with({ messages, packages, kinds }: SchemaAdditions): Schema {
    const result = new Schema(
      this.lines,
      this.packageOf,
      this.aliases,
      new Map([...this.explicitKinds, ...kinds]),
      new Set([...this.addedPackages, ...packages]),
    )
    for (const [name, message] of this.messages) result.messages.set(name, message)
    for (const message of messages) result.messages.set(message.fullName, message)
    return result
  }

  /**
   * Returns the message of a kind, undefined for a kind without a schema.
   *
   * @param apiVersion as in the envelope: `v1`, `apps/v1`.
   */
  messageOfKind(apiVersion: string, kind: string): Message | undefined {
    const known = this.kinds.get(apiVersion)?.get(kind)
    if (known !== undefined) return known
    const found = this.findKind(apiVersion, kind)
    // Some kinds exist in every apiVersion, and those come from clients and stored bytes.
    if (found === undefined || apiVersion.length > MAX_KNOWN_LENGTH) return found
    if (this.kinds.size >= MAX_KNOWN_VERSIONS) this.kinds.clear()
    getOrMake(this.kinds, apiVersion, () => new Map<string, Message>()).set(kind, found)
    return found
  }

  private findKind(apiVersion: string, kind: string): Message | undefined {
    const explicit = this.explicitKinds.get(`${apiVersion}/${kind}`)
    if (explicit !== undefined) return this.message(explicit)
    for (const added of this.addedPackages) {
      const message = isPackageOf(added, apiVersion) ? this.message(`${added}.${kind}`) : undefined
      if (message?.isKind === true) return message
    }
    const packageName = this.packageOf.get(apiVersion)
    const own = packageName === undefined ? undefined : this.message(`${packageName}.${kind}`)
    if (own?.isKind === true) return own
    // Status, WatchEvent and the options are registered in every group's version.
    const common = this.message(`${META_PACKAGE}.${kind}`)
    const isCommon = common !== undefined && (common.isKind || kind === 'Status' || kind === 'WatchEvent')
    return isCommon ? common : undefined
  }

  /** Returns a message by its full name, such as `k8s.io.api.core.v1.Pod`. */
  message(fullName: string): Message | undefined {
    const known = this.messages.get(fullName)
    if (known !== undefined) return known
    const line = this.lines.get(fullName)
    if (line === undefined) return undefined
    const message = this.parseMessage(fullName, line)
    this.messages.set(fullName, message)
    return message
  }

  private parseMessage(fullName: string, line: string): Message {
    const [head = '', ...fields] = line === '' ? NO_FIELDS : line.split(' ')
    const mark = head.replace(/^\w+/, '')
    const packageName = fullName.slice(0, fullName.lastIndexOf('.'))
    return {
      fullName,
      form: mark === '[]' ? 'items' : mark.startsWith('|') ? 'either' : 'object',
      isKind: mark === '*',
      fields: fields.map((field) => this.parseField(field, packageName)),
    }
  }

  private parseField(text: string, packageName: string): Field {
    const match = /^([^:?]*)(\?{0,2}):(\d+):(\*|\[\]|\{\})?(.+)$/.exec(text)
    if (match === null) throw new SyntaxError(`${text} is not a field of the schema's notation`)
    const [, jsonName = '', omit, number, label, type = ''] = match
    const slash = type.lastIndexOf('/')
    const isMessage = slash !== -1 || /^[A-Z]/.test(type)
    const prefix = slash === -1 ? packageName : (this.aliases.get(type.slice(0, slash)) ?? type.slice(0, slash))
    return {
      number: Number(number),
      jsonName,
      isOmittedWhenEmpty: omit !== '',
      isOmittedWhenZero: omit === '??',
      label: label === '*' ? 'pointer' : label === '[]' ? 'repeated' : label === '{}' ? 'map' : 'value',
      type: isMessage ? 'message' : (type as ScalarType | SpecialType),
      messageName: isMessage ? `${prefix}.${type.slice(slash + 1)}` : '',
      keyType: 'string',
      enumNames: null,
    }
  }
}

/** The table's file. The compiler does not copy it, and `npm run generate:schema` makes it. */
const SCHEMA_FILE = 'src/kubernetes/codec/protobuf/kubernetes-schema.txt'

let builtIn: Schema | null = null

/** The built-in kinds of Kubernetes, back to the versions of 1.16. */
export function kubernetesSchema(): Schema {
  builtIn ??= Schema.parse(readPackageFile(SCHEMA_FILE).toString('utf8'))
  return builtIn
}
