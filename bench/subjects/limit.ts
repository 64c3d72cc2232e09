/** The limit: a C `send` loop of the same bytes to the same number of sockets (see `native/send-loop.c`). */
import { writeFileSync } from 'node:fs'
import { benchObjects, MAGIC, pods } from '../support/objects.js'
import { nativeProgram } from '../support/native.js'
import { start } from '../support/processes.js'
import { selfDriven } from '../support/source.js'
import type { SubjectKind } from './subject.js'

/**
 * Returns one MODIFIED event as an HTTP/1.1 chunk, with the bytes that a Kubernetes watch would carry for such an
 * object.
 */
export function framedEvent(objectBytes: number): { readonly bytes: Buffer; readonly mark: number } {
  const object = benchObjects(pods, { count: 1, nodes: 1, bytes: objectBytes })[0]
  if (!object?.value) throw new Error('no object')
  const line = `{"type":"MODIFIED","object":${object.value.toString('latin1')}}\n`
  const bytes = Buffer.from(`${line.length.toString(16)}\r\n${line}\r\n`)
  return { bytes, mark: bytes.indexOf(MAGIC) }
}

export const limitSubject: SubjectKind = {
  name: 'limit',
  wires: ['http1'],
  etcd: 'none',
  isAvailable: () => true,
  async start({ workspace, wire, watchers }) {
    const { bytes, mark } = framedEvent(1024)
    const file = workspace.path('event.bin')
    writeFileSync(file, bytes)
    const child = start('send-loop', 'server', [nativeProgram('send-loop'), String(watchers), file, String(mark)])
    const port = await child.line((text) => /"port":(\d+)/.exec(text)?.[1], 10_000)
    return {
      name: 'limit',
      wire,
      pid: child.pid,
      streams: 1,
      watch: () => ({ port: Number(port), path: '/' }),
      source: selfDriven(child),
      end: () => child.end(),
    }
  },
}
