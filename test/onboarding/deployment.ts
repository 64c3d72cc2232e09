/**
 * A pod of a Deployment, as the API server admits it and a kubelet sets it up: the variables of the container, and its token
 * directory with the files of the volume that is mounted there.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { API_SERVER, type Cluster, temporaryFolder, tokenOf } from './cluster.js'
import { makePod, type Pod } from './pod.js'

const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'

interface PodSpec {
  readonly serviceAccountName: string
  readonly containers: readonly Container[]
  readonly volumes: readonly Volume[]
}

interface Container {
  readonly name: string
  readonly args?: readonly string[]
  readonly env?: readonly { readonly name: string; readonly value?: string }[]
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[]
}

interface Volume {
  readonly name: string
  readonly projected?: {
    readonly sources: readonly {
      readonly configMap?: { readonly name: string; readonly items: readonly { key: string; path: string }[] }
    }[]
  }
}

export interface Deployment {
  readonly spec: { readonly template: { readonly metadata: object; readonly spec: PodSpec } }
}

export const deploymentOf = (cluster: Cluster, namespace: string, name: string): Deployment =>
  JSON.parse(cluster.kubectl(['get', 'deployment', '-n', namespace, name, '-o', 'json'])) as Deployment

/**
 * @param name the name of the Deployment and of its container.
 * @param addresses where each `HOST:PORT` of the cluster's network is on this machine.
 */
export function podOfDeployment(
  t: Pick<Test, 'teardown'>,
  cluster: Cluster,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  addresses: Readonly<Record<string, string>>,
): Pod {
  const { template } = deploymentOf(cluster, namespace, name).spec
  const pod = { apiVersion: 'v1', kind: 'Pod', ...template, metadata: { ...template.metadata, name, namespace } }
  const args = ['create', '--dry-run=server', '-o', 'json', '-f', '-']
  const { spec } = JSON.parse(cluster.kubectl(args, JSON.stringify(pod))) as { readonly spec: PodSpec }
  const container = spec.containers.find((one) => one.name === name)!
  const variable = (wanted: string): string | undefined => container.env?.find((one) => one.name === wanted)?.value
  const host = variable('KUBERNETES_SERVICE_HOST') ?? API_SERVER
  const address = addresses[`${host}:${variable('KUBERNETES_SERVICE_PORT') ?? '443'}`]
  if (address === undefined) throw new Error(`nothing listens at ${host}`)
  const ca = join(temporaryFolder(t), 'ca.crt')
  writeFileSync(ca, authorityOf(cluster, namespace, container, spec.volumes))
  const token = tokenOf(cluster, namespace, spec.serviceAccountName)
  return makePod(t, { host, port: new URL(address).port, ca, token, namespace })
}

function authorityOf(
  cluster: Cluster,
  namespace: string,
  { volumeMounts = [] }: Container,
  volumes: readonly Volume[],
): string {
  const mount = volumeMounts.find(({ mountPath }) => mountPath === ACCOUNT)
  const sources = volumes.find((volume) => volume.name === mount?.name)?.projected?.sources ?? []
  for (const { configMap } of sources) {
    const item = configMap?.items.find(({ path }) => path === 'ca.crt')
    if (item === undefined) continue
    const args = ['get', 'configmap', '-n', namespace, configMap!.name, '-o', 'json']
    return (JSON.parse(cluster.kubectl(args)) as { data: Record<string, string> }).data[item.key]!
  }
  throw new Error(`no ca.crt is mounted in ${namespace}`)
}
