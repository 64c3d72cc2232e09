#!/usr/bin/env node
/**
 * Checks before a release (`npm run release:check`): no shipped package has a known vulnerability, and a list of the shipped packages is written.
 *
 * `npm audit` asks the registry. If the registry cannot be reached the check fails, because "not checked" is not
 * "clean". `--offline` says so and continues with the rest. The list is `sbom.cdx.json` (CycloneDX, `npm sbom`), to be
 * published with the release. Exit: 0 ready, 1 not, 2 a wrong argument.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'

/** How npm marks packages that are only for development. */
const DEVELOPMENT = 'cdx:npm:package:development'

const known = new Set(['--offline'])
const unknown = process.argv.slice(2).filter((argument) => !known.has(argument))
if (unknown.length > 0) {
  process.stderr.write(`release check: unknown argument ${unknown.join(' ')}; the only one is --offline\n`)
  process.exit(2)
}
const isOffline = process.argv.includes('--offline')
const problems = [...(isOffline ? [] : audit()), ...billOfMaterials()]
if (isOffline) process.stdout.write('release check: --offline: did not check for known vulnerabilities\n')
for (const problem of problems) process.stderr.write(`release check: ${problem}\n`)
process.stdout.write(problems.length === 0 ? 'release check: ready\n' : 'release check: NOT ready\n')
process.exit(problems.length === 0 ? 0 : 1)

/** Only dependencies that are installed with the package: development tools are not shipped. */
function audit() {
  const { status, json, said } = npm('audit', '--omit=dev', '--json')
  const counts = json?.metadata?.vulnerabilities
  if (counts === undefined) {
    return [`cannot check for known vulnerabilities (${said}): try again with a network, or use --offline`]
  }
  if (status === 0 && counts.total === 0) {
    process.stdout.write(`release check: no known vulnerabilities in ${json.metadata.dependencies.prod} packages\n`)
    return []
  }
  return Object.values(json.vulnerabilities ?? {}).map(({ name, severity, range }) => `${name} ${range}: known vulnerability, severity ${severity}`)
}

/**
 * `npm sbom --omit=dev` leaves out what a development tool depends on as well (npm 10: jose, ws, yaml), so the complete
 * list is requested, and packages that are only for development are removed here.
 */
function billOfMaterials() {
  const { json, said } = npm('sbom', '--sbom-format=cyclonedx', '--sbom-type=application')
  if (!Array.isArray(json?.components)) return [`no bill of materials: ${said}`]
  const components = json.components.filter(({ properties = [] }) => !properties.some(({ name }) => name === DEVELOPMENT))
  const refs = new Set([json.metadata.component['bom-ref'], ...components.map((one) => one['bom-ref'])])
  const dependencies = json.dependencies
    .filter(({ ref }) => refs.has(ref))
    .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter((one) => refs.has(one)) }))
  const listed = new Set(components.map(({ purl }) => decodeURIComponent(purl)))
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'))
  const lacking = Object.entries(packages)
    .filter(([path, { dev, devOptional, optional }]) => path !== '' && !dev && !devOptional && !optional)
    .map(([path, { name = path.slice(path.lastIndexOf('node_modules/') + 13), version }]) => `pkg:npm/${name}@${version}`)
    .filter((purl) => !listed.has(purl))
  if (lacking.length > 0) return [`the bill of materials lacks ${lacking.join(', ')}`]
  writeFileSync('sbom.cdx.json', `${JSON.stringify({ ...json, components, dependencies }, null, 2)}\n`)
  process.stdout.write(`release check: sbom.cdx.json names ${components.length} packages\n`)
  return []
}

/** @returns its JSON, undefined when it printed none, and its first words in one line. */
function npm(...args) {
  const { status, stdout, stderr } = spawnSync('npm', args, { encoding: 'utf8', maxBuffer: 2 ** 28 })
  let json
  try {
    json = JSON.parse(stdout)
  } catch {
    json = undefined
  }
  const said = json?.message ?? `${stderr}`.split('\n').find((line) => line.includes('error')) ?? 'npm said nothing'
  return { status, json, said: String(said).replace(/\s+/g, ' ').slice(0, 200) }
}
