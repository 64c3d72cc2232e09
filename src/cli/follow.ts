/**
 * A watch for a command: it is refused in one line where the server refuses it at the start, and from then on resumes and
 * relists by itself, telling of each.
 */
import { type WatchItem, watchDecoded } from '../client/watch.js'
import type { ObjectCodec } from '../reflector/object-codec.js'
import type { Selection } from '../reflector/requests.js'
import type { Connection } from './connection.js'
import { askBytes } from './request.js'

export interface FollowOptions<T> {
  readonly connection: Connection
  readonly selection: Selection
  readonly codec: ObjectCodec<T>
  /** Changes after it, and no state. */
  readonly afterResourceVersion?: string
  readonly signal: AbortSignal
  /** The connection broke, was refused, goes on again: for people. */
  readonly onTrouble: (text: string) => void
}

/** Ends when the signal aborts. @throws CommandError when the server refuses, or is not there, at the start. */
export async function* follow<T>(options: FollowOptions<T>): AsyncGenerator<WatchItem<T>, void, undefined> {
  const { connection, selection, codec, afterResourceVersion, signal, onTrouble } = options
  const { path, labelSelector = '', fieldSelector = '' } = selection
  // A reflector never gives up; a person who mistyped a selector wants to hear of it.
  const query = {
    limit: '1',
    ...(labelSelector === '' ? {} : { labelSelector }),
    ...(fieldSelector === '' ? {} : { fieldSelector }),
  }
  await askBytes(connection, { path, query, signal })
  let isInTrouble = false
  yield* watchDecoded<T>({
    ...selection,
    transport: connection.transport,
    codec,
    signal,
    // A table's rows come from a list: the events of an initial state are tables of one row each.
    watchList: codec.accept === undefined,
    ...(afterResourceVersion === undefined ? {} : { afterResourceVersion }),
    onStatus({ state, reason, resourceVersion }) {
      // That a server ends a watch when its time is up is how it should be.
      if (reason !== null && !reason.startsWith('the watch was short')) {
        isInTrouble = true
        onTrouble(`${reason}; trying again`)
      } else if (isInTrouble && state === 'watching') {
        isInTrouble = false
        onTrouble(
          `connected again${resourceVersion === null ? '' : `, going on after resourceVersion ${resourceVersion}`}`,
        )
      }
    },
  })
}
