/** The chart, rendered by our own small renderer and, where it is installed, by helm itself. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parse, parseAllDocuments } from 'yaml'
import { GoTemplates, mergeOverwrite } from './go-template.js'
import type { KubernetesObject } from './kubernetes-objects.js'

export const chartFolder = fileURLToPath(new URL('../../../../helm/distributary/', import.meta.url))
/** Of what is not in the values. */
const RELEASE = { Name: 'try', Namespace: 'somewhere', Service: 'Helm' }

export type Values = Record<string, unknown>

function text(path: string): string {
  return readFileSync(chartFolder + path, 'utf8')
}

export const defaultValues = (): Values => parse(text('values.yaml')) as Values

/** Manifests by the file they come from. @throws TemplateError, and Error for what is not YAML. */
export function renderChart(values: Values): { objects: KubernetesObject[]; notes: string } {
  const chart = parse(text('Chart.yaml')) as { name: string; version: string; appVersion: string }
  const dot = {
    Values: mergeOverwrite(defaultValues(), structuredClone(values)),
    Chart: { Name: chart.name, Version: chart.version, AppVersion: chart.appVersion },
    Release: RELEASE,
    Files: { Get: (path: unknown) => text(String(path)) },
  }
  const templates = new GoTemplates()
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

const helm = process.env['HELM_BIN'] ?? 'helm'

export const hasHelm = spawnSync(helm, ['version', '--short']).status === 0

export function renderWithHelm(values: Values): { objects: KubernetesObject[]; problem: string | null } {
  const args = ['template', RELEASE.Name, chartFolder, '--namespace', RELEASE.Namespace, '--kube-version', '1.30.0']
  const { status, stdout, stderr } = spawnSync(helm, [...args, '--values', '-'], {
    input: JSON.stringify(values),
    encoding: 'utf8',
  })
  return status === 0
    ? { objects: parseManifests(stdout, 'helm template'), problem: null }
    : { objects: [], problem: stderr }
}
