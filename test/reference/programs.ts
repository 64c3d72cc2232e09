/** Builds the Kubernetes programs for the comparison from the Go module in `kubernetes`. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { buildGoProgram, type GoProgram } from '../support/go-program.js'

const source = fileURLToPath(new URL('../../../test/reference/kubernetes/', import.meta.url))

/** The module version of Kubernetes: `v1.37.2`. */
export const kubernetesVersion = /k8s\.io\/kubernetes (v\S+)/.exec(readFileSync(`${source}go.mod`, 'utf8'))![1]!

/** Set by Kubernetes' own build; without it every program reports v0.0.0-master. */
const VERSION = 'k8s.io/component-base/version'
const [, major = '', minor = ''] = /^v(\d+)\.(\d+)/.exec(kubernetesVersion) ?? []

const kubernetesPrograms = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const

type KubernetesProgram = (typeof kubernetesPrograms)[number]

/** Their paths. */
export type Programs = Readonly<Record<KubernetesProgram, string>>

function programOf(name: KubernetesProgram): GoProgram {
  return {
    source,
    package: `k8s.io/kubernetes/cmd/${name}`,
    variables: {
      [`${VERSION}.gitVersion`]: kubernetesVersion,
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
export function buildKubernetes(name: KubernetesProgram, deadlineMs?: number): string {
  return buildGoProgram(programOf(name), deadlineMs)
}

/** Builds all programs of a comparison. @throws NoProgramError, Error as `buildGoProgram`. */
export function buildControlPlane(deadlineMs: number): Programs {
  const built = kubernetesPrograms.map((name) => [name, buildKubernetes(name, deadlineMs)] as const)
  return Object.fromEntries(built) as Programs
}
