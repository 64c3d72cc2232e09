/**
 * A watcher light enough to run a thousand of: it records only the resourceVersions of its stream, in order. A few
 * watchers of `watch-recorder.ts` alongside check everything.
 */
import http from 'node:http'

const MARK = Buffer.from('"resourceVersion":"')

export class LightWatcher {
  readonly revisions: number[] = []
  end: 'open' | 'eof' | 'cut' = 'open'
  status = 0
  /** The ERROR in the stream, verbatim; '' without one. */
  error = ''
  readonly #request: http.ClientRequest
  #rest: Buffer = Buffer.alloc(0)
  #onChange = (): void => {}

  /** @param url of the watch, with its query. */
  constructor(
    readonly url: string,
    headers: Readonly<Record<string, string>> = {},
  ) {
    this.#request = http.get(url, { agent: false, headers }, (response) => {
      this.status = response.statusCode ?? 0
      response.on('data', (chunk: Buffer) => this.#scan(chunk))
      response.on('error', () => {})
      response.on('close', () => this.#finish(response.complete ? 'eof' : 'cut'))
      this.#onChange()
    })
    this.#request.on('error', () => this.#finish('cut'))
  }

  /** Resolves when the condition holds. @throws Error when the stream ends, or after `withinMs`. */
  until(condition: (watcher: this) => boolean, withinMs = 30_000): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => done(new Error(`not within ${withinMs} ms: ${this.revisions.length} revisions, ${this.end}`)),
        withinMs,
      )
      const done = (error: Error | null): void => {
        clearTimeout(timer)
        this.#onChange = () => {}
        if (error === null) resolve()
        else reject(error)
      }
      this.#onChange = () => {
        if (condition(this)) done(null)
        else if (this.end !== 'open') done(new Error(`ended (${this.end}, status ${this.status}) ${this.error}`))
      }
      this.#onChange()
    })
  }

  destroy(): void {
    this.#finish('cut')
    this.#request.destroy()
  }

  #scan(chunk: Buffer): void {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    // Read only whole lines, because a mark or a number may span two chunks.
    const end = bytes.lastIndexOf(10)
    this.#rest = bytes.subarray(end + 1)
    if (end < 0) return
    const error = bytes.subarray(0, end).indexOf('{"type":"ERROR"')
    if (error >= 0) this.error ||= bytes.toString('utf8', error, Math.min(end, error + 500))
    for (let at = bytes.indexOf(MARK); at >= 0 && at < end; at = bytes.indexOf(MARK, at)) {
      at += MARK.length
      let revision = 0
      for (; bytes[at] !== 34; at++) revision = revision * 10 + bytes[at]! - 48
      this.revisions.push(revision)
    }
    this.#onChange()
  }

  #finish(end: 'eof' | 'cut'): void {
    if (this.end !== 'open') return
    this.end = end
    this.#onChange()
  }
}
