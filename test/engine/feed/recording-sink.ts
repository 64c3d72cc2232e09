/**
 * A sink that records its calls and throws when a feed breaks its contract: ascending, complete and announced
 * revisions.
 */
import type { EarlierHistory, FeedSink, Replacement, ReplaceReason } from '../../../src/engine/model/feed-sink.js'
import type { Batch, Key, KeyValue } from '../../../src/engine/model/event.js'
import { ZERO_REVISION, type Revision } from '../../../src/engine/model/revision.js'

export class RecordingSink implements FeedSink {
  /** One word per call, with its revision: `replace 5 initial`, `apply 6,7`, `synced`. */
  readonly calls: string[] = []
  readonly state = new Map<Key, KeyValue>()
  /** Since the last replacement. */
  readonly batches: Batch[] = []
  isAwaited = false
  /** What it answers to the history from before its first state. */
  takesEarlier = true
  /** Revision of the last replacement. */
  base = ZERO_REVISION
  revision = ZERO_REVISION
  isSynced = false
  reason: string | null = null
  /** Confirmations are not in `calls`, because their number depends on timing. */
  readonly confirmations: { readonly ageMs: number; readonly validMs: number }[] = []

  /** Returns the calls of one kind, without the kind. */
  of(kind: string): string[] {
    return this.calls.filter((call) => call.split(' ')[0] === kind).map((call) => call.slice(kind.length + 1))
  }

  replace(revision: Revision, reason: ReplaceReason): Replacement {
    if (reason !== 'initial' && reason !== 'history-changed' && revision < this.revision) {
      throw new Error(`replaced at ${revision}, behind ${this.revision}`)
    }
    const keyValues: KeyValue[] = []
    let isOpen = true
    const end = (what: string): void => {
      if (!isOpen) throw new Error(`${what} after the end of a replacement`)
      isOpen = false
      this.calls.push(`${what} ${revision} ${reason}`)
    }
    return {
      add: (page) => {
        if (!isOpen) throw new Error('a page after the end of a replacement')
        for (const keyValue of page) {
          const last = keyValues.at(-1)
          if (last !== undefined && keyValue.key <= last.key) throw new Error('pages are not sorted')
          if (keyValue.modRevision > revision) throw new Error(`${keyValue.modRevision} in a state at ${revision}`)
          keyValues.push(keyValue)
        }
      },
      commit: () => {
        end('replace')
        this.state.clear()
        for (const keyValue of keyValues) this.state.set(keyValue.key, keyValue)
        this.batches.length = 0
        this.base = this.revision = revision
      },
      abort: () => end('abort'),
    }
  }

  seeking(isSeeking: boolean): void {
    this.calls.push(isSeeking ? 'seeking' : 'sought')
  }

  earlier(after: Revision, until: Revision): EarlierHistory {
    const keyValues: KeyValue[] = []
    const batches: Batch[] = []
    return {
      add: (part) => void keyValues.push(...part),
      apply: (part) => void batches.push(...part),
      commit: () => {
        const replaced = keyValues.map(({ modRevision }) => modRevision).join()
        const revisions = batches.map(({ revision }) => revision).join()
        this.calls.push(`earlier ${after}-${until} [${replaced}] ${revisions}`)
        return this.takesEarlier
      },
    }
  }

  confirmed(ageMs: number, validMs: number): void {
    this.confirmations.push({ ageMs, validMs })
  }

  apply(batches: readonly Batch[]): void {
    if (batches.length === 0) throw new Error('no batches')
    for (const batch of batches) {
      if (batch.revision <= this.revision) throw new Error(`${batch.revision} after ${this.revision}`)
      this.revision = batch.revision
      this.batches.push(batch)
      for (const event of batch.events) {
        if (event.type === 'put') this.state.set(event.keyValue.key, event.keyValue)
        else if (!this.state.delete(event.key)) throw new Error(`${event.key} deleted at ${batch.revision}, not there`)
      }
    }
    this.calls.push(`apply ${batches.map((batch) => batch.revision).join(',')}`)
    this.reason = null
  }

  progress(revision: Revision): void {
    if (revision <= this.revision) throw new Error(`progress ${revision} after ${this.revision}`)
    this.revision = revision
    this.calls.push(`progress ${revision}`)
  }

  synced(): void {
    this.isSynced = true
    this.reason = null
    this.calls.push('synced')
  }

  disconnected(reason: string): void {
    this.reason = reason
    this.calls.push(`disconnected ${reason}`)
  }

  refused(reason: string, isLasting: boolean): void {
    this.reason = reason
    this.calls.push(`${isLasting ? 'refused' : 'refused-once'} ${reason}`)
  }
}
