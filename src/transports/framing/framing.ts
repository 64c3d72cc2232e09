/** How the events of a watch look, whatever they travel in: see `framings.ts`. */
import type { Transport, Wire } from '../../broadcast/wire.js'

export interface Framing extends Pick<Wire, 'frame' | 'afterError' | 'mark'> {
  readonly key: string
  /** The transport that metrics count it as; null: that of its carrier. */
  readonly transport: Transport | null
}
