/** Adds to a state that nobody sees yet, in slices of time: reading a page of 8 MB takes dozens. */
import type { KeyValue } from '../model/event.js'
import { inTurns, partsOf, sourceTurns } from '../../support/turns.js'

/** Bytes of values, or keys of a hundred bytes, that are added between two looks at the clock. */
const PART_BYTES = 64 * 1024
const KEY_BYTES = 100

/** @param add is called for an empty page as well. @throws the signal's reason, as soon as it has aborted: the rest is not added. */
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
