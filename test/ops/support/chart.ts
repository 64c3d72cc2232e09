/** The chart, rendered by our own small renderer and, if installed, by helm itself. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parse, parseAllDocuments } from 'yaml'
import { GoTemplates, mergeValues } from './go-template.js'
import { findHelm } from './helm-binary.js'
import type { KubernetesObject } from './kubernetes-objects.js'

export const chartFolder = fileURLToPath(new URL('../../../../helm/distributary/', import.meta.url))

export interface Release {
  readonly Name: string
  readonly Namespace: string
  readonly Service: 'Helm'
}

export const RELEASE: Release = { Name: 'try', Namespace: 'somewhere', Service: 'Helm' }

/** The release of Kubernetes for which manifests are rendered. */
export const KUBERNETES = 'v1.37.2'

export type Values = Record<string, unknown>

function text(path: string): string {
  return readFileSync(chartFolder + path, 'utf8')
}

export const defaultValues = (): Values => parse(text('values.yaml')) as Values

/** The supported modes of the chart: values by the name of their file in `ci/`. */
export function modeValues(): ReadonlyMap<string, Values> {
  const files = readdirSync(`${chartFolder}ci`).sort()
  return new Map(files.map((file) => [file.replace(/\.yaml$/, ''), parse(text(`ci/${file}`)) as Values]))
}

export interface RenderOptions {
  /** The objects that are already installed, which `lookup` finds. */
  readonly cluster?: readonly KubernetesObject[]
  readonly release?: Release
  readonly kubernetes?: string
}

export interface Rendered {
  readonly objects: KubernetesObject[]
  readonly notes: string
}

/** @throws TemplateError, and Error for output that is not YAML. */
export function renderChart(
  values: Values,
  { cluster = [], release = RELEASE, kubernetes = KUBERNETES }: RenderOptions = {},
): Rendered {
  const chart = parse(text('Chart.yaml')) as { name: string; version: string; appVersion: string }
  const dot = {
    Values: mergeValues(defaultValues(), structuredClone(values)),
    Chart: { Name: chart.name, Version: chart.version, AppVersion: chart.appVersion },
    Release: release,
    Capabilities: { KubeVersion: { Version: kubernetes } },
    Files: { Get: (path: unknown) => text(String(path)) },
  }
  const templates = new GoTemplates(cluster)
  const files = readdirSync(`${chartFolder}templates`, { recursive: true, encoding: 'utf8' }).filter((file) =>
    /\.(yaml|tpl|txt)$/.test(file),
  )
  for (const file of files) templates.add(file, text(`templates/${file}`))
  const objects = files
    .filter((file) => file.endsWith('.yaml'))
    .sort()
    .flatMap((file) => parseManifests(templates.render(file, dot), file))
  return { objects, notes: templates.render('NOTES.txt', dot) }
}

export function parseManifests(yaml: string, from: string): KubernetesObject[] {
  return parseAllDocuments(yaml).flatMap((document) => {
    const [error] = [...document.errors, ...document.warnings]
    if (error !== undefined) throw new Error(`${from}: ${error.message}\n${yaml}`)
    const object = document.toJS() as KubernetesObject | null
    return object === null ? [] : [object]
  })
}

export const helm = findHelm()

interface HelmRun {
  readonly output: string
  readonly problem: string | null
}

/** @param values, or the name of a file in `ci/`, which helm then reads itself. */
function runHelm(args: readonly string[], values: Values | string): HelmRun {
  if (helm === null) throw new Error('no helm here')
  const source = typeof values === 'string' ? `${chartFolder}ci/${values}.yaml` : '-'
  const { status, stdout, stderr } = spawnSync(helm, [...args, '--values', source], {
    input: JSON.stringify(values),
    encoding: 'utf8',
  })
  return { output: stdout, problem: status === 0 ? null : `${stdout}${stderr}` }
}

export function renderWithHelm(
  values: Values | string,
  kubernetes = KUBERNETES,
): { objects: KubernetesObject[]; problem: string | null } {
  const where = ['--namespace', RELEASE.Namespace, '--kube-version', kubernetes]
  const { output, problem } = runHelm(['template', RELEASE.Name, chartFolder, ...where], values)
  return { objects: problem === null ? parseManifests(output, 'helm template') : [], problem }
}

export function lintWithHelm(values: Values | string): string | null {
  return runHelm(['lint', '--strict', '--namespace', RELEASE.Namespace, chartFolder], values).problem
}
