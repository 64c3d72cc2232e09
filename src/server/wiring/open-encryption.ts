/** Opens encryption at rest as configured (`--encryption-provider-config`). */
import { WatchedFiles, type WatchedFilesOptions } from '../auth/watched-file.js'
import type { Config } from '../config/load.js'
import { parseEncryptionConfiguration } from '../../kubernetes/encryption/configuration.js'
import { EncryptionAtRest } from '../../kubernetes/encryption/encryption-at-rest.js'
import { openKeyService } from '../../kubernetes/encryption/key-service.js'
import type { ServerDeps } from './server-deps.js'
import { errorMessage } from '../../support/error-message.js'

export interface OpenedEncryption {
  readonly atRest: EncryptionAtRest
  close(): void
}

/** @returns null if values are not encrypted. @throws Error for a file that cannot be used. */
export function openEncryption(
  { encryptionProviderConfig: path }: Config,
  { clock, logger, metrics }: Pick<ServerDeps, 'clock' | 'logger'> & { readonly metrics?: ServerDeps['metrics'] },
): OpenedEncryption | null {
  if (path === null) return null
  const files = watched(path, { clock, logger, metrics: metrics?.process })
  const atRest = new EncryptionAtRest({ configuration: files.value, openKeyService, clock })
  files.onChange((configuration) => atRest.configure(configuration))
  return {
    atRest,
    close: () => {
      files.close()
      atRest.close()
    },
  }
}

function watched(
  path: string,
  options: Omit<WatchedFilesOptions, 'paths'>,
): WatchedFiles<ReturnType<typeof parseEncryptionConfiguration>> {
  try {
    return new WatchedFiles({ paths: [path], ...options }, parseEncryptionConfiguration)
  } catch (error) {
    throw new Error(`--encryption-provider-config: ${path}: ${errorMessage(error)}`, { cause: error })
  }
}
