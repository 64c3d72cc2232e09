/** A server behind Kubernetes' own API server (`--upstream`), which reads etcd. */
import { startApiServer, writeKubeconfig } from '../reference/control-plane.js'
import { buildKubernetes } from '../reference/programs.js'
import { type ServerForm, has, isOfEtcd, split } from './form.js'

export const processFlags: ServerForm['processFlags'] = async (t, flags) => {
  if (has(flags, '--workers', '--nats-servers', '--upstream', '--enable-writes')) return null
  const [ofEtcd, rest] = split(flags, isOfEtcd)
  const etcdUrl = /^http\S+$/m.exec(ofEtcd.join('\n').replaceAll('=', '\n'))?.[0]
  if (etcdUrl === undefined) return null
  const apiServer = await startApiServer(t, etcdUrl, buildKubernetes('kube-apiserver'))
  const url = `https://127.0.0.1:${apiServer.server.port}`
  return [...rest, `--upstream=${url}`, `--kubeconfig=${writeKubeconfig(apiServer)}`]
}

/** An API server cannot read the store of a test, so this form does not support such servers. */
export const appParts: ServerForm['appParts'] = async () => null
