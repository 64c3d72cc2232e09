/** What nearly every part of the program is given: the time, random numbers and the log. */
import type { Clock } from './clock.js'
import type { Logger } from './log.js'
import type { Random } from './random.js'

export interface Ambient {
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}
