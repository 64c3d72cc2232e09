/** Opens another server as the source of all resources, from the configuration (`--upstream`, `--kubeconfig`). */
import { loadKubeconfig } from '../auth/kubeconfig.js'
import { nodeTransport } from '../client/node/node-transport.js'
import type { Config } from '../config/load.js'
import type { OpenFeed } from '../feed/resource-feed.js'
import { UpstreamFeed, type UpstreamFeedOptions } from '../feed/upstream-feed.js'
import type { Clock } from '../support/clock.js'
import { HttpResource } from '../upstream/http/http-resource.js'
import { RemoteApiServer } from '../upstream/http/remote-api-server.js'

/** @throws Error that names the file when the kubeconfig cannot be used. */
export function openRemoteApiServer({ upstream: url, kubeconfig }: Config, clock: Clock): RemoteApiServer {
  if (url === null) throw new Error('there is no --upstream')
  const access = kubeconfig === null ? {} : loadKubeconfig(kubeconfig)
  return new RemoteApiServer({ transport: nodeTransport({ ...access, server: url }), url, clock })
}

export function httpFeeds(server: RemoteApiServer, options: Omit<UpstreamFeedOptions, 'upstream'>): OpenFeed {
  const { random } = options
  return (request) => {
    const upstream = new HttpResource({ server, resource: request.resource, random })
    return new UpstreamFeed(request, { ...options, upstream })
  }
}
