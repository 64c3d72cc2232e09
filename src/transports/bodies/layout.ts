/** The layout of an answer that has been encoded as compact JSON: compact, indented, or YAML. */
import type { Negotiated } from '../../dialect/accept.js'
import { JsonIndenter, indentJson } from '../../codec/json-indent.js'
import { jsonToYaml } from '../../codec/json-to-yaml.js'
import type { Pieces } from './shared-body.js'

export interface Layout {
  readonly key: string
  whole(body: Buffer): Buffer
  pieces(source: Generator<Buffer | null, void, void>): Pieces
}

const NEW_LINE = Buffer.from('\n')

const asItIs: Layout = { key: 'compact', whole: (body) => body, pieces: (source) => source }

const indented: Layout = {
  key: 'indented',
  whole: (body) => Buffer.concat([indentJson(body), NEW_LINE]),
  *pieces(source) {
    const indenter = new JsonIndenter()
    for (const piece of source) yield piece === null ? null : indenter.push(piece)
    yield NEW_LINE
  },
}

/** YAML is for people, who ask for few objects, so the whole answer is converted at once. */
const yaml: Layout = {
  key: 'yaml',
  whole: (body) => Buffer.from(jsonToYaml(body)),
  *pieces(source) {
    const pieces: Buffer[] = []
    for (const piece of source) {
      if (piece === null) yield null
      else pieces.push(piece)
    }
    yield Buffer.from(jsonToYaml(Buffer.concat(pieces)))
  },
}

export function layOut(form: Negotiated, pretty: boolean): Layout {
  if (form.encoding === 'yaml') return yaml
  return pretty && form.encoding === 'json' ? indented : asItIs
}
