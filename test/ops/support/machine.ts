/**
 * A pod of the chart on this machine: its files as Kubernetes would mount them, its arguments and environment as
 * rendered, with folders and addresses replaced. Nothing else is added.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Test } from 'tap'
import { parse, stringify } from 'yaml'
import type { KubernetesObject } from './kubernetes-objects.js'

/** The data of each Secret, by name and key. */
export type Secrets = Readonly<Record<string, Readonly<Record<string, string>>>>

interface SecretSource {
  readonly name: string
  readonly items?: readonly { readonly key: string; readonly path: string }[]
}

interface Volume {
  readonly name: string
  readonly configMap?: { readonly name: string }
  readonly secret?: { readonly secretName: string }
  readonly projected?: { readonly sources: readonly { readonly secret: SecretSource }[] }
  readonly hostPath?: { readonly path: string }
  readonly emptyDir?: object
}

interface Variable {
  readonly name: string
  readonly value?: string
  readonly valueFrom?: {
    readonly secretKeyRef?: { readonly name: string; readonly key: string }
    readonly fieldRef?: { readonly fieldPath: string }
  }
}

export interface Container {
  readonly name: string
  readonly args: readonly string[]
  readonly env?: readonly Variable[]
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string; readonly subPath?: string }[]
  readonly readinessProbe: { readonly httpGet: { readonly scheme?: 'HTTPS'; readonly path: string } }
}

interface PodSpec {
  readonly containers: readonly Container[]
  readonly volumes: readonly Volume[]
}

export interface PlacedContainer {
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  readonly scheme: 'http' | 'https'
  /** Returns where a file of the container is on this machine. */
  place(path: string): string
}

export interface Placement {
  readonly objects: readonly KubernetesObject[]
  /** Existing Secrets. */
  readonly secrets?: Secrets
  /** Files of the node by path. */
  readonly hostFiles?: Readonly<Record<string, string>>
  readonly podName?: string
  /** Applied to files and arguments, last of all. */
  readonly replace?: (text: string) => string
}

/** Places the first container of that name in the objects' pods. */
export function placeContainer(t: Pick<Test, 'teardown'>, name: string, placement: Placement): PlacedContainer {
  const { objects, podName = 'pod', replace = (text: string) => text } = placement
  const pod = objects.map(podSpecOf).find((spec) => spec?.containers.some((container) => container.name === name))
  if (!pod) throw new Error(`no container ${name}`)
  const container = pod.containers.find((one) => one.name === name)!
  const folder = mkdtempSync(join(tmpdir(), 'distributary-pod-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const mountPaths = container.volumeMounts.map(({ mountPath }) => mountPath)
  // A path may be the prefix of another: the longest match comes first, and only whole paths match.
  const pattern = new RegExp(
    `(?<![\\w.-])(${mountPaths.toSorted((a, b) => b.length - a.length).join('|')})(?![\\w.-])`,
    'g',
  )
  const move = (text: string): string => replace(text.replaceAll(pattern, (path) => join(folder, path)))

  for (const { name: volumeName, mountPath, subPath } of container.volumeMounts) {
    const volume = pod.volumes.find((one) => one.name === volumeName) ?? { name: volumeName, emptyDir: {} }
    const files = filesOf(volume, placement)
    if (subPath !== undefined) {
      const content = files[subPath]
      if (content === undefined) throw new Error(`${volumeName} has no ${subPath}`)
      put(join(folder, mountPath), move(content))
      continue
    }
    mkdirSync(join(folder, mountPath), { recursive: true })
    for (const [path, content] of Object.entries(files)) {
      const isText = volume.configMap !== undefined
      put(join(folder, mountPath, path), isText ? move(content) : content)
    }
  }

  const environment: Record<string, string> = {}
  for (const { name: variable, value, valueFrom } of container.env ?? []) {
    const { secretKeyRef, fieldRef } = valueFrom ?? {}
    if (secretKeyRef !== undefined) environment[variable] = secretOf(placement, secretKeyRef.name)[secretKeyRef.key]!
    else if (fieldRef?.fieldPath === 'metadata.name') environment[variable] = podName
    else if (fieldRef?.fieldPath === 'metadata.uid') environment[variable] = `uid-of-${podName}`
    else environment[variable] = value ?? ''
  }
  const expand = (text: string): string => text.replaceAll(/\$\((\w+)\)/g, (_, variable) => environment[variable]!)
  return {
    args: container.args.map((arg) => move(expand(arg))),
    environment,
    scheme: container.readinessProbe.httpGet.scheme === 'HTTPS' ? 'https' : 'http',
    place: (path) => join(folder, path),
  }
}

function podSpecOf(object: KubernetesObject): PodSpec | undefined {
  const spec = object['spec'] as { template?: { spec?: PodSpec } } | undefined
  return spec?.template?.spec
}

function filesOf(volume: Volume, placement: Placement): Readonly<Record<string, string>> {
  const { configMap, secret, projected, hostPath } = volume
  if (configMap !== undefined) {
    const map = placement.objects.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === configMap.name)
    if (map === undefined) throw new Error(`no ConfigMap ${configMap.name}`)
    return map['data'] as Record<string, string>
  }
  if (secret !== undefined) return secretOf(placement, secret.secretName)
  if (projected !== undefined) {
    const files: Record<string, string> = {}
    for (const { secret: source } of projected.sources) {
      const all = secretOf(placement, source.name)
      for (const { key, path } of source.items ?? []) {
        if (all[key] === undefined) throw new Error(`Secret ${source.name} has no ${key}`)
        files[path] = all[key]
      }
    }
    return files
  }
  if (hostPath === undefined) return {}
  const files = Object.entries(placement.hostFiles ?? {}).filter(([path]) => dirname(path) === hostPath.path)
  return Object.fromEntries(files.map(([path, content]) => [path.slice(hostPath.path.length + 1), content]))
}

/** Returns the data of a Secret. As in the chart, an existing Secret takes precedence over the one being installed. */
export function secretOf({ objects, secrets = {} }: Placement, name: string): Readonly<Record<string, string>> {
  const old = secrets[name]
  if (old !== undefined) return old
  const installed = objects.find(({ kind, metadata }) => kind === 'Secret' && metadata.name === name)
  if (installed === undefined) throw new Error(`no Secret ${name}`)
  const data = Object.entries(installed['data'] as Record<string, string>)
  return Object.fromEntries(data.map(([key, text]) => [key, Buffer.from(text, 'base64').toString()]))
}

/** The server's configuration with other addresses; only rendered ones can be replaced. */
export function readdress(config: string, addresses: Readonly<Record<string, unknown>>): string {
  const values = parse(config) as Record<string, unknown>
  for (const [key, value] of Object.entries(addresses)) {
    if (!(key in values)) throw new Error(`the configuration has no ${key}`)
    values[key] = value
  }
  return stringify(values)
}

function put(path: string, content: string): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, content, { mode: 0o600 })
}
