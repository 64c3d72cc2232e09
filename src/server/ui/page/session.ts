/**
 * Sends the page's requests. Where the server requires a login that the browser does not provide by itself (a client
 * certificate, a proxy that adds one), the page asks for a token. The token is kept here, in memory only: it is in no
 * storage and no URL, and a reload forgets it.
 *
 * Streams are read with `fetch` and not with EventSource, which cannot send a token. So the page needs no tickets: a
 * token works whether or not the server issues them, and a stream ends when its token does.
 */
import { byId, pause } from './elements.js'

let token: string | null = null
let asked: Promise<void> | null = null

/** Answers other than 2xx. */
class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message)
  }
}

/**
 * Waits for a token and repeats the request if the server does not know the caller.
 * @param isPage whether the page is useless without the answer, so that it also asks a known caller for another token.
 * @throws Refusal, and TypeError when there is no connection.
 */
export async function get(
  path: string,
  accept: string,
  { signal = null, isPage = false }: { readonly signal?: AbortSignal | null; readonly isPage?: boolean } = {},
): Promise<Response> {
  for (;;) {
    const used = token
    const authorization: Record<string, string> = used === null ? {} : { authorization: `Bearer ${used}` }
    const reply = await fetch(path, { headers: { accept, ...authorization }, cache: 'no-store', signal })
    if (reply.ok) return reply
    const { message = reply.statusText } = (await reply.json().catch(() => ({}))) as { message?: string }
    if (reply.status !== 401 && !(isPage && reply.status === 403)) throw new Refusal(reply.status, message)
    // Another request may have led to a new token in the meantime.
    if (used === token) await (asked ??= askForToken(used === null && reply.status === 401 ? '' : message))
  }
}

/** Shows the form until it is submitted. */
async function askForToken(reason: string): Promise<void> {
  const [form, field] = [byId<HTMLFormElement>('sign-in'), byId<HTMLInputElement>('token')]
  byId('sign-in-reason').textContent = reason === '' ? '' : `The server answered: ${reason}`
  // kubectl sends no credential over plain HTTP.
  byId('by-proxy').hidden = location.protocol !== 'https:'
  byId('proxy-command').textContent = `kubectl --server=${location.origin} proxy --port=8002`
  form.hidden = false
  field.focus()
  await new Promise<void>((resolve) => {
    form.addEventListener(
      'submit',
      (event) => {
        event.preventDefault()
        token = field.value.trim() || null
        resolve()
      },
      { once: true },
    )
  })
  field.value = ''
  form.hidden = true
  asked = null
}

/** Yields the lines of a response until it ends. */
export async function* linesOf({ body }: Response): AsyncGenerator<string> {
  const reader = body!.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const lines = (rest + value).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
}

const AGAIN_AFTER_MS = 2_000

/** Follows a stream, again and again, until the signal aborts. @param failed called each time that it ends. */
export async function keepFollowing(
  follow: () => Promise<void>,
  failed: (reason: string) => void,
  signal?: AbortSignal,
): Promise<void> {
  while (!signal?.aborted) {
    let reason = 'no connection to this server; trying again'
    try {
      await follow()
    } catch (error) {
      if (error instanceof Refusal) reason = `${error.status}: ${error.message}`
    }
    if (signal?.aborted) return
    failed(reason)
    // The pause is random, so that a restart does not bring all pages back in one moment.
    await pause(AGAIN_AFTER_MS * (0.5 + Math.random()))
  }
}
