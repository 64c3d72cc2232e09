/**
 * Saved states in files of a folder, one for each server, user and resource. Only this user of the machine can read
 * them, because they contain the server's data.
 */
import { createHash, randomBytes } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { StateStore } from '../saved-state.js'

/** How much `fileStore` keeps. */
export interface FileStoreOptions {
  /**
   * The limit for all states of the folder together. Beyond it, the states saved longest ago are removed. Default: 64
   * MiB.
   */
  readonly maxBytes?: number
}

const ENDING = '.state.json'

/** Keeps states in a folder, which is created when it is needed. @param folder must not be used for anything else. */
export function fileStore(folder: string, { maxBytes = 64 * 2 ** 20 }: FileStoreOptions = {}): StateStore {
  const fileOf = (key: string): string => join(folder, createHash('sha256').update(key).digest('hex') + ENDING)
  const remove = async (key: string): Promise<void> => await rm(fileOf(key), { force: true })
  return {
    remove,
    async load(key) {
      try {
        return await readFile(fileOf(key), 'utf8')
      } catch (error) {
        if (isMissing(error)) return null
        throw error
      }
    },
    async save(key, text) {
      const bytes = Buffer.from(text)
      if (bytes.length > maxBytes) {
        // An older state must not stay either, because it would become more and more outdated.
        await remove(key)
        throw new Error(`a state of ${bytes.length} bytes is larger than the limit of ${maxBytes}`)
      }
      await mkdir(folder, { recursive: true, mode: 0o700 })
      await chmod(folder, 0o700)
      const file = fileOf(key)
      const unfinished = `${file}.${randomBytes(6).toString('hex')}`
      try {
        await writeFile(unfinished, bytes, { mode: 0o600, flush: true })
        await rename(unfinished, file)
      } catch (error) {
        await rm(unfinished, { force: true })
        throw error
      }
      await removeOldest(folder, file, maxBytes)
    },
    async clear() {
      for (const name of await filesIn(folder)) await rm(join(folder, name), { force: true })
    },
  }
}

async function removeOldest(folder: string, kept: string, maxBytes: number): Promise<void> {
  const states: { readonly file: string; readonly bytes: number; readonly savedMs: number }[] = []
  for (const name of await filesIn(folder)) {
    const file = join(folder, name)
    // Another process may have removed it.
    const found = await stat(file).catch(() => null)
    if (found !== null) states.push({ file, bytes: found.size, savedMs: file === kept ? Infinity : found.mtimeMs })
  }
  let total = states.reduce((sum, { bytes }) => sum + bytes, 0)
  for (const { file, bytes } of states.toSorted((a, b) => a.savedMs - b.savedMs)) {
    if (total <= maxBytes) return
    await rm(file, { force: true })
    total -= bytes
  }
}

/** Returns the names of the state files, including temporary files whose writer was killed. */
async function filesIn(folder: string): Promise<readonly string[]> {
  try {
    return (await readdir(folder)).filter((name) => name.includes(ENDING))
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT'
}
