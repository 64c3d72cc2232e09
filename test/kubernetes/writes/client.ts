/** An API client for tables of requests: the test names the request, and gets the whole response. */
export interface Answer {
  readonly code: number
  readonly headers: Headers
  readonly text: string
  /** The parsed body, with numbers as JavaScript reads them. */
  readonly body: Body
}

export interface Body {
  readonly [name: string]: unknown
  readonly kind?: string
  readonly reason?: string
  readonly message?: string
  readonly metadata?: { readonly [name: string]: unknown; readonly resourceVersion?: string; readonly uid?: string }
}

export type Send = (
  method: string,
  path: string,
  body?: unknown,
  headers?: Readonly<Record<string, string>>,
) => Promise<Answer>

export const MERGE = { 'content-type': 'application/merge-patch+json' }
export const JSON_PATCH = { 'content-type': 'application/json-patch+json' }
export const STRATEGIC = { 'content-type': 'application/strategic-merge-patch+json' }
export const APPLY = { 'content-type': 'application/apply-patch+yaml' }

/** @param url the server's URL. A body that is text is sent unchanged. */
export function clientOf(url: string): Send {
  return async (method, path, body, headers = {}) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    return { code: response.status, headers: response.headers, text, body: text === '' ? {} : parse(text) }
  }
}

function parse(text: string): Body {
  try {
    return JSON.parse(text) as Body
  } catch {
    return {}
  }
}

export const CONFIG_MAPS = '/api/v1/namespaces/default/configmaps'

export function configMap(name: string, data: Readonly<Record<string, string>> = {}, metadata: object = {}): object {
  return { kind: 'ConfigMap', apiVersion: 'v1', metadata: { name, ...metadata }, data }
}

export interface WatchedEvent {
  readonly type: string
  readonly object: { readonly metadata: { readonly name: string; readonly resourceVersion: string } }
}

/** Yields the events of a watch, which ends with the test. @param from the resourceVersion of the list before it. */
export async function* eventsOf(
  t: { teardown(end: () => void): unknown },
  url: string,
  path: string,
  from: string | undefined,
): AsyncGenerator<WatchedEvent, void, void> {
  const abort = new AbortController()
  t.teardown(() => abort.abort())
  const response = await fetch(`${url}${path}?watch=1&resourceVersion=${from}`, { signal: abort.signal })
  let rest = ''
  for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split('\n')
    rest = lines.pop()!
    for (const line of lines) yield JSON.parse(line) as WatchedEvent
  }
}
