/**
 * The resources and objects that exist at one revision, read from the API server while nothing is written. Questions
 * are made from them.
 */
import type { Definition } from './definition.js'
import type { DefinitionSet } from './definition-set.js'
import type { Moment, Shelf } from './questions.js'
import { get, settle, type World } from './world.js'

interface Listed {
  readonly items?: readonly {
    readonly metadata: { readonly name: string; readonly namespace?: string; readonly resourceVersion: string }
  }[]
}

export async function readMoment(
  world: World,
  { values }: DefinitionSet,
  definitions: readonly Definition[],
): Promise<Moment> {
  const shelves: Shelf[] = []
  for (const { group, plural, scope, versions, isRefused } of definitions) {
    if (isRefused === true) continue
    const stored = versions.find(({ storage }) => storage)?.name ?? ''
    const objects = await listed(world, `/apis/${group}/${stored}/${plural}`)
    for (const { name, served, subresources, selectableFields } of versions) {
      if (served === false) continue
      shelves.push({
        group,
        version: name,
        plural,
        isNamespaced: scope === 'Namespaced',
        subresources: Object.keys(subresources ?? {}),
        fields: (selectableFields ?? []).map((jsonPath) => jsonPath.slice(1)),
        objects,
      })
    }
  }
  const definitionObjects = await listed(world, '/apis/apiextensions.k8s.io/v1/customresourcedefinitions')
  shelves.push({
    group: 'apiextensions.k8s.io',
    version: 'v1',
    plural: 'customresourcedefinitions',
    isNamespaced: false,
    subresources: ['status'],
    fields: [],
    objects: definitionObjects,
  })
  return { shelves, values, revision: await settle(world) }
}

/** Nothing where the list cannot be shown in the stored version. */
async function listed(world: World, path: string): Promise<Shelf['objects']> {
  const answer = await get(world.theirs, path)
  if (answer.code !== 200) return []
  const { items = [] } = JSON.parse(answer.body.toString()) as Listed
  return items.map(({ metadata }) => ({
    name: metadata.name,
    namespace: metadata.namespace ?? '',
    revision: Number(metadata.resourceVersion),
  }))
}
