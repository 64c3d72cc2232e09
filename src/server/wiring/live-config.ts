/**
 * The configuration of a running server. On SIGHUP, and when the file of `--config` changes, the server reads flags,
 * environment and file again. A configuration that changes only reloadable options is adopted; any other is rejected as
 * a whole with an explanation, so that the server never runs with half of a configuration.
 */
import type { Ambient } from '../../support/ambient.js'
import type { Timer } from '../../support/clock.js'
import { readRegularFile } from '../auth/read-regular-file.js'
import { MAX_FILE_BYTES, WatchedFiles } from '../auth/watched-file.js'
import { ConfigError } from '../config/config-error.js'
import type { Config, ConfigFile } from '../config/load.js'
import { changesBetween } from '../config/reload.js'
import type { ProcessMetrics } from '../metrics/process-metrics.js'

/** Gives stages the current values of options that may change at run time. */
export interface CurrentConfig {
  readonly current: Config
  /** Calls the listener after each adopted change. */
  onChange(listener: (config: Config) => void): void
}

export interface LiveConfigOptions extends Pick<Ambient, 'clock' | 'logger'> {
  readonly config: Config
  /** The file from which `config` was read; what differs from it is a change. */
  readonly file: ConfigFile | null
  /** Reads flags, environment and file again. @throws ConfigError */
  readonly reread: () => { readonly config: Config; readonly file: ConfigFile | null }
  readonly onLogLevel: (level: Config['logLevel']) => void
  readonly metrics: Pick<ProcessMetrics, 'filesUsable' | 'configUsable' | 'configLoaded'>
}

/** The delay before a configuration is tried again that lacks only a file. */
const RETRY_MS = 2_000

/** The file with bytes that are not UTF-8 replaced, as in `ConfigFile.text`. */
const readText = (path: string): Buffer => Buffer.from(readRegularFile(path, MAX_FILE_BYTES).toString('utf8'))

export class LiveConfig implements CurrentConfig {
  readonly #file: WatchedFiles<Buffer> | null
  readonly #listeners: ((config: Config) => void)[] = []
  #current: Config
  #adopted: ConfigFile | null
  #retry: Timer | null = null
  /** The problems logged by the last attempt, which are not logged again. */
  #problems = ''

  constructor(private readonly options: LiveConfigOptions) {
    const { config, file, metrics, clock, logger } = options
    this.#current = config
    this.#adopted = file
    this.#file =
      file === null
        ? null
        : new WatchedFiles(
            { paths: [file.path], contents: [Buffer.from(file.text)], readFile: readText, clock, logger, metrics },
            (content) => content,
          )
    this.#file?.onChange(() => this.reload())
    this.#loaded()
  }

  get current(): Config {
    return this.#current
  }

  /** The file from which the current configuration was read. */
  get file(): ConfigFile | null {
    return this.#adopted
  }

  onChange(listener: (config: Config) => void): void {
    this.#listeners.push(listener)
  }

  /** Never throws: an unacceptable configuration changes nothing. */
  reload(): void {
    this.#problems = ''
    this.#attempt()
  }

  #attempt(): void {
    const { reread, logger, metrics, onLogLevel } = this.options
    this.#retry?.cancel()
    const content = this.#content()
    try {
      const { config: next, file } = reread()
      const { reloadable, refused } = changesBetween(this.#current, next)
      if (refused.length > 0) throw new ConfigError(refused.map((flag) => `${flag} cannot change without a restart`))
      this.#current = next
      this.#adopted = file
      if (file !== null) this.#file?.took([Buffer.from(file.text)])
      onLogLevel(next.logLevel)
      for (const listener of this.#listeners) listener(next)
      logger.info({ changed: reloadable }, 'configuration reloaded')
      this.#loaded()
    } catch (error) {
      const problems = error instanceof ConfigError ? error.problems : [String(error)]
      const known = this.#problems
      this.#problems = problems.join('\n')
      if (this.#problems !== known) {
        logger.error({ problems }, 'configuration not reloaded; the previous one stays in use')
      }
      metrics.configUsable(0)
      if (content !== null) this.#file?.took([content])
      if (error instanceof ConfigError && error.mayPass)
        this.#tryAgain(content ?? Buffer.from(this.#adopted?.text ?? ''))
    }
  }

  /**
   * Tries a configuration again that lacks only a file, which may be missing for a moment. Other content may be half
   * written; it is left to the watch of the file.
   */
  #tryAgain(rejected: Buffer): void {
    this.#retry = this.options.clock.setTimer(RETRY_MS, () => {
      if (this.#content()?.equals(rejected) === true) this.#attempt()
      else this.#tryAgain(rejected)
    })
  }

  /** The content of the file; null without one, or if it cannot be read. */
  #content(): Buffer | null {
    try {
      return this.#adopted === null ? null : readText(this.#adopted.path)
    } catch {
      return null
    }
  }

  #loaded(): void {
    const { metrics, clock } = this.options
    metrics.configUsable(1)
    metrics.configLoaded(clock.now() / 1000)
  }

  close(): void {
    this.#retry?.cancel()
    this.#file?.close()
  }
}
