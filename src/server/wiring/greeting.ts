/** Prints the addresses on which the server listens, and commands to try. */
import { keyToText } from '../../engine/model/event.js'
import { apiVersion } from '../../engine/model/resource.js'
import type { Config } from '../config/load.js'
import { describeResources, describeSource, urlHost } from './describe-config.js'
import type { PortNumbers } from './ports.js'

export function greeting(config: Config, { port, securePort }: PortNumbers): string {
  const host = urlHost(config.bindAddress)
  const plain = port === null ? null : `http://${host}:${port}`
  const secure = securePort === null ? null : `https://${host}:${securePort}`
  const urls = [plain, secure].filter((url) => url !== null)
  const lines = [
    `distributary serves ${describeResources(config)}, from ${describeSource(config)} on ${urls.join(' and ')}`,
  ]
  const [page] = urls
  if (page !== undefined) lines.push('', `In a browser: ${page}/ui/`)
  const declared = config.resources.filter(({ origin }) => origin === 'declared')
  if (page !== undefined && declared.length > 0) {
    lines.push('', 'Declared prefixes:')
    for (const { resource } of declared) {
      const root = resource.group === '' ? 'api' : 'apis'
      const url = `${page}/${root}/${apiVersion(resource)}/${resource.plural}`
      lines.push(`  ${keyToText(resource.etcdPrefix)} is ${url}`)
    }
  }
  lines.push('', 'Try:')
  if (plain !== null) {
    lines.push(`  kubectl -s ${plain} get pods -A`)
    lines.push(`  kubectl -s ${plain} get pods -A -w`)
    lines.push(`  curl -N '${plain}/api/v1/pods?watch=1'`)
    lines.push(`  curl -s '${plain}/readyz?verbose'`)
  }
  if (secure !== null) {
    lines.push(`  curl -N --http2 '${secure}/api/v1/pods?watch=1'`)
    lines.push(`  curl -s '${secure}/readyz?verbose'`)
  }
  return lines.join('\n')
}
