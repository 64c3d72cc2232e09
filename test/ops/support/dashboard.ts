/** Reads the Grafana dashboard as Grafana does. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './server-process.js'

export interface Panel {
  readonly title: string
  readonly type: 'row' | 'stat' | 'timeseries'
  /** In a grid of 24 columns; a row is 30 pixels high. */
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } }
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[]
}

interface Dashboard {
  readonly panels: readonly Panel[]
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly query: string | { readonly query: string } }[]
  }
}

export function readDashboard(): Dashboard {
  return JSON.parse(readFileSync(join(root, 'deploy/grafana/distributary.json'), 'utf8')) as Dashboard
}

/** A query with its variables replaced as if "All" were selected everywhere. @param interval of rates. */
export function filledIn(expression: string, interval: string): string {
  return expression
    .replaceAll('$__rate_interval', interval)
    .replaceAll(/\$(job|instance|resource|group|namespace|cluster)\b/g, '.*')
}
