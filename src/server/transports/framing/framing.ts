/** The form of a watch's events, independent of what they travel in: see `framings.ts`. */
import type { TransportKind, WireFormat } from '../../../engine/broadcast/wire-format.js'

export interface Framing extends Pick<WireFormat, 'frame' | 'afterError' | 'mark'> {
  readonly key: string
  /** The transport that metrics count its watchers under; null for that of the carrier. */
  readonly transport: TransportKind | null
}
