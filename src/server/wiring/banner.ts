/** Prints the addresses on which the server listens, and commands to try. */
import { type Key, keyToText } from '../../engine/model/event.js'
import { apiVersion, type ApiResource, resourceId } from '../../kubernetes/model/api-resource.js'
import type { StateReader } from '../../engine/upstream/upstream.js'
import type { Config } from '../config/load.js'
import { authenticatorsOf } from '../config/relations.js'
import { declaredIn, describeKeys, describeResources, describeSource, urlHost } from './describe-config.js'
import type { PortNumbers } from './ports.js'

/** The banner does not wait longer for an etcd that does not answer. */
const COUNT_MS = 1_000

/** Counts the keys of the declared prefixes, as far as etcd answers. */
export async function countDeclared(config: Config, upstream: StateReader): Promise<ReadonlyMap<Key, number>> {
  const counts = new Map<Key, number>()
  const signal = AbortSignal.timeout(COUNT_MS)
  for (const { resource } of declaredIn(config)) {
    const prefix = resource.etcdPrefix
    const page = await upstream.read({ prefix, limit: 1, keysOnly: true, signal }).catch(() => null)
    if (page === null) break
    counts.set(prefix, page.count)
  }
  return counts
}

/**
 * @param isKubernetesServed as in `describeResources`.
 * @param counts the numbers of keys by prefix, as far as they are known.
 */
export function banner(
  config: Config,
  { port, securePort }: PortNumbers,
  isKubernetesServed: boolean,
  counts: ReadonlyMap<Key, number>,
): string {
  const host = urlHost(config.bindAddress)
  const plain = port === null ? null : `http://${host}:${port}`
  const secure = securePort === null ? null : `https://${host}:${securePort}`
  const urls = [plain, secure].filter((url) => url !== null)
  const lines = [
    `distributary listens on ${urls.join(' and ')} and reads ${describeSource(config)}, to serve ${describeResources(config, isKubernetesServed)}`,
  ]
  const [page] = urls
  const login = loginOf(config)
  if (page !== undefined) lines.push('', `In a browser: ${page}/ui/${login.page}`)
  const declared = declaredIn(config)
  if (page !== undefined && declared.length > 0) {
    lines.push('', 'Declared prefixes:')
    for (const { resource } of declared) {
      const count = counts.get(resource.etcdPrefix)
      const keys = count === undefined ? '' : ` (${describeKeys(count)})`
      lines.push(`  ${keyToText(resource.etcdPrefix)} is ${page}${pathOf(resource)}${keys}`)
    }
  }
  lines.push('', `Try${login.what}:`)
  const isOnlyDeclared = !isKubernetesServed || config.kubernetesResources === 'never'
  const example = isOnlyDeclared ? declared[0]?.resource : undefined
  const path = example === undefined ? '/api/v1/pods' : pathOf(example)
  const named = example === undefined ? 'pods' : resourceId(example)
  const all = example?.namespaced === false ? '' : ' -A'
  // kubectl sends no credential over plain HTTP.
  const forKubectl = login.kubectl === '' ? plain : secure
  if (forKubectl !== null) {
    lines.push(`  kubectl -s ${forKubectl}${login.kubectl} get ${named}${all}`)
    lines.push(`  kubectl -s ${forKubectl}${login.kubectl} get ${named}${all} -w`)
  }
  if (plain !== null) {
    lines.push(`  curl -N${login.curl} '${plain}${path}?watch=1'`)
    lines.push(`  curl -s '${plain}/readyz?verbose'`)
  }
  if (secure !== null) {
    lines.push(`  curl -N --http2${login.curl} '${secure}${path}?watch=1'`)
    lines.push(`  curl -s '${secure}/readyz?verbose'`)
  }
  return lines.join('\n')
}

interface Login {
  /** What a browser needs. */
  readonly page: string
  readonly what: string
  readonly kubectl: string
  readonly curl: string
}

/** The credentials that callers must send. A client certificate needs TLS, so it is no way in where a token can be used as well. */
function loginOf(config: Config): Login {
  const known = authenticatorsOf(config)
  if (known.length === 0) return { page: '', what: '', kubectl: '', curl: '' }
  const isByToken = known.some((name) => name !== 'clientCaFile' && name !== 'requestheaderClientCaFile')
  if (isByToken) {
    return {
      page: ' (it asks for a token)',
      what: ', with a token in $TOKEN',
      kubectl: ' --token="$TOKEN"',
      curl: ' -H "Authorization: Bearer $TOKEN"',
    }
  }
  return {
    page: ' (with a client certificate)',
    what: ', with a client certificate',
    kubectl: ' --client-certificate=client.crt --client-key=client.key',
    curl: ' --cert client.crt --key client.key',
  }
}

function pathOf(resource: ApiResource): string {
  return `/${resource.group === '' ? 'api' : 'apis'}/${apiVersion(resource)}/${resource.plural}`
}
