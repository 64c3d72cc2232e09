/**
 * The NATS servers of a rendered release, as processes with their own configuration, command line, environment and
 * files.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { freePort } from '../../support/free-port.js'
import { natsBinary } from '../../support/nats-process.js'
import type { KubernetesObject } from './kubernetes-objects.js'
import { type Placement, placeContainer, type Secrets, secretOf } from './machine.js'

export interface ChartNats {
  /** The client URLs, with the scheme of the release. */
  readonly urls: readonly string[]
  /** GETs `/jsz?streams=true&config=true` and the like from the first server. */
  monitor(path: string): Promise<unknown>
}

/** Returns when all are healthy. @param name of the StatefulSet. */
async function startChartNats(t: Test, name: string, count: number, placement: Placement): Promise<ChartNats> {
  const ports = await Promise.all(
    Array.from({ length: count }, async () => ({
      client: await freePort(),
      cluster: await freePort(),
      monitor: await freePort(),
    })),
  )
  const isTls = placement.objects.some((object) => JSON.stringify(object['data'] ?? {}).includes('tls://'))
  const servers = ports.map((own, i) => {
    const replace = (text: string): string =>
      text
        .replaceAll('0.0.0.0:4222', `127.0.0.1:${own.client}`)
        .replaceAll('0.0.0.0:6222', `127.0.0.1:${own.cluster}`)
        .replaceAll('0.0.0.0:8222', `127.0.0.1:${own.monitor}`)
        .replaceAll(/[\w-]+-(\d)\.[\w.-]+\.svc:6222/g, (_, index) => `127.0.0.1:${ports[Number(index)]!.cluster}`)
    const { args, environment } = placeContainer(t, 'nats', { ...placement, podName: `${name}-${i}`, replace })
    const child = spawn(natsBinary, args, { stdio: ['ignore', 'ignore', 'pipe'], env: environment })
    const server = { child, output: '' }
    child.stderr.on('data', (chunk: Buffer) => (server.output = (server.output + chunk.toString()).slice(-5_000)))
    t.teardown(async () => {
      if (child.exitCode !== null) return
      child.kill('SIGKILL')
      await once(child, 'exit')
    })
    return server
  })
  for (const [i, { child }] of servers.entries()) {
    while (!(await isHealthy(ports[i]!.monitor))) {
      if (child.exitCode !== null) throw new Error(`nats-server ended: ${servers[i]!.output}`)
      await delay(50)
    }
  }
  return {
    urls: ports.map(({ client }) => `${isTls ? 'tls' : 'nats'}://127.0.0.1:${client}`),
    monitor: async (path) => (await fetch(`http://127.0.0.1:${ports[0]!.monitor}${path}`)).json(),
  }
}

async function isHealthy(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${port}/healthz`).then(
    (response) => response.ok,
    () => false,
  )
}

export interface FleetNats {
  readonly nats: ChartNats
  /** The existing Secrets, and those that the release has created. */
  readonly secrets: Secrets
}

/** Starts the three servers of the release "fleet". */
export async function startFleetNats(
  t: Test,
  objects: readonly KubernetesObject[],
  secrets: Secrets = {},
): Promise<FleetNats> {
  const nats = await startChartNats(t, 'fleet-distributary-nats', 3, { objects, secrets })
  const made = objects
    .filter(({ kind }) => kind === 'Secret')
    .map(({ metadata }) => [metadata.name, secretOf({ objects }, metadata.name)])
  return { nats, secrets: { ...secrets, ...Object.fromEntries(made) } }
}
