/** Reads the facts of stored test objects as the dialect does. */
import type { FactSource } from '../../src/engine/model/fact-source.js'
import { FACT_PATHS } from '../../src/kubernetes/codec/fact-paths.js'
import { uidOf } from '../../src/kubernetes/codec/uid.js'

export function factSource(json: FactSource['json'] = ({ bytes }) => bytes): FactSource {
  return { paths: FACT_PATHS, json, identity: ({ bytes }) => uidOf(bytes) }
}
