/**
 * Builds the Kubernetes programs from the Go module in `kubernetes`, or of the release before from that in
 * `kubernetes-1.36`, and kwok, which simulates nodes, from that in `kwok`.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildGoProgram, type GoProgram, moduleFolder } from '../support/go-program.js'

/** The releases that can be built, each with its module. */
export const kubernetesReleases = { '1.37': 'kubernetes', '1.36': 'kubernetes-1.36' } as const
export type KubernetesRelease = keyof typeof kubernetesReleases
export const CURRENT: KubernetesRelease = '1.37'

export function isRelease(text: string): text is KubernetesRelease {
  return Object.hasOwn(kubernetesReleases, text)
}

function sourceOf(release: KubernetesRelease): string {
  return fileURLToPath(new URL(`../../../test/reference/${kubernetesReleases[release]}/`, import.meta.url))
}

/** The module version of a release: `v1.37.2`. */
function versionOf(release: KubernetesRelease): string {
  return /k8s\.io\/kubernetes (v\S+)/.exec(readFileSync(`${sourceOf(release)}go.mod`, 'utf8'))![1]!
}

/** The module version of Kubernetes: `v1.37.2`. */
export const kubernetesVersion = versionOf(CURRENT)

/**
 * The package of the version variables, which Kubernetes' own build sets. Otherwise every program reports
 * v0.0.0-master.
 */
const VERSION = 'k8s.io/component-base/version'

const kubernetesPrograms = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const

type KubernetesProgram = (typeof kubernetesPrograms)[number]

/** The paths of the programs. */
export interface Programs extends Readonly<Record<KubernetesProgram, string>> {
  readonly release: KubernetesRelease
}

function programOf(name: KubernetesProgram, release: KubernetesRelease): GoProgram {
  const version = versionOf(release)
  const [, major = '', minor = ''] = /^v(\d+)\.(\d+)/.exec(version) ?? []
  return {
    source: sourceOf(release),
    package: `k8s.io/kubernetes/cmd/${name}`,
    variables: {
      [`${VERSION}.gitVersion`]: version,
      [`${VERSION}.gitMajor`]: major,
      [`${VERSION}.gitMinor`]: minor,
    },
  }
}

/**
 * The path of the program.
 *
 * @throws NoProgramError, Error as `buildGoProgram`.
 */
export function buildKubernetes(
  name: KubernetesProgram,
  deadlineMs?: number,
  release: KubernetesRelease = CURRENT,
): string {
  return buildGoProgram(programOf(name, release), deadlineMs)
}

/** Builds all programs of a comparison. @throws NoProgramError, Error as `buildGoProgram`. */
export function buildControlPlane(deadlineMs: number, release: KubernetesRelease = CURRENT): Programs {
  const built = kubernetesPrograms.map((name) => [name, buildKubernetes(name, deadlineMs, release)] as const)
  return { ...(Object.fromEntries(built) as Record<KubernetesProgram, string>), release }
}

const kwokSource = fileURLToPath(new URL('../../../test/reference/kwok/', import.meta.url))

export interface Kwok {
  readonly program: string
  /**
   * The configurations of its fast stages: a pod is ready as soon as it is bound, and gone as soon as it is deleted.
   */
  readonly stages: readonly string[]
}

/** @throws NoProgramError, Error as `buildGoProgram`. */
export function buildKwok(deadlineMs?: number): Kwok {
  const module = 'sigs.k8s.io/kwok'
  const kwok = { source: kwokSource, package: `${module}/cmd/kwok` }
  const program = buildGoProgram(kwok, deadlineMs)
  const folder = moduleFolder(kwok, module)
  const names = ['node/fast/node-initialize', 'node/heartbeat-with-lease/node-heartbeat-with-lease']
  const stages = [...names, 'pod/fast/pod-ready', 'pod/fast/pod-delete']
  return { program, stages: stages.map((name) => join(folder, 'kustomize', 'stage', `${name}.yaml`)) }
}
