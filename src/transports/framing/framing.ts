/** How the events of a watch look, whatever they travel in: see `framings.ts`. */
import type { TransportKind, WireFormat } from '../../broadcast/wire-format.js'

export interface Framing extends Pick<WireFormat, 'frame' | 'afterError' | 'mark'> {
  readonly key: string
  /** The transport that metrics count it as; null: that of its carrier. */
  readonly transport: TransportKind | null
}
