/** What a first run prints: what is served, and lines to try. */
import type { Config } from './config/load.js'

export function greeting(config: Config, port: number | null): string {
  const lines: string[] = []
  const host = config.bindAddress.includes(':') ? `[${config.bindAddress}]` : config.bindAddress
  const source = config.embedded ? 'the embedded sample cluster' : config.etcdServers.join(', ')
  if (port === null) return `distributary serves ${config.resources.length} resources of ${source}`
  const url = `http://${host}:${port}`
  lines.push(`distributary serves ${config.resources.length} resources of ${source} on ${url}`)
  lines.push('', 'Try:')
  lines.push(`  kubectl -s ${url} get pods -A`)
  lines.push(`  kubectl -s ${url} get pods -A -w`)
  lines.push(`  curl -N '${url}/api/v1/pods?watch=1'`)
  lines.push(`  curl -s ${url}/readyz?verbose`)
  return lines.join('\n')
}
