import { definitionObject } from '../../support/definition.js'

/** A custom kind, for clients that are operators. */
export const widgetDefinition = definitionObject({
  group: 'example.com',
  plural: 'widgets',
  kind: 'Widget',
  scope: 'Namespaced',
  versions: [{ name: 'v1', storage: true, subresources: { status: {} } }],
})

export const definitionsPath = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
export const widgetsPath = '/apis/example.com/v1/namespaces/default/widgets'

export interface Widget {
  readonly metadata: { readonly name: string; readonly finalizers?: readonly string[] }
  readonly spec: { readonly size: number }
  readonly status?: { readonly size?: number }
}

export const widget = (name: string, size: number): object => ({
  apiVersion: 'example.com/v1',
  kind: 'Widget',
  metadata: { name, namespace: 'default', uid: `uid-${name}`, creationTimestamp: '2026-01-01T00:00:00Z' },
  spec: { size },
})
