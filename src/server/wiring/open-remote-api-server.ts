/** Opens another server as the source of all resources, from the configuration (`--upstream`, `--kubeconfig`). */
import type { JsonServer } from '../auth/https-json.js'
import { IN_CLUSTER } from '../auth/kubeconfig.js'
import { watchKubeconfig } from '../auth/watched-credentials.js'
import type { Watched } from '../auth/watched-file.js'
import { type NodeTransport, nodeTransport } from '../../client/node/node-transport.js'
import type { Config } from '../config/load.js'
import type { ApiResource } from '../../kubernetes/model/api-resource.js'
import type { OpenFeed } from '../../engine/feed/resource-feed.js'
import { UpstreamFeed, type UpstreamFeedOptions } from '../../engine/feed/upstream-feed.js'
import { HttpResource } from '../../kubernetes/upstream/http-resource.js'
import { RemoteApiServer } from '../../kubernetes/upstream/remote-api-server.js'
import type { ServerDeps } from './server-deps.js'

type RemoteServerDeps = Pick<ServerDeps, 'clock' | 'logger'> & { readonly metrics?: ServerDeps['metrics'] }

/** @throws Error that names the file when the kubeconfig cannot be used. */
export function openRemoteApiServer(
  { upstream, kubeconfig }: Config,
  { clock, logger, metrics }: RemoteServerDeps,
): RemoteApiServer {
  if (upstream === null) throw new Error('there is no --upstream')
  const file = upstream === IN_CLUSTER ? IN_CLUSTER : kubeconfig
  const access = file === null ? null : watchKubeconfig(file, { clock, logger, metrics: metrics?.process })
  const url = upstream === IN_CLUSTER ? access!.value.server : upstream
  const transport = access === null ? nodeTransport({ server: url }) : followingTransport(access, url)
  return new RemoteApiServer({ transport, url, clock, logger })
}

/**
 * Uses the current credentials of the kubeconfig and its files. A running request, such as a watch, keeps the ones it
 * started with.
 */
function followingTransport(access: Watched<JsonServer>, server: string): NodeTransport {
  const open = (value: JsonServer): NodeTransport => nodeTransport({ ...value, server })
  let transport = open(access.value)
  access.onChange((value) => {
    transport.retire()
    transport = open(value)
  })
  return {
    send: (request) => transport.send(request),
    retire: () => transport.retire(),
    close: () => {
      access.close()
      transport.close()
    },
  }
}

export function httpFeeds(server: RemoteApiServer, options: Omit<UpstreamFeedOptions, 'upstream'>): OpenFeed {
  const { random } = options
  const countsOnly = (): boolean => server.knownProduct?.isDistributary === false
  return (request) => {
    // The fleet's messages carry resources of this dialect, although the engine knows only part of them.
    const upstream = new HttpResource({ server, resource: request.resource as ApiResource, random })
    return new UpstreamFeed(request, { ...options, upstream, countsOnly })
  }
}
