/** The primary's settings for a worker, which the worker reads from its standard input before anything else. */
import { readFileSync } from 'node:fs'
import type { ConfigFile } from '../config/load.js'
import type { PortNumbers } from './ports.js'

export interface WorkerHello {
  /** Whether other workers are already serving. */
  readonly isReplacement: boolean
  /** The ports on which all workers listen. */
  readonly ports: PortNumbers
  /**
   * The configuration file as the primary has adopted it; null without one. The file itself may have been changed since
   * then to something that was rejected.
   */
  readonly file: ConfigFile | null
}

export function readHello(): WorkerHello {
  return JSON.parse(readFileSync(0, 'utf8')) as WorkerHello
}
