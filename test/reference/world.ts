/**
 * One etcd with Kubernetes' API server ("theirs") and distributary ("ours") over it, each in its own process. All
 * writes go through theirs, as in a cluster, except values that no current API server would write.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import type { EtcdProcess } from '../support/etcd-process.js'
import { freePort } from '../support/free-port.js'
import { startServer } from '../support/server-process.js'
import { type Answer, ask, type Server, serverAt } from './ask.js'
import { ADMIN, ISSUER, type Running, startApiServer, startControllers, writeKubeconfig } from './control-plane.js'
import { type Definition, definitionObject, definitionSpec } from '../support/definition.js'
import type { Stored } from './definition-set.js'
import { printLossless } from './lossless.js'
import type { KubernetesRelease, Programs } from './programs.js'
import type { Posted } from './objects.js'

export interface World {
  /** The source that distributary reads. */
  readonly behind: 'etcd' | 'api-server'
  /** The release of the API server. */
  readonly release: KubernetesRelease
  readonly etcd: EtcdProcess
  /** The etcd of the resources in `IN_OTHER_ETCD`; null if they are in the same one. */
  readonly other: EtcdProcess | null
  readonly ours: Server
  readonly theirs: Server
  /** Starts the controllers and the scheduler. */
  startControllers(): void
  /** Returns the end of each program's output. */
  controllerLogs(): readonly string[]
  /** Restarts distributary, as an upgrade would. */
  restartOurs(): Promise<void>
}

/** The resources that `--other-etcd` places in a second etcd, with their groups. Operators split clusters like this. */
const IN_OTHER_ETCD: Readonly<Record<string, string>> = { events: '', leases: 'coordination.k8s.io', pods: '' }

export interface WorldOptions extends Pick<World, 'behind' | 'etcd' | 'other'> {
  readonly programs: Programs
  /** Whether custom resources are stored in CBOR. */
  readonly isCbor: boolean
}

/** @param t used only for teardown. */
export async function startWorld(t: Test, { etcd, other, programs, behind, isCbor }: WorldOptions): Promise<World> {
  const overrides = Object.entries(IN_OTHER_ETCD).map(([plural, group]) => `${group}/${plural}#${other?.url}`)
  const others = other === null ? [] : [`--etcd-servers-overrides=${overrides.join()}`]
  const { release } = programs
  const gates = isCbor ? ['--feature-gates=CBORServingAndStorage=true'] : []
  const apiServer = await startApiServer(t, etcd.url, programs['kube-apiserver'], [...others, ...gates], { release })
  const port = await freePort()
  const kubeconfig = writeKubeconfig(apiServer)
  const source =
    behind === 'etcd'
      ? [
          `--etcd-servers=${etcd.url}`,
          ...others,
          '--backfill-revisions=100000',
          '--resource=secrets,api/all',
          '--authorization-mode=Node,RBAC',
        ]
      : [
          `--upstream=https://127.0.0.1:${apiServer.server.port}`,
          `--kubeconfig=${kubeconfig}`,
          '--resource=secrets',
          '--authorization-mode=Webhook',
          `--authorization-kubeconfig=${kubeconfig}`,
        ]
  const flags = [
    `--port=${port}`,
    // The comparison is a single client that sends more than a thousand requests a second.
    '--requests-per-second=100000',
    ...source,
    `--token-auth-file=${apiServer.tokenFile}`,
    `--service-account-issuer=${ISSUER}`,
    `--authentication-kubeconfig=${kubeconfig}`,
  ]
  let server = await startServer(t, { flags })
  let controllers: readonly Running[] = []
  return {
    behind,
    release,
    etcd,
    other,
    theirs: apiServer.server,
    ours: serverAt('ours', server.url, ADMIN),
    startControllers() {
      controllers = startControllers(t, apiServer, programs)
    },
    controllerLogs: () => controllers.map((one) => one.log()),
    async restartOurs() {
      await server.kill('SIGTERM')
      server = await startServer(t, { flags })
    },
  }
}

/** @throws Error that says what did not happen. */
export async function eventually(isSo: () => Promise<boolean>, what: string, withinMs = 60_000): Promise<void> {
  const deadline = Date.now() + withinMs
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`)
    await delay(50)
  }
}

export async function get(server: Server, path: string): Promise<Answer> {
  return await ask(server, { method: 'GET', path, headers: { accept: 'application/json' } })
}

/** Writes through the API server. @throws Error with its response when it rejects the write. */
export async function send(world: World, method: string, path: string, body: string): Promise<Answer> {
  const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
  const headers = { 'content-type': type, accept: 'application/json' }
  const answer = await ask(world.theirs, { method, path, headers }, Buffer.from(body))
  if (answer.code >= 300) throw new Error(`${method} ${path}: ${answer.code} ${answer.body.toString()} for ${body}`)
  return answer
}

const DEFINITIONS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'

export async function deleteDefinition(world: World, { plural, group }: Definition): Promise<void> {
  const path = `${DEFINITIONS}/${plural}.${group}`
  await send(world, 'DELETE', path, '{}')
  // The definition's finalizer deletes all its objects first.
  await eventually(async () => (await get(world.theirs, path)).code === 404, `${plural} is gone`)
}

export async function createDefinition(world: World, definition: Definition): Promise<void> {
  await send(world, 'POST', DEFINITIONS, printLossless(definitionObject(definition)))
}

/** Replaces the definition, whatever its resourceVersion. */
export async function changeDefinition(world: World, definition: Definition): Promise<void> {
  const path = `${DEFINITIONS}/${definition.plural}.${definition.group}`
  // The server's own controllers write the status in the meantime: retry with the newest version.
  await eventually(async () => {
    const now = JSON.parse((await get(world.theirs, path)).body.toString()) as { metadata: object }
    const body = Buffer.from(printLossless({ ...now, spec: definitionSpec(definition) }))
    const headers = { 'content-type': 'application/json', accept: 'application/json' }
    const answer = await ask(world.theirs, { method: 'PUT', path, headers }, body)
    if (answer.code !== 200 && answer.code !== 409) throw new Error(`PUT ${path}: ${answer.body.toString()}`)
    return answer.code === 200
  }, `${definition.plural} is changed`)
}

/**
 * Waits until theirs serves exactly the versions that it should, and ours does too. Ours gets no more time than its
 * definitions take: remaining differences are for the comparison to show.
 */
export async function untilServed(world: World, served: readonly Definition[]): Promise<void> {
  const doesServe = async (server: Server, { group, plural, versions }: Definition): Promise<boolean> => {
    for (const { name, served: isServed = true } of versions) {
      // A list that cannot be shown still counts as served: it is not a 404.
      const { code } = await get(server, `/apis/${group}/${name}/${plural}?limit=1`)
      // 429: its storage is being rebuilt.
      if ((code !== 404) !== isServed || code === 429) return false
    }
    return true
  }
  for (const definition of served) {
    await eventually(() => doesServe(world.theirs, definition), `the API server serves ${definition.plural}`)
    const deadline = Date.now() + 5_000
    while (!(await doesServe(world.ours, definition)) && Date.now() < deadline) await delay(50)
  }
}

export async function post(world: World, object: Posted): Promise<void> {
  const answer = await send(world, 'POST', object.path, object.body)
  const { metadata } = JSON.parse(answer.body.toString()) as { metadata: { name: string } }
  const path = `${object.path}/${metadata.name}`
  if (object.status !== undefined) await send(world, 'PATCH', `${path}/status`, object.status)
  if (object.isDeleted) await send(world, 'DELETE', path, '{}')
}

/** @returns its revision. */
export async function store(world: World, { key, value }: Stored): Promise<number> {
  const base64 = (text: string): string => Buffer.from(text).toString('base64')
  const answer = await world.etcd.call('kv/put', { key: base64(`/registry/${key}`), value: base64(value) })
  return Number((answer as { header: { revision: string } }).header.revision)
}

/** @returns the revision of the etcd that has the resource. */
export async function revisionFor({ etcd, other }: World, plural: string): Promise<number> {
  const owner = other !== null && plural in IN_OTHER_ETCD ? other : etcd
  const { header } = (await owner.call('kv/range', { key: 'AA==' })) as { header: { revision: string } }
  return Number(header.revision)
}
