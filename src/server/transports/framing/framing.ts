/** The form of a watch's events, independent of the carrier; see `framings.ts`. */
import type { TransportKind, WireFormat } from '../../../engine/broadcast/wire-format.js'

export interface Framing extends Pick<WireFormat, 'frame' | 'afterError' | 'mark'> {
  readonly key: string
  /** The transport name in metrics; null for the carrier's. */
  readonly transport: TransportKind | null
}
