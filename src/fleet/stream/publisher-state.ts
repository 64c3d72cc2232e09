/**
 * The states of one publishing session as a pure function: this file decides, `publisher.ts` performs.
 *
 *                     ┌── nothing to continue ──▶ behind ─ caught up ─▶ synced ◀─ claimed ──┐
 *     reading the end ┤                           │   ▲                  │                  │
 *       of the stream └── claimed ────────────────┼───┼──────────────────┼──────────────────┘
 *                                                 ▼   └ state written    │
 *                                               uploading ◀── relisted ──┘
 *
 * Every state ends in `over`; nothing is written there. A session never goes back from `behind` to `synced` without a
 * message that says so: replicas answer reads only from a stream that says it is complete.
 */
export type PublisherState<Session> =
  /** The end of the stream is read; nothing can be written yet. */
  | { readonly kind: 'reading' }
  /** The stream lacks some of what etcd had when the feed began. */
  | { readonly kind: 'behind'; readonly session: Session }
  /** The snapshot of a whole state is being uploaded; nothing is written meanwhile. */
  | { readonly kind: 'uploading'; readonly session: Session }
  /** The stream says that it has everything that etcd had. */
  | { readonly kind: 'synced'; readonly session: Session }
  | { readonly kind: 'over'; readonly session: Session | null }

export type PublisherInput<Session> =
  /** The end of the stream is known. `continues`: it is complete, so the session claims it. */
  | { readonly kind: 'read'; readonly session: Session; readonly continues: boolean }
  /** The mark that etcd has nothing more is the next to be written. */
  | { readonly kind: 'caught-up' }
  /** A whole state is the next to be written. */
  | { readonly kind: 'relisted' }
  | { readonly kind: 'state-written' }
  | { readonly kind: 'end' }

/** An input without a meaning in a state leaves the state as it is. */
export function nextPublisherState<Session>(
  state: PublisherState<Session>,
  input: PublisherInput<Session>,
): PublisherState<Session> {
  if (state.kind === 'over') return state
  if (input.kind === 'end') return { kind: 'over', session: sessionOf(state) }
  if (state.kind === 'reading') {
    if (input.kind !== 'read') return state
    return { kind: input.continues ? 'synced' : 'behind', session: input.session }
  }
  const { session } = state
  switch (input.kind) {
    case 'caught-up':
      return state.kind === 'behind' ? { kind: 'synced', session } : state
    case 'relisted':
      return { kind: 'uploading', session }
    case 'state-written':
      return state.kind === 'uploading' ? { kind: 'behind', session } : state
    case 'read':
      return state
    default:
      return input satisfies never
  }
}

export function sessionOf<Session>(state: PublisherState<Session>): Session | null {
  return state.kind === 'reading' ? null : state.session
}

/** Whether the next item of the queue may be written. */
export function mayWrite<Session>(
  state: PublisherState<Session>,
): state is Extract<PublisherState<Session>, { kind: 'behind' | 'synced' }> {
  return state.kind === 'behind' || state.kind === 'synced'
}
