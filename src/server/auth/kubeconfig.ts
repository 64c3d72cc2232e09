/**
 * Reads a kubeconfig file for the server itself. Plugins that run a command (`exec`) are refused: a server for
 * thousands of clients does not start programs in order to log in.
 */
import { isIPv6 } from 'node:net'
import { readRegularFile } from './read-regular-file.js'
import { readYaml } from '../../support/yaml.js'
import { readKubeconfig } from '../../support/read-kubeconfig.js'
import type { JsonServer } from './https-json.js'

/**
 * In place of a file: the API server of the cluster in which this process is a pod, with the pod's own service account.
 * The token is paired with that address here, so it cannot be sent to another one.
 */
export const IN_CLUSTER = 'in-cluster'

/** Where Kubernetes mounts the service account of a pod. */
const ACCOUNT_FOLDER = '/var/run/secrets/kubernetes.io/serviceaccount'

/**
 * @param file a path, or `IN_CLUSTER`.
 * @throws Error that names the file and what is missing.
 */
export function loadKubeconfig(
  file: string,
  readFile: (path: string) => Buffer = readRegularFile,
  environment: NodeJS.ProcessEnv = process.env,
): JsonServer {
  const config = file === IN_CLUSTER ? inCluster(environment) : readYaml(readFile(file).toString('utf8'))
  const { exec, impersonate, ...context } = readKubeconfig(config, { file, readFile })
  if (exec !== undefined)
    throw new Error(`kubeconfig ${file}: its user has an exec plugin, which a server does not run`)
  if (impersonate !== undefined)
    throw new Error(`kubeconfig ${file}: its user impersonates another (as), which the server does not do`)
  return context
}

function inCluster({ KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port }: NodeJS.ProcessEnv): object {
  const name = host || 'kubernetes.default.svc'
  const server = `https://${isIPv6(name) ? `[${name}]` : name}:${port || '443'}`
  const cluster = { server, 'certificate-authority': `${ACCOUNT_FOLDER}/ca.crt` }
  return {
    clusters: [{ name: IN_CLUSTER, cluster }],
    users: [{ name: IN_CLUSTER, user: { tokenFile: `${ACCOUNT_FOLDER}/token` } }],
    contexts: [{ name: IN_CLUSTER, context: { cluster: IN_CLUSTER, user: IN_CLUSTER } }],
  }
}
