/** The server of a file in ci/, as a process. */
import type { Test } from 'tap'
import { modeValues, renderChart, type Release, RELEASE } from './chart.js'
import { type Placement, placeContainer, readdress } from './machine.js'
import { type ServerProcess, startServerProcess } from './server-process.js'

const MODES = modeValues()

/** The addresses at which it listens here, with TLS and without. */
export const https = { bindAddress: '127.0.0.1', securePort: 0 }
export const plain = { bindAddress: '127.0.0.1', port: 0 }

/** Returns when it is ready. @param addresses replace those of a cluster in its configuration. */
export async function startMode(
  t: Test,
  mode: string,
  placement: Omit<Placement, 'objects' | 'replace'>,
  addresses: Readonly<Record<string, unknown>>,
  release: Release = RELEASE,
): Promise<ServerProcess> {
  const { objects } = renderChart(MODES.get(mode)!, { release })
  const replace = (text: string): string => (text.includes('bindAddress:') ? readdress(text, addresses) : text)
  const { args, environment, scheme } = placeContainer(t, 'distributary', { ...placement, objects, replace })
  return startServerProcess(t, { args, environment, scheme })
}
