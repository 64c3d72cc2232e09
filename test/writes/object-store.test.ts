/** Tests that a stored object can be read again. */
import t from 'tap'
import { MAX_JSON_DEPTH } from '../../src/codec/json-scan.js'
import { createEmbeddedUpstream } from '../../src/upstream/embedded/embedded-upstream.js'
import { writerOver } from './writer-over.js'

/** Few kinds allow deep objects; the data of a ControllerRevision is any JSON. */
function revisionOf(levels: number): string {
  const data = `${'{"m":'.repeat(levels)}1${'}'.repeat(levels)}`
  return `{"metadata":{"name":"d${levels}"},"revision":1,"data":${data}}`
}

void t.test('an object that nests to the bound is stored whole or refused, and never loses its metadata', async (t) => {
  const writer = writerOver(createEmbeddedUpstream())
  const codes = new Set<number>()
  for (let levels = MAX_JSON_DEPTH - 16; levels < MAX_JSON_DEPTH; levels++) {
    const plural = 'controllerrevisions'
    const { code, body } = await writer.ask({ verb: 'create', plural, body: revisionOf(levels) })
    codes.add(code)
    if (code === 201)
      t.match(body, { kind: 'ControllerRevision', metadata: { name: `d${levels}` } }, `${levels} levels`)
    else t.match(body, { code: 400, message: /nested more than 512 deep/ }, `${levels} levels`)
  }
  t.same(codes, new Set([201, 400]), 'both were seen')
})
