/**
 * The files with which this server authenticates to others, reread when they change. New content takes effect only if
 * TLS can use it: if a certificate is renewed before its key, the previous pair stays in use.
 */
import { assertUsable } from '../../support/https-agent.js'
import { readRegularFile } from './read-regular-file.js'
import type { JsonServer } from './https-json.js'
import { IN_CLUSTER, loadKubeconfig } from './kubeconfig.js'
import { WatchedFiles, type WatchedFilesOptions } from './watched-file.js'
import { errorMessage } from '../../support/error-message.js'

type WatchDeps = Pick<WatchedFilesOptions, 'clock' | 'logger' | 'metrics' | 'intervalMs'>

/**
 * Returns the content of a kubeconfig followed by that of the files that it names.
 * @throws Error as `loadKubeconfig`.
 */
export function readKubeconfigFiles(file: string): Buffer {
  const contents = file === IN_CLUSTER ? [] : [readRegularFile(file)]
  loadKubeconfig(file, (name) => {
    const content = readRegularFile(name)
    contents.push(content)
    return content
  })
  return Buffer.concat(contents)
}

/**
 * Watches a kubeconfig together with the files that it names.
 * @throws Error that names the file and what is missing.
 */
export function watchKubeconfig(file: string, deps: WatchDeps): WatchedFiles<JsonServer> {
  return new WatchedFiles({ ...deps, paths: [file], readFile: readKubeconfigFiles }, () => {
    const server = loadKubeconfig(file)
    assertUsable(server)
    return server
  })
}

export interface CredentialFiles {
  /** null means the system's authorities. */
  readonly ca: string | null
  /** null means that this server has no certificate. */
  readonly cert: string | null
  readonly key: string | null
  /** Default: none. */
  readonly password?: string | null
}

export interface Credentials extends Readonly<Partial<Record<'ca' | 'cert' | 'key', Buffer>>> {
  /** The password without a newline at its end. */
  readonly password?: string
}

/** @param flags name the files in messages. @throws Error for an unreadable or unusable file. */
export function watchCredentials<T = Credentials>(
  { ca, cert, key, password = null }: CredentialFiles,
  flags: string,
  deps: WatchDeps,
  make: (credentials: Credentials) => T = (credentials) => credentials as T,
): WatchedFiles<T> {
  const named = Object.entries({ ca, cert, key, password }).filter(([, path]) => path !== null)
  const paths = named.map(([, path]) => path!)
  return new WatchedFiles<T>({ ...deps, paths }, (...contents) => {
    const read = Object.fromEntries(named.map(([name], i) => [name, contents[i]!]))
    const { password: secret, ...tls } = read
    try {
      assertUsable(tls)
    } catch (error) {
      throw new Error(`${flags} cannot be used (${paths.join(', ')}): ${errorMessage(error)}`, { cause: error })
    }
    return make(secret === undefined ? tls : { ...tls, password: secret.toString('utf8').replace(/\r?\n$/, '') })
  })
}
