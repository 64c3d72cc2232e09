/**
 * helm/distributary/README.md: a row for each value, with its type from the schema, its default, and its comment in
 * values.yaml. A description begins with `# --`, as in helm-docs; without it, a comment above a group of values
 * describes the group.
 */
import { isMap, isScalar, type Pair, parseDocument, type YAMLMap } from 'yaml'
import { supportedNats } from '../ops/support/versions.js'

interface Schema {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Schema>>
}

export interface ChartSources {
  readonly values: string
  readonly schema: string
  /** Chart.yaml. */
  readonly chart: string
  /** The first comment of each file in ci/, by name. */
  readonly modes: ReadonlyMap<string, string>
}

interface Row {
  readonly key: string
  readonly type: string
  readonly value: string
  readonly description: string
}

export function chartPage({ values, schema, chart, modes }: ChartSources): string {
  const { version, appVersion, description } = parseDocument(chart).toJS() as Record<string, string>
  const rows = rowsOf(parseDocument(values).contents as YAMLMap, JSON.parse(schema) as Schema, '')
  return [
    '# distributary',
    '',
    '<!-- Generated from values.yaml, values.schema.json, Chart.yaml and ci/ by `npm run generate`. -->',
    '',
    `${description}. Chart ${version}, server ${appVersion}.`,
    '',
    '```sh',
    "helm install distributary helm/distributary --set 'config.etcdServers={https://etcd:2379}' \\",
    '  --set etcd.tlsSecretName=etcd-client --set tls.enabled=true --set tls.secretName=server \\',
    "  --set tls.clientCaSecretName=clients --set 'config.authorizationMode={RBAC}'",
    '```',
    '',
    '## Ways to use it',
    '',
    'Each file has the values for one mode. Tests render them all, and start the server with the arguments of the rendered pods.',
    '',
    '| values | |',
    '| --- | --- |',
    ...[...modes].map(([name, text]) => `| [\`ci/${name}.yaml\`](ci/${name}.yaml) | ${cell(firstComment(text))} |`),
    '',
    '## The NATS of a fleet',
    '',
    '`nats.enabled` installs three servers with JetStream. The chart creates passwords and certificates at the first install, and keeps them',
    'across upgrades. `helm template` and most GitOps tools render without the cluster and would create new ones each time. With these tools, set',
    '`nats.auth.secretName` and `nats.tls.secretName`. To replace generated credentials, delete the Secret, upgrade, and restart the pods.',
    '',
    "Install edges as a second release in the same namespace, with `natsRole: edge` and the first release's Secrets (`ci/edge.yaml`). Their",
    'user may read and send requests, but not publish. For edges in another namespace, copy only `edge-password` and `ca.crt` from the',
    'Secrets, and admit the pods with `nats.networkPolicy.from`.',
    '',
    `The chart works with NATS ${supportedNats().join(' to ')}. A StatefulSet cannot change the size of its volumes: to increase \`nats.storage\`,`,
    'resize the claims, delete the StatefulSet with `--cascade=orphan`, and upgrade. Existing streams keep their limits.',
    '',
    '## Values',
    '',
    '| value | type | default | |',
    '| --- | --- | --- | --- |',
    ...rows.map(({ key, type, value, description }) => `| \`${key}\` | ${type} | ${value} | ${cell(description)} |`),
    '',
  ].join('\n')
}

function rowsOf(map: YAMLMap, schema: Schema, prefix: string): Row[] {
  // The comment of the first key in a block belongs to the block itself.
  const first = map.commentBefore ?? ''
  return map.items.flatMap((pair, i) => {
    const { key: node, value } = pair as Pair
    if (!isScalar(node)) return []
    const name = String(node.value)
    const key = prefix + name
    const inner = schema.properties?.[name] ?? {}
    const comment = (i === 0 ? first : '') + (node.commentBefore ?? '')
    const text = describe(comment)
    const isGroup = isMap(value) && value.items.length > 0 && inner.properties !== undefined && name !== 'config'
    if (isGroup) {
      const rows = rowsOf(value, inner, `${key}.`)
      return text === '' ? rows : [{ key, type: 'object', value: '', description: text }, ...rows]
    }
    const json = JSON.stringify((value as { toJSON(): unknown } | null)?.toJSON() ?? null)
    return [{ key, type: typeOf(inner), value: `\`${json.replaceAll('|', '\\|')}\``, description: text }]
  })
}

/** The comment's paragraph that ends above the key, without its mark. */
function describe(comment: string): string {
  const text = comment
    .split('\n')
    .map((line) => line.trim())
    .join(' ')
    .trim()
  const at = text.lastIndexOf('-- ')
  return at === -1 ? text : text.slice(at + 3)
}

function typeOf({ type, enum: choices }: Schema): string {
  if (choices !== undefined) return choices.map((choice) => `\`${JSON.stringify(choice)}\``).join(', ')
  return typeof type === 'string' ? type : (type ?? []).join(' or ')
}

function firstComment(text: string): string {
  return /^# (.*)$/m.exec(text)?.[1] ?? ''
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|')
}
