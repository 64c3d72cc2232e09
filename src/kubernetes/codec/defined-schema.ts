/**
 * The schema of one version of a definition. It is kept as JSON text in memory that all threads share, so passing it
 * to a thread costs no copy. The parsed schema is many times larger, so only threads that check writes or build
 * documents parse it.
 *
 * Reads need only the schema's structural form. A thread that has compiled the schema sends that form along;
 * otherwise it is compiled when an object is first read.
 */
import { exactText, parseExactJson } from './exact-json.js'
import { changeAlike, type Structural } from './structural-change.js'
import { type OpenApiSchema, structuralOf } from './structural-schema.js'

export class DefinedSchema {
  #parsed: OpenApiSchema | null = null
  #structural: Structural | null

  /** @param json UTF-8. @param structural the structural form; null to compile it when needed. */
  constructor(
    readonly json: SharedArrayBuffer,
    structural: Structural | null = null,
  ) {
    this.#structural = structural
  }

  static of(schema: OpenApiSchema): DefinedSchema {
    return DefinedSchema.ofText(exactText(schema))
  }

  /** @param text from `exactText`. */
  static ofText(text: string): DefinedSchema {
    const json = new SharedArrayBuffer(Buffer.byteLength(text))
    Buffer.from(json).write(text)
    return new DefinedSchema(json)
  }

  /** Always returns the same object. Only the size of a definition limits the time that parsing takes. */
  get parsed(): OpenApiSchema {
    this.#parsed ??= parseExactJson(Buffer.from(this.json)) as OpenApiSchema
    return this.#parsed
  }

  /** Whether an object that a server has already read under one of the schemas reads the same under the other. */
  static readAlike(a: DefinedSchema | undefined, b: DefinedSchema | undefined): boolean {
    if (a === undefined || b === undefined) return a === b
    return a === b || Buffer.from(a.json).equals(Buffer.from(b.json)) || changeAlike(a.structural, b.structural)
  }

  get structural(): Structural {
    this.#structural ??= structuralOf(this.#parsed ?? (parseExactJson(Buffer.from(this.json)) as OpenApiSchema))
    return this.#structural
  }
}
