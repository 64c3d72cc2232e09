/**
 * The watch behind a CLI command. If the server refuses it at the start, the command fails with a one-line message;
 * after that the watch resumes and relists by itself, and reports any trouble.
 */
import { type WatchItem, watchDecoded } from '../client/watch.js'
import type { ObjectCodec } from '../client/reflector/object-codec.js'
import { selectionQuery, type Selection } from '../client/reflector/requests.js'
import type { Connection } from './server-connection.js'
import { requestBytes } from './server-request.js'

export interface FollowOptions<T> {
  readonly connection: Connection
  readonly selection: Selection
  readonly codec: ObjectCodec<T>
  readonly signal: AbortSignal
  /** Reports that the connection broke, was refused, or is back. */
  readonly onNotice: (text: string) => void
}

/**
 * Yields the items of a watch until the signal aborts.
 * @throws CommandError when the server refuses, or cannot be reached, at the start.
 */
export async function* follow<T>(options: FollowOptions<T>): AsyncGenerator<WatchItem<T>, void, undefined> {
  const { connection, selection, codec, signal, onNotice } = options
  // A reflector never gives up, but a user who mistyped a selector needs to know.
  await requestBytes(connection, { path: selection.path, query: { ...selectionQuery(selection), limit: '1' }, signal })
  let isInTrouble = false
  yield* watchDecoded<T>({
    ...selection,
    transport: connection.transport,
    codec,
    signal,
    // The rows of a table come from a list, because the events of an initial state would be tables of one row each.
    watchList: codec.accept === undefined,
    onStatus({ reason, resourceVersion, isOpen }) {
      // It is normal for the server to end a watch whose time is up.
      if (reason !== null && !reason.startsWith('the watch was short')) {
        isInTrouble = true
        onNotice(`${reason}; retrying`)
      } else if (isInTrouble && isOpen) {
        isInTrouble = false
        onNotice(`reconnected${resourceVersion === null ? '' : `, resuming after resourceVersion ${resourceVersion}`}`)
      }
    },
  })
}
