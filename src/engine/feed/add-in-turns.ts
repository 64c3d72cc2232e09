/** Adds objects to a state that readers do not see yet, in time slices. A page of 8 MB takes dozens of slices. */
import type { KeyValue } from '../model/event.js'
import { inTurns, partsOf, sourceTurns } from '../../support/turns.js'

/** Bytes added between two reads of the clock. A key counts as `KEY_BYTES`, in addition to its value. */
const PART_BYTES = 64 * 1024
const KEY_BYTES = 100

/**
 * @param add also called for an empty page.
 * @throws the signal's reason as soon as the signal aborts; then the rest is not added.
 */
export async function addInTurns(
  keyValues: readonly KeyValue[],
  add: (part: readonly KeyValue[]) => void,
  signal?: AbortSignal,
): Promise<void> {
  if (keyValues.length === 0) add(keyValues)
  const parts = partsOf(keyValues, ({ value }) => KEY_BYTES + value.length, PART_BYTES)
  for await (const part of inTurns(parts, sourceTurns)) {
    signal?.throwIfAborted()
    add(part)
  }
}
