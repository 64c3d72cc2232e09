/**
 * Which tests share a process. To start Node and to load tap and the server takes a second of a processor, more than most
 * tests need themselves, and what V8 has compiled for one test is there for the next. A test needs a process of its own
 * if it measures memory, changes the environment, or leaves something behind.
 */
import { join } from 'node:path'

/** Files and folders whose tests have a process of their own. */
export const ALONE: readonly string[] = [
  // They measure memory.
  'test/fault/bounds.test.ts',
  'test/fault/outage-hour.test.ts',
  'test/support/recent-entries.test.ts',
  // It changes the environment.
  'test/support/go-program.test.ts',
  // Its tests run side by side.
  'test/integration/nats-servers.test.ts',
]

/** One that fails takes those after it along only if the process dies; and what is left at the end is short. */
const FILES_IN_PROCESS = 8

const alone = ALONE.map(compiled)

/** @param files compiled tests, relative to the root. Each group keeps their order, and is as early as its first file. */
export function groupFiles(files: readonly string[], atMost = FILES_IN_PROCESS): string[][] {
  const groups: string[][] = []
  let open: string[] | null = null
  for (const file of files) {
    if (isUnder(file, alone)) {
      groups.push([file])
      continue
    }
    if (open === null || open.length >= atMost) groups.push((open = []))
    open.push(file)
  }
  return groups
}

function isUnder(file: string, places: readonly string[]): boolean {
  return places.some((place) => file === place || file.startsWith(`${place}/`))
}

function compiled(source: string): string {
  return join('.build', source.replace(/\.ts$/, '.js'))
}
