/** Measures what Node itself costs: `socket.write` of one shared, pre-framed buffer (see `bare-node-server.ts`). */
import { fileURLToPath } from 'node:url'
import { start } from '../support/processes.js'
import { selfDriven } from '../support/source.js'
import type { SubjectKind } from './subject.js'

const program = fileURLToPath(new URL('bare-node-server.js', import.meta.url))

export const bareNodeSubject: SubjectKind = {
  name: 'bare-node',
  wires: ['http1', 'http1-tls'],
  etcd: 'none',
  isAvailable: () => true,
  async start({ workspace, wire }) {
    const isTls = wire === 'http1-tls'
    const { certFile, keyFile } = isTls ? workspace.tls() : { certFile: '', keyFile: '' }
    const child = start('bare-node', 'server', [process.execPath, program, certFile, keyFile])
    const port = await child.line((text) => /"port":(\d+)/.exec(text)?.[1], 10_000)
    return {
      name: 'bare-node',
      wire,
      pid: child.pid,
      streams: 1,
      watch: () => ({ port: Number(port), path: '/', tls: isTls }),
      source: selfDriven(child),
      end: () => child.end(),
    }
  },
}
