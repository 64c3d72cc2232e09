/** Reads what the status page shows. */

/** Returns the stream of a page up to its first figures. */
export async function firstFigures(url: string, headers: Readonly<Record<string, string>> = {}): Promise<string> {
  const { body } = await fetch(`${url}/ui/events`, { headers })
  let text = ''
  for await (const bytes of body!.pipeThrough(new TextDecoderStream())) {
    text += bytes
    if (/^event: status\ndata: .*\n\n/m.test(text)) return text
  }
  throw new Error(`the status page shows no figures: ${text}`)
}
