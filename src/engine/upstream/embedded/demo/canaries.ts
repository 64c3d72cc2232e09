/** Builds the demo's custom resource: its definition, and objects of it. */
import { type KubeObject, type Mint, newMetadata, timestamp } from './kube-object.js'

export function newCanaryDefinition(mint: Mint, ageMs: number): KubeObject {
  const names = { plural: 'canaries', singular: 'canary', kind: 'Canary', listKind: 'CanaryList', shortNames: ['cn'] }
  const at = timestamp(mint.now() - ageMs)
  const object = (properties: object): object => ({ type: 'object', properties })
  return {
    kind: 'CustomResourceDefinition',
    apiVersion: 'apiextensions.k8s.io/v1',
    metadata: { ...newMetadata(mint, 'canaries.delivery.example.com', undefined, ageMs), generation: 1 },
    spec: {
      group: 'delivery.example.com',
      names: { ...names, categories: ['all'] },
      scope: 'Namespaced',
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          schema: {
            openAPIV3Schema: object({
              apiVersion: { type: 'string' },
              kind: { type: 'string' },
              metadata: { type: 'object' },
              spec: object({ targetRef: object({ name: { type: 'string' } }), stepWeight: { type: 'integer' } }),
              status: object({ phase: { type: 'string' }, canaryWeight: { type: 'integer' } }),
            }),
          },
          subresources: { status: {} },
          additionalPrinterColumns: [
            { name: 'Target', type: 'string', jsonPath: '.spec.targetRef.name' },
            { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
            { name: 'Weight', type: 'integer', jsonPath: '.status.canaryWeight' },
            { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
          ],
        },
      ],
      conversion: { strategy: 'None' },
    },
    status: {
      acceptedNames: { ...names, categories: ['all'] },
      conditions: [
        {
          type: 'NamesAccepted',
          status: 'True',
          lastTransitionTime: at,
          reason: 'NoConflicts',
          message: 'no conflicts found',
        },
        {
          type: 'Established',
          status: 'True',
          lastTransitionTime: at,
          reason: 'InitialNamesAccepted',
          message: 'accepted',
        },
      ],
      storedVersions: ['v1'],
    },
  }
}

export function newCanary(mint: Mint, namespace: string, name: string, stepWeight: number, ageMs: number): KubeObject {
  return {
    apiVersion: 'delivery.example.com/v1',
    kind: 'Canary',
    metadata: { ...newMetadata(mint, name, namespace, ageMs), generation: 1, labels: { app: name } },
    spec: { targetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name }, stepWeight },
    status: { phase: 'Succeeded', canaryWeight: 0, lastTransitionTime: timestamp(mint.now() - ageMs) },
  }
}
