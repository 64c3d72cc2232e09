/** Records everything a watch received, in order, and lets a test wait for it without polling. */
import type { Batch, Key, KeyEvent } from '../../../src/engine/model/event.js'
import type { Revision } from '../../../src/engine/model/revision.js'
import type { UpstreamWatch, UpstreamWatcher, WatchEnd } from '../../../src/engine/upstream/upstream.js'

type Entry =
  | { readonly kind: 'open' }
  | { readonly kind: 'batch'; readonly batch: Batch }
  | { readonly kind: 'progress'; readonly revision: Revision }
  | { readonly kind: 'end'; readonly end: WatchEnd }

export interface WatchRecorder {
  readonly watch: UpstreamWatch
  readonly log: readonly Entry[]
  readonly batches: readonly Batch[]
  readonly progress: readonly Revision[]
  readonly end: WatchEnd | null
  readonly isOpen: boolean
  /** Resolves as soon as `condition` holds; rejects with what was recorded instead after `timeoutMs`. */
  until(what: string, condition: (recorder: WatchRecorder) => boolean, timeoutMs?: number): Promise<void>
  untilEnd(timeoutMs?: number): Promise<WatchEnd>
  /** Waits until the last batch is at or past `revision`. */
  untilRevision(revision: Revision, timeoutMs?: number): Promise<void>
  /** Checks the rules for every history; returns the first broken one, or null. */
  brokenRule(): string | null
}

export function recordWatch(upstream: UpstreamWatcher, prefix: Key, startRevision: Revision): WatchRecorder {
  const log: Entry[] = []
  const batches: Batch[] = []
  const progress: Revision[] = []
  const waiting = new Set<() => void>()
  let end: WatchEnd | null = null
  let isOpen = false

  const add = (entry: Entry): void => {
    log.push(entry)
    for (const check of waiting) check()
  }

  const recorder: WatchRecorder = {
    watch: upstream.watch(
      { prefix, startRevision },
      {
        onOpen() {
          isOpen = true
          add({ kind: 'open' })
        },
        onBatches(given) {
          for (const batch of given) batches.push(batch)
          for (const batch of given) add({ kind: 'batch', batch })
        },
        onProgress(revision) {
          progress.push(revision)
          add({ kind: 'progress', revision })
        },
        onEnd(given) {
          end = given
          add({ kind: 'end', end: given })
        },
      },
    ),
    log,
    batches,
    progress,
    get end() {
      return end
    },
    get isOpen() {
      return isOpen
    },
    until(what, condition, timeoutMs = 60_000) {
      return new Promise((resolve, reject) => {
        const check = (): void => {
          if (!condition(recorder)) return
          waiting.delete(check)
          clearTimeout(timer)
          resolve()
        }
        const timer = setTimeout(() => {
          waiting.delete(check)
          const said = log.slice(-5).map((entry) => JSON.stringify(entry).slice(0, 200))
          reject(
            new Error(`no ${what} within ${timeoutMs} ms; ${log.length} entries, the last ones: ${said.join(' ')}`),
          )
        }, timeoutMs)
        waiting.add(check)
        check()
      })
    },
    async untilEnd(timeoutMs) {
      await recorder.until('end', (r) => r.end !== null, timeoutMs)
      return recorder.end!
    },
    untilRevision(revision, timeoutMs) {
      return recorder.until(`revision ${revision}`, (r) => (r.batches.at(-1)?.revision ?? 0) >= revision, timeoutMs)
    },
    brokenRule() {
      let position = startRevision - 1
      let promised = 0
      for (const [at, entry] of log.entries()) {
        if (at > 0 && log[at - 1]!.kind === 'end') return `entry ${at} came after the end`
        if (entry.kind === 'open' && at > 0) return `entry ${at}: opened after something else`
        if (entry.kind === 'progress') promised = Math.max(promised, entry.revision)
        if (entry.kind !== 'batch') continue
        const { revision, events } = entry.batch
        if (events.length === 0) return `revision ${revision} is empty`
        if (revision <= position) return `revision ${revision} came after ${position}`
        if (revision <= promised) return `revision ${revision} came after progress ${promised}`
        for (const event of events) {
          const key = event.type === 'put' ? event.keyValue.key : event.key
          if (!key.startsWith(prefix)) return `${JSON.stringify(key)} is not under the prefix`
          if (event.type === 'put' && event.keyValue.modRevision !== revision) {
            return `revision ${revision} holds an event of ${event.keyValue.modRevision}`
          }
        }
        position = revision
      }
      return null
    },
  }
  return recorder
}

/** `+key=value` or `-key`, for reading a history at a glance. */
export function describeEvent(event: KeyEvent): string {
  return event.type === 'put' ? `+${event.keyValue.key}=${event.keyValue.value.toString('utf8')}` : `-${event.key}`
}

export function describeBatches(batches: readonly Batch[]): string[] {
  return batches.map((batch) => batch.events.map(describeEvent).join(' '))
}
