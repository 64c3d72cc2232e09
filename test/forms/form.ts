/**
 * The forms of a server beyond the plain one at etcd: `TEST_SERVER_FORM` names a module of this folder, which puts
 * other servers around those that tests start (`startServer`, `startApp`), so that a test need not be copied to run
 * with them.
 */
import type { Test } from 'tap'
import type { Config } from '../../src/server/config/load.js'
import type { Process, ProcessOptions } from '../../src/server/wiring/server-process.js'
import type { EmbeddedControls } from '../support/faulty-store.js'

export interface ServerForm {
  /**
   * Starts the others, and returns the flags of the server that the test uses; null if the form does not support such a
   * server.
   */
  processFlags(t: Test, flags: readonly string[]): Promise<readonly string[] | null>
  /** The same for a server in the process of the test, over a store that the test controls. */
  appParts(t: Test, app: SurroundedApp): Promise<AppParts | null>
}

export interface SurroundedApp {
  readonly flags: readonly string[]
  /** Settings that override those from the flags. */
  readonly config: Partial<Config>
  readonly store: EmbeddedControls
  /** The server that the test uses; not before it has been constructed. */
  readonly process: () => Process
}

export interface AppParts {
  readonly flags: readonly string[]
  readonly parts: Partial<ProcessOptions>
}

/** Returns the form that the variable names; null if it is not set. */
export async function serverForm(): Promise<ServerForm | null> {
  const module = process.env['TEST_SERVER_FORM']
  return module === undefined ? null : ((await import(module)) as ServerForm)
}

/** Whether one of the flags begins with this text. */
export function has(flags: readonly string[], ...beginnings: readonly string[]): boolean {
  return flags.some((flag) => beginnings.some((beginning) => flag.startsWith(beginning)))
}

/** Splits flags by their names. A value may be in the flag's own text, or follow it. */
export function split(
  flags: readonly string[],
  isWanted: (name: string) => boolean,
): [wanted: string[], rest: string[]] {
  const parts: [string[], string[]] = [[], []]
  let part = parts[1]
  for (const flag of flags) {
    if (flag.startsWith('--')) part = parts[isWanted(flag.split('=', 1)[0]!) ? 0 : 1]
    part.push(flag)
  }
  return parts
}

/** Whether it has a resource without a cache, which only a single process at etcd may have. */
export const hasUncached = (flags: readonly string[]): boolean => flags.some((flag) => flag.endsWith('#0'))

/** The flags that say where etcd is. */
export const isOfEtcd = (name: string): boolean => /^--etcd-(?!prefix)/.test(name)

/** The flags of every server that reads the same etcd. */
export const isOfData = (name: string): boolean =>
  /^--(etcd-.*|resource|encryption-provider-config|nats-cluster|.*watch-cache.*|backfill-revisions|on-gap)$/.test(name)
