/**
 * What a measured process runs: it counts what it holds, when asked on its Unix socket, and is otherwise the program
 * that `GROWTH_PROGRAM` names. It must not change what that program does, so it only adds one listening socket, and
 * nothing of it stays after an answer.
 *
 * Objects are counted by their constructor, functions by their name, and what collections and emitters contain by the
 * kind of the collection: a leak of numbers in a Map shows too. The inspector finds all objects after a collection;
 * Bun has no such inspector, but counts of its own.
 */
import { readdirSync, readlinkSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { writeHeapSnapshot } from 'node:v8'

/** How many there are of each thing. */
export type Counts = Readonly<Record<string, number>>

/** The folder of the sockets; each is named by the id of its process. */
export const SOCKETS_VARIABLE = 'GROWTH_SOCKETS'
export const PROGRAM_VARIABLE = 'GROWTH_PROGRAM'

/** A request has one line: its name, and an argument. Programs add their own. */
export const commands: Record<string, (argument: string) => unknown> = {
  collect,
  count,
  snapshot: (path) => writeHeapSnapshot(path),
}

async function count(): Promise<Counts> {
  await collect()
  // Finalizers, and what they release, run in turns of their own. The inspector collects again before it counts.
  await new Promise((resolve) => setTimeout(resolve, 20))
  return { ...(await objects()), ...resources() }
}

const isBun = 'bun' in process.versions

/** Runs the garbage collector. */
async function collect(): Promise<void> {
  if (isBun) (globalThis as unknown as { Bun: { gc(isForced: boolean): void } }).Bun.gc(true)
  else await inspect((session) => session.post('HeapProfiler.collectGarbage'))
}

async function objects(): Promise<Counts> {
  if (isBun) {
    const { heapStats } = (await import('bun:jsc' as string)) as {
      readonly heapStats: () => { objectTypeCounts: Counts }
    }
    // Code is compiled and discarded at any time.
    const kinds = Object.entries(heapStats().objectTypeCounts)
    return Object.fromEntries(
      kinds.filter(([kind]) => !/CodeBlock|Executable|Structure|Unlinked|SymbolTable/.test(kind)),
    )
  }
  return await inspect(async (session) => {
    const { result } = await session.post('Runtime.evaluate', { expression: 'Object.prototype' })
    const all = await session.post('Runtime.queryObjects', { prototypeObjectId: result.objectId! })
    const counted = await session.post('Runtime.callFunctionOn', {
      objectId: all.objects.objectId!,
      functionDeclaration: COUNT_BY_KIND,
      returnByValue: true,
    })
    if (counted.exceptionDetails !== undefined) throw new Error(JSON.stringify(counted.exceptionDetails))
    return counted.result.value as Counts
  })
}

async function inspect<T>(use: (session: import('node:inspector/promises').Session) => Promise<T>): Promise<T> {
  const { Session } = await import('node:inspector/promises')
  const session = new Session()
  session.connect()
  try {
    return await use(session)
  } finally {
    session.disconnect()
  }
}

/** Runs in the inspector: it can use nothing of this module. */
function countByKind(this: readonly object[]): Counts {
  const counts: Record<string, number> = {}
  const add = (name: string, n: number): void => {
    counts[name] = (counts[name] ?? 0) + n
  }
  const nameOf = (made: unknown): string | null => {
    if (typeof made !== 'function') return null
    const name: unknown = Reflect.getOwnPropertyDescriptor(made, 'name')?.value
    return typeof name === 'string' && name !== '' ? name : 'anonymous'
  }
  const names = new Map<object | null, string>()
  const kindOf = (prototype: object | null): string => {
    const known = names.get(prototype)
    if (known !== undefined) return known
    const own = prototype === null ? null : Reflect.getOwnPropertyDescriptor(prototype, 'constructor')
    const name = prototype === null ? 'null' : (nameOf(own?.value) ?? kindOf(Reflect.getPrototypeOf(prototype)))
    names.set(prototype, name)
    return name
  }
  for (const one of this) {
    if (one === this) continue
    try {
      if (typeof one === 'function') {
        add(`function ${nameOf(one)}`, 1)
        continue
      }
      const kind = kindOf(Reflect.getPrototypeOf(one))
      // Node keeps a list for each duration of a timer until that time is over, with or without timers.
      if (kind === 'TimersList') continue
      add(kind, 1)
      // undici replaces a request that is done by null, and shortens its queue after 256 of them.
      if (kind === 'Array')
        add('elements of arrays', (one as readonly unknown[]).filter((each) => each !== null).length)
      else if (kind === 'Map' || kind === 'Set') add(`entries of ${kind}s`, (one as Map<unknown, unknown>).size)
      else if (kind === 'Object') add('keys of plain objects', Reflect.ownKeys(one).length)
      const events: unknown = Reflect.getOwnPropertyDescriptor(one, '_events')?.value
      if (typeof events === 'object' && events !== null) {
        for (const listeners of Object.values(events) as unknown[]) {
          add(`listeners of ${kind}`, Array.isArray(listeners) ? listeners.length : 1)
        }
      }
      if (one instanceof EventTarget) {
        const symbol = Object.getOwnPropertySymbols(one).find(({ description }) => description === 'kEvents')
        const types = symbol && (Reflect.get(one, symbol) as ReadonlyMap<string, { readonly size: number }>)
        for (const { size } of types?.values() ?? []) add(`listeners of ${kind}`, size)
      }
    } catch {
      add('objects that cannot be examined', 1)
    }
  }
  return counts
}

/** As the inspector takes it. */
export const COUNT_BY_KIND = countByKind.toString()

/** What the operating system and the event loop hold for this process. */
function resources(): Counts {
  const counts: Record<string, number> = {}
  const add = (name: string): void => {
    counts[name] = (counts[name] ?? 0) + 1
  }
  for (const descriptor of readdirSync('/proc/self/fd')) {
    let target = 'gone'
    try {
      target = readlinkSync(`/proc/self/fd/${descriptor}`)
    } catch {
      // The descriptor of the folder itself.
    }
    add(`descriptor of ${target.replace(/:?\[?\d+\]?$/, '')}`)
  }
  for (const name of process.getActiveResourcesInfo?.() ?? []) add(`handle ${name}`)
  counts['threads'] = readdirSync('/proc/self/task').length
  return counts
}

/** Answers one request per connection. */
function listen(folder: string): void {
  const server = net.createServer((socket) => {
    socket.once('data', (line) => {
      const [name = '', ...rest] = line.toString().trim().split(' ')
      const answer = async (): Promise<unknown> => await commands[name]?.(rest.join(' '))
      void answer().then(
        (value) => socket.end(JSON.stringify({ value })),
        (error: unknown) => socket.end(JSON.stringify({ error: String(error instanceof Error ? error.stack : error) })),
      )
    })
    socket.on('error', () => {})
  })
  server.listen(join(folder, String(process.pid)))
  server.unref()
}

const folder = process.env[SOCKETS_VARIABLE]
const program = process.env[PROGRAM_VARIABLE]
// The harness imports this module too, for its names.
if (folder !== undefined && program !== undefined) {
  listen(folder)
  // The program may import this module, so it cannot wait for the program.
  void import(pathToFileURL(program).href)
}
