/** Prints the addresses on which the server listens, and commands to try. */
import { keyToText } from '../../engine/model/event.js'
import { apiVersion, type Resource, resourceId } from '../../engine/model/resource.js'
import type { Config } from '../config/load.js'
import { describeResources, describeSource, urlHost } from './describe-config.js'
import type { PortNumbers } from './ports.js'

/** @param isKubernetesServed as in `describeResources`. */
export function greeting(config: Config, { port, securePort }: PortNumbers, isKubernetesServed: boolean): string {
  const host = urlHost(config.bindAddress)
  const plain = port === null ? null : `http://${host}:${port}`
  const secure = securePort === null ? null : `https://${host}:${securePort}`
  const urls = [plain, secure].filter((url) => url !== null)
  const lines = [
    `distributary serves ${describeResources(config, isKubernetesServed)}, from ${describeSource(config)} on ${urls.join(' and ')}`,
  ]
  const [page] = urls
  if (page !== undefined) lines.push('', `In a browser: ${page}/ui/`)
  const declared = config.resources.filter(({ origin }) => origin === 'declared')
  if (page !== undefined && declared.length > 0) {
    lines.push('', 'Declared prefixes:')
    for (const { resource } of declared) {
      lines.push(`  ${keyToText(resource.etcdPrefix)} is ${page}${pathOf(resource)}`)
    }
  }
  lines.push('', 'Try:')
  const isOnlyDeclared = !isKubernetesServed || config.kubernetesResources === 'never'
  const example = isOnlyDeclared ? declared[0]?.resource : undefined
  const path = example === undefined ? '/api/v1/pods' : pathOf(example)
  const named = example === undefined ? 'pods' : resourceId(example)
  const all = example?.namespaced === false ? '' : ' -A'
  if (plain !== null) {
    lines.push(`  kubectl -s ${plain} get ${named}${all}`)
    lines.push(`  kubectl -s ${plain} get ${named}${all} -w`)
    lines.push(`  curl -N '${plain}${path}?watch=1'`)
    lines.push(`  curl -s '${plain}/readyz?verbose'`)
  }
  if (secure !== null) {
    lines.push(`  curl -N --http2 '${secure}${path}?watch=1'`)
    lines.push(`  curl -s '${secure}/readyz?verbose'`)
  }
  return lines.join('\n')
}

function pathOf(resource: Resource): string {
  return `/${resource.group === '' ? 'api' : 'apis'}/${apiVersion(resource)}/${resource.plural}`
}
