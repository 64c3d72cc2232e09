/**
 * A served resource in the form in which it is sent to a thread or back: plain values, which a structured clone
 * preserves. Schemas are in memory that all threads share, so their size costs nothing.
 */
import { DefinedSchema } from '../codec/defined-schema.js'
import { getOrMake } from '../../support/memo.js'
import type { CustomDefinition, ServedResource } from './resource-registry.js'

export interface SharedResource extends Omit<ServedResource, 'schema' | 'definition'> {
  /** null if there is none, or if the definition already includes it. */
  readonly schema: SharedArrayBuffer | null
  readonly definition: SharedDefinition | null
}

interface SharedDefinition extends Omit<CustomDefinition, 'schemas'> {
  readonly schemas: Readonly<Record<string, SharedArrayBuffer | undefined>>
}

export function toShared({ schema, definition, ...rest }: ServedResource): SharedResource {
  if (definition === null) return { ...rest, schema: schema?.json ?? null, definition }
  const { schemas, ...more } = definition
  const shared = Object.entries(schemas).map(([version, one]) => [version, one?.json] as const)
  return { ...rest, schema: null, definition: { ...more, schemas: Object.fromEntries(shared) } }
}

/** @param schemaOf returns the schema of a version of the resource's definition. */
export function fromShared(
  resources: readonly SharedResource[],
  schemaOf: (json: SharedArrayBuffer, version: string) => DefinedSchema = (json) => new DefinedSchema(json),
): readonly ServedResource[] {
  // The versions of one definition share it in this thread as well, and so do those with the same schema.
  const definitions = new Map<SharedDefinition, CustomDefinition>()
  const made = new Map<SharedArrayBuffer, DefinedSchema>()
  const definitionOf = (shared: SharedDefinition): CustomDefinition => {
    let definition = definitions.get(shared)
    if (definition === undefined) {
      const schemas = Object.entries(shared.schemas).map(
        ([version, json]) =>
          [version, json === undefined ? undefined : getOrMake(made, json, () => schemaOf(json, version))] as const,
      )
      definitions.set(shared, (definition = { ...shared, schemas: Object.fromEntries(schemas) }))
    }
    return definition
  }
  return resources.map(({ schema: own, definition: shared, ...rest }) => {
    const definition = shared === null ? null : definitionOf(shared)
    const schema = definition?.schemas[rest.resource.version] ?? (own === null ? undefined : new DefinedSchema(own))
    return { ...rest, schema, definition }
  })
}
