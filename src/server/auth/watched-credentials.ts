/**
 * The files with which this server authenticates to others, reread when they change. New content takes effect only if TLS can
 * use it: if a certificate is renewed before its key, the previous pair stays in force.
 */
import { readFileSync } from 'node:fs'
import { assertUsable, type TlsClientOptions } from '../../support/https-agent.js'
import type { JsonServer } from './https-json.js'
import { loadKubeconfig } from './kubeconfig.js'
import { WatchedFiles, type WatchedFilesOptions } from './watched-file.js'

type Surroundings = Pick<WatchedFilesOptions, 'clock' | 'logger' | 'intervalMs'>

/** Returns the content of a kubeconfig followed by that of the files that it names. @throws Error as `loadKubeconfig`. */
export function readKubeconfigFiles(file: string): Buffer {
  const contents = [readFileSync(file)]
  loadKubeconfig(file, (name) => {
    const content = readFileSync(name)
    contents.push(content)
    return content
  })
  return Buffer.concat(contents)
}

/** Watches a kubeconfig together with the files that it names. @throws Error that names the file and what is missing. */
export function watchKubeconfig(file: string, surroundings: Surroundings): WatchedFiles<JsonServer> {
  return new WatchedFiles({ ...surroundings, paths: [file], readFile: readKubeconfigFiles }, () => {
    const server = loadKubeconfig(file)
    assertUsable(server)
    return server
  })
}

export interface CredentialFiles {
  /** null: the system's authorities. */
  readonly ca: string | null
  /** null: this server has no certificate. */
  readonly cert: string | null
  readonly key: string | null
}

/** @throws Error for an unreadable or unusable file. */
export function watchCredentials(
  { ca, cert, key }: CredentialFiles,
  surroundings: Surroundings,
): WatchedFiles<Pick<TlsClientOptions, 'ca' | 'cert' | 'key'>> {
  const files = [ca, cert, key]
  const paths = files.filter((path) => path !== null)
  return new WatchedFiles<Pick<TlsClientOptions, 'ca' | 'cert' | 'key'>>({ ...surroundings, paths }, (...contents) => {
    const [authorities, certificate, secret] = files.map((path) => (path === null ? undefined : contents.shift()))
    const tls = {
      ...(authorities === undefined ? {} : { ca: authorities }),
      ...(certificate === undefined ? {} : { cert: certificate }),
      ...(secret === undefined ? {} : { key: secret }),
    }
    assertUsable(tls)
    return tls
  })
}
