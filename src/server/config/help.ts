/** Presents the option table as `--help`. */
import { formatBytes, formatDuration } from './option.js'
import { type Option, type OptionName, optionNames, options } from './options.js'

/** Returns a range such as `1s – 24h` or `expire | coalesce`; null if every value of the kind is allowed. */
export function rangeOf(option: Option<unknown>): string | null {
  if (option.choices !== null) return option.choices.join(' | ')
  if (option.min === null || option.max === null) return null
  const show = option.kind === 'bytes' ? formatBytes : option.kind === 'duration' ? formatDuration : String
  return `${show(option.min)} – ${show(option.max)}`
}

const HELP_COLUMNS = 100
const INDENT = '        '

/** The options that most servers set, listed by `--help`; `--help all` lists every one. */
const FIRST: ReadonlySet<OptionName> = new Set([
  'etcdServers',
  'etcdPrefix',
  'etcdCafile',
  'etcdCertfile',
  'etcdKeyfile',
  'upstream',
  'passthrough',
  'natsServers',
  'bindAddress',
  'port',
  'enableWrites',
  'workers',
  'tlsCertFile',
  'tlsPrivateKeyFile',
  'resource',
  'watchCacheBytes',
  'clientCaFile',
  'tokenAuthFile',
  'authorizationMode',
  'config',
])

/** The flags that mean what they mean to kube-apiserver. */
const AS_IN_KUBE_APISERVER: ReadonlySet<OptionName> = new Set([
  'etcdServers',
  'etcdServersOverrides',
  'etcdPrefix',
  'etcdCafile',
  'etcdCertfile',
  'etcdKeyfile',
  'encryptionProviderConfig',
  'proxyClientCertFile',
  'proxyClientKeyFile',
  'bindAddress',
  'securePort',
  'corsAllowedOrigins',
  'http2MaxStreamsPerConnection',
  'goawayChance',
  'tlsCertFile',
  'tlsPrivateKeyFile',
  'tlsMinVersion',
  'watchCache',
  'watchCacheSizes',
  'minRequestTimeout',
  'requestTimeout',
  'shutdownDelayDuration',
  'shutdownWatchTerminationGracePeriod',
  'clientCaFile',
  'tokenAuthFile',
  'oidcIssuerUrl',
  'oidcClientId',
  'oidcCaFile',
  'oidcUsernameClaim',
  'oidcUsernamePrefix',
  'oidcGroupsClaim',
  'oidcGroupsPrefix',
  'oidcSigningAlgs',
  'serviceAccountIssuer',
  'serviceAccountKeyFile',
  'apiAudiences',
  'authenticationTokenWebhookCacheTtl',
  'requestheaderClientCaFile',
  'requestheaderAllowedNames',
  'requestheaderUsernameHeaders',
  'requestheaderGroupHeaders',
  'requestheaderExtraHeadersPrefix',
  'anonymousAuth',
  'authorizationMode',
  'authorizationWebhookCacheAuthorizedTtl',
  'authorizationWebhookCacheUnauthorizedTtl',
  'auditLogPath',
])

/** Rarely set options come last; before them, those that kube-apiserver has too. */
const LAST = ['As in kube-apiserver', 'Only in the file of --config']

function headingOf(name: OptionName): string {
  if (options[name].isFileOnly === true) return LAST[1]!
  return AS_IN_KUBE_APISERVER.has(name) ? LAST[0]! : options[name].group
}

export function helpText(which: 'first' | 'all'): string {
  const heading = (name: OptionName): string => (which === 'all' ? headingOf(name) : options[name].group)
  const names = optionNames
    .filter((name) => which === 'all' || FIRST.has(name))
    .toSorted((a, b) => LAST.indexOf(heading(a)) - LAST.indexOf(heading(b)))
  const lines = [
    'distributary: watch fan-out proxy and edge cache for etcd, with the list and watch API of Kubernetes',
    '',
    'Usage: distributary [flags]           run the server',
    '       distributary COMMAND …         run a command (listed at the end)',
    '',
    ...wrap(
      'Every flag can also be set by an environment variable (--etcd-servers by DISTRIBUTARY_ETCD_SERVERS) and by its YAML key in the --config file (etcdServers). A flag takes precedence over the environment, the environment over the file.',
      '',
    ),
  ]
  let last = ''
  for (const name of names) {
    const option: Option<unknown> = options[name]
    if (heading(name) !== last) lines.push('', `${heading(name)}:`)
    last = heading(name)
    lines.push(`  ${usage(name)}`, ...wrap(option.doc + facts(option), INDENT))
  }
  lines.push('', '  --help [all]')
  lines.push(`${INDENT}Show this text; all adds the other ${optionNames.length - FIRST.size} options.`)
  lines.push('  --version', `${INDENT}Show the version.`)
  return `${lines.join('\n')}\n`
}

const PLACEHOLDERS: Readonly<Record<Option<unknown>['kind'], string>> = {
  boolean: '',
  integer: ' N',
  fraction: ' N',
  bytes: ' SIZE',
  duration: ' DURATION',
  string: ' TEXT',
  choice: ' CHOICE',
  file: ' FILE',
  list: ' ITEM,…',
}

function usage(name: OptionName): string {
  const { kind, flag } = options[name]
  return `${flag}${PLACEHOLDERS[kind]}`
}

function facts(option: Option<unknown>): string {
  const range = rangeOf(option)
  const parts = [
    ...(range === null
      ? []
      : [`${range}${option.unit === null || option.kind !== 'integer' ? '' : ` ${option.unit}`}`]),
    ...(option.defaultText === null ? [] : [`default ${option.defaultText}`]),
  ]
  return parts.length === 0 ? '' : ` (${parts.join('; ')})`
}

function wrap(text: string, indent: string): string[] {
  const lines: string[] = []
  let line = indent
  for (const word of text.split(' ')) {
    if (line.length + word.length > HELP_COLUMNS && line.trim() !== '') {
      lines.push(line.trimEnd())
      line = indent
    }
    line += `${word} `
  }
  return [...lines, line.trimEnd()]
}
