/** Lays out a response that was encoded as compact JSON: unchanged, indented or as YAML. */
import { type Negotiated, isPretty } from '../../../kubernetes/dialect/accept.js'
import type { Query } from '../../../kubernetes/dialect/query.js'
import { JsonIndenter } from '../../../kubernetes/codec/json-indent.js'
import { YamlWriter, yamlSteps } from '../../../kubernetes/codec/json-to-yaml.js'
import { stepsInTurns, turns } from '../../../support/turns.js'
import type { Pieces } from './shared-body.js'

export interface Layout {
  readonly key: string
  /** Lays out a whole response, yielding to the event loop if it is large. */
  whole(body: Buffer): Promise<Buffer>
  /** @param source yields pieces, each of which except the last ends with a whole item of the list. */
  pieces(source: Generator<Buffer | null, void, void>): Pieces
}

const NEW_LINE = Buffer.from('\n')
/** Indenting this takes a millisecond or two. */
const PART_BYTES = 64 * 1024

const asItIs: Layout = { key: 'compact', whole: (body) => Promise.resolve(body), pieces: (source) => source }

const indented: Layout = {
  key: 'indented',
  async whole(body) {
    const indenter = new JsonIndenter()
    const parts: Buffer[] = []
    for (let at = 0; at < body.length; at += PART_BYTES) {
      if (at > 0 && turns.isOver) await turns.take()
      parts.push(indenter.push(body.subarray(at, at + PART_BYTES)))
    }
    return Buffer.concat([...parts, NEW_LINE])
  },
  *pieces(source) {
    const indenter = new JsonIndenter()
    let held: Buffer | null = null
    for (const piece of source) {
      if (piece === null) {
        yield null
        continue
      }
      if (held !== null) yield held
      held = Buffer.concat(yield* inParts(indenter, piece))
    }
    // As a separate piece, the new line would make a small response look like a large one.
    yield held === null ? NEW_LINE : Buffer.concat([held, NEW_LINE])
  },
}

const yaml: Layout = {
  key: 'yaml',
  async whole(body) {
    return Buffer.from(await inTurns(yamlSteps(body)))
  },
  *pieces(source) {
    const writer = new YamlWriter()
    for (const piece of source) {
      if (piece === null) yield null
      else yield yield* stepsInTurns(writer.push(piece))
    }
  },
}

async function inTurns<R>(steps: Generator<void, R, void>): Promise<R> {
  while (true) {
    const step = steps.next()
    if (step.done) return step.value
    if (turns.isOver) await turns.take()
  }
}

function* inParts(indenter: JsonIndenter, piece: Buffer): Generator<null, Buffer[], void> {
  const parts: Buffer[] = []
  for (let at = 0; at < piece.length; at += PART_BYTES) {
    if (at > 0 && turns.isOver) yield null
    parts.push(indenter.push(piece.subarray(at, at + PART_BYTES)))
  }
  return parts
}

/** The parts of a request that show whether its response is for people to read. */
interface LayoutRequest {
  readonly query: Query
  readonly requestHeaders: { readonly 'user-agent'?: string | undefined }
}

/** @param byUserAgent false for a public response, which must not depend on the client. */
export function layOut({ query, requestHeaders }: LayoutRequest, form: Negotiated, byUserAgent = true): Layout {
  if (form.encoding === 'yaml') return yaml
  return isPretty(form, query, byUserAgent ? requestHeaders['user-agent'] : undefined) ? indented : asItIs
}
