/** Finds out what a server serves, and which resource `po`, `deployment` or `deploy.apps` means. */
import { type ApiResource, discover as discoverBy, resourceNamed } from '../client/discovery.js'
import { WatchFailure } from '../client/reflector/watch-failure.js'
import { nearestName } from '../support/nearest-name.js'
import type { Connection } from './server-connection.js'
import { CommandError } from './exit-code.js'
import { requestJson } from './server-request.js'

export type { ApiResource } from '../client/discovery.js'

/** Returns the resources in order of preference. @throws CommandError */
export async function discover(connection: Connection, signal: AbortSignal): Promise<readonly ApiResource[]> {
  return discoverBy(async (path, accept) => {
    try {
      return (await requestJson(connection, { path, accept, signal })) ?? {}
    } catch (error) {
      if (error instanceof CommandError && error.cause instanceof WatchFailure && error.cause.code === 404) return null
      throw error
    }
  })
}

/** @param text `pods`, `pod`, `po`, `Pod`, each also with `.group` or `.version.group`. @throws CommandError */
export function findResource(all: readonly ApiResource[], text: string): ApiResource {
  const found = resourceNamed(all, text)
  if (found !== null) return found
  const [name = ''] = text.toLowerCase().split('.')
  const nearest = nearestName(name, new Set(all.flatMap(({ plural, shortNames }) => [plural, ...shortNames])))
  throw new CommandError(`the server has no resource "${text}"${nearest === null ? '' : `; did you mean ${nearest}?`}`)
}
