/**
 * The parts that all Kubernetes objects of the demo share: their type, metadata, etcd keys, identities and times. The
 * builders beside it are pure functions from names, times and random identities to what the API server would have
 * stored (so there is no `metadata.resourceVersion`). Objects have only the members that something reads: what kubectl
 * and dashboards show, what selectors select, what owners count.
 */
import { type Key, keyFromText } from '../../../model/event.js'
import { randomInteger, type Random } from '../../../../support/random.js'

export interface OwnerReference {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly uid: string
  readonly controller: true
  readonly blockOwnerDeletion: true
}

export interface Metadata {
  name: string
  namespace?: string
  uid: string
  creationTimestamp: string
  generation?: number
  deletionTimestamp?: string
  deletionGracePeriodSeconds?: number
  labels?: Record<string, string>
  annotations?: Record<string, string>
  ownerReferences?: OwnerReference[]
  [member: string]: unknown
}

export interface KubeObject {
  readonly apiVersion: string
  readonly kind: string
  metadata: Metadata
  [member: string]: unknown
}

/** Makes the identities and times of one demo cluster. */
export interface Mint {
  readonly random: Random
  /** Milliseconds since the epoch. */
  now(): number
}

/** The paths below `/registry/`, as a kube-apiserver names them. */
const paths: Readonly<Record<string, string>> = {
  ConfigMap: 'configmaps',
  CustomResourceDefinition: 'apiextensions.k8s.io/customresourcedefinitions',
  Canary: 'delivery.example.com/canaries',
  DaemonSet: 'daemonsets',
  Deployment: 'deployments',
  Endpoints: 'services/endpoints',
  Event: 'events',
  Lease: 'leases',
  Namespace: 'namespaces',
  Node: 'minions',
  Pod: 'pods',
  ReplicaSet: 'replicasets',
  Secret: 'secrets',
  Service: 'services/specs',
  ServiceAccount: 'serviceaccounts',
  StatefulSet: 'statefulsets',
}

/** Returns the prefix of a kind, or of one namespace of it; it ends in '/'. */
export function kindPrefix(kind: string, namespace?: string): Key {
  return keyFromText(`/registry/${paths[kind] ?? kind}/${namespace === undefined ? '' : `${namespace}/`}`)
}

export function keyOf({ kind, metadata: { namespace, name } }: KubeObject): Key {
  return (kindPrefix(kind, namespace) + keyFromText(name)) as Key
}

/** RFC 3339 with seconds, as `metav1.Time` is written. */
export function timestamp(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`
}

/** With microseconds, as `metav1.MicroTime` is written. */
export function microTimestamp(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 23)}000Z`
}

export function newUid(random: Random): string {
  const hex = (digits: number): string =>
    Array.from({ length: digits }, () => randomInteger(random, 0, 15).toString(16)).join('')
  return `${hex(8)}-${hex(4)}-4${hex(3)}-${'89ab'[randomInteger(random, 0, 3)]}${hex(3)}-${hex(12)}`
}

/** The letters from which Kubernetes generates names, which spell no words. */
export function nameSuffix(random: Random, length: number): string {
  const letters = 'bcdfghjklmnpqrstvwxz2456789'
  return Array.from({ length }, () => letters[randomInteger(random, 0, letters.length - 1)]).join('')
}

export function newMetadata(mint: Mint, name: string, namespace?: string, ageMs = 0): Metadata {
  return {
    name,
    ...(namespace === undefined ? {} : { namespace }),
    uid: newUid(mint.random),
    creationTimestamp: timestamp(mint.now() - ageMs),
  }
}

export function ownerReference(owner: KubeObject): OwnerReference {
  const { apiVersion, kind, metadata } = owner
  const { name, uid } = metadata
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true }
}
