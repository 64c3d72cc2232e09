/**
 * The schema of one version of a definition. It is kept as JSON text in memory that all threads share: handing it to
 * one costs no copy. Parsed, it is many times as large, so only threads that check writes or make documents do that.
 *
 * Reads need its structural form alone. That comes with the schema where a thread has made it; else it is compiled when
 * an object is first read.
 */
import { exactText, parseExactJson } from './exact-json.js'
import type { Structural } from './structural-change.js'
import { type OpenApiSchema, structuralOf } from './structural-schema.js'

export class DefinedSchema {
  #parsed: OpenApiSchema | null = null
  #structural: Structural | null

  /** @param json UTF-8. @param structural null: it is compiled when it is needed. */
  constructor(
    readonly json: SharedArrayBuffer,
    structural: Structural | null = null,
  ) {
    this.#structural = structural
  }

  static of(schema: OpenApiSchema): DefinedSchema {
    const text = exactText(schema)
    const json = new SharedArrayBuffer(Buffer.byteLength(text))
    Buffer.from(json).write(text)
    return new DefinedSchema(json)
  }

  /** The same object each time. The time that this takes is bounded by the size of a definition alone. */
  get parsed(): OpenApiSchema {
    this.#parsed ??= parseExactJson(Buffer.from(this.json)) as OpenApiSchema
    return this.#parsed
  }

  get structural(): Structural {
    this.#structural ??= structuralOf(this.#parsed ?? (parseExactJson(Buffer.from(this.json)) as OpenApiSchema))
    return this.#structural
  }
}
