/**
 * Why the engine refuses a read or ends a watcher, with one class for each thing that a client may do next. These
 * errors know no codes and no protocol: each dialect says them in its own words. Their messages are for logs, and for
 * clients where the dialect has no words of its own.
 */
import type { Key } from './event.js'
import type { Revision } from './revision.js'

export abstract class EngineError extends Error {}

/** The history no longer has the revision, so the client must list again. */
export class RevisionExpiredError extends EngineError {
  override readonly name = 'RevisionExpiredError'

  /** @param oldest the first revision still held; null when only the source knows it. */
  constructor(
    readonly requested: Revision | null,
    readonly oldest: Revision | null,
    options: ErrorOptions = {},
  ) {
    super(`revision ${requested ?? 'of the read'} is no longer in the history`, options)
  }
}

/** The revision is ahead of what can be read, which is at `current`. */
abstract class AheadError extends EngineError {
  constructor(
    readonly requested: Revision,
    readonly current: Revision,
    problem: string,
  ) {
    super(`revision ${requested} ${problem} ${current}`)
  }
}

/** The source itself, which is at `current`, has not reached the revision. It may belong to another history. */
export class RevisionUnknownError extends AheadError {
  override readonly name = 'RevisionUnknownError'

  constructor(requested: Revision, current: Revision) {
    super(requested, current, 'has never existed here: the storage is at')
  }
}

/** After the wait limit, this replica has still not reached the revision. */
export class BehindError extends AheadError {
  override readonly name = 'BehindError'

  constructor(requested: Revision, current: Revision) {
    super(requested, current, 'has not been reached: this replica is at')
  }
}

/** The same request may succeed later. */
abstract class RetryError extends EngineError {
  /** @param retryAfterSeconds 0 leaves the delay to the client. */
  constructor(
    message: string,
    readonly retryAfterSeconds: number,
    options: ErrorOptions = {},
  ) {
    super(message, options)
  }
}

/** The state is still being loaded, or a limit has been reached: the same request may succeed here in a moment. */
export class BusyError extends RetryError {
  override readonly name: string = 'BusyError'
}

/** No key can decrypt some of the values that the request needs. */
export class SealedError extends EngineError {
  override readonly name = 'SealedError'

  /**
   * @param resource the name as in logs, such as `deployments.apps`.
   * @param sealed the reason for each key; empty if the caller may not know the keys.
   * @param scope what was asked for: one object, a list, or the whole state, with which a watch begins.
   */
  constructor(
    readonly resource: string,
    readonly sealed: ReadonlyMap<Key, string>,
    readonly scope: 'object' | 'list' | 'watch',
  ) {
    super(`${resource}: some values cannot be decrypted`)
  }
}

/** The resource has values that cannot be served here, and a state without them would be wrong. */
export class WithheldError extends EngineError {
  override readonly name = 'WithheldError'
}

/** The source did not answer in time, or is behind this replica. */
export class UnansweredError extends EngineError {
  override readonly name = 'UnansweredError'
}

/** This replica does not serve it, or no longer: another one might. */
export class UnservedError extends RetryError {
  override readonly name: string = 'UnservedError'
}

/** The source refuses a read of this replica itself, until its permissions or credentials are corrected. */
export class RefusedReadError extends UnservedError {
  override readonly name = 'RefusedReadError'
}

/** About as often as a refused feed tries again. */
const REFUSED_WATCH_SECONDS = 15

/**
 * The same for a watch. Its client keeps what it has, and tries again from its own position, because an informer lists
 * everything again after any other error.
 */
export class RefusedWatchError extends BusyError {
  override readonly name = 'RefusedWatchError'

  /** @param resource the name as in logs, such as `deployments.apps`. */
  constructor(resource: string, options: ErrorOptions = {}) {
    super(`${resource}: the storage refuses this server's own watch`, REFUSED_WATCH_SECONDS, options)
  }
}
