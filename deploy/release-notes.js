#!/usr/bin/env node
/**
 * The notes of a release, cut from CHANGELOG.md: `node deploy/release-notes.js VERSION` prints the text under its
 * heading.
 *
 * `--check TAG REPOSITORY` instead prints the version, and fails if tag, package, chart, notes or owner disagree,
 * because a publication cannot be taken back. Exit codes: 0 success, 1 failure, 2 a wrong argument.
 */
import { readFileSync } from 'node:fs'

const args = process.argv.slice(2)
const isCheck = args[0] === '--check'
if (isCheck ? args.length !== 3 : args.length !== 1 || args[0].startsWith('-')) {
  process.stderr.write('usage: node deploy/release-notes.js VERSION, or --check TAG OWNER/NAME\n')
  process.exit(2)
}
const version = isCheck ? args[1].replace(/^v/, '') : args[0]
const notes = notesOf(version)
const problems = [
  ...(notes === '' ? [`CHANGELOG.md has nothing under "## ${version}"`] : []),
  ...(isCheck ? disagreements(args[1], args[2]) : []),
]
for (const problem of problems) process.stderr.write(`release notes: ${problem}\n`)
if (problems.length > 0) process.exit(1)
process.stdout.write(`${isCheck ? version : notes}\n`)

/** '' when there is no such heading, or nothing under it. The heading may continue: `## 1.2.0 (2026-12-01)`. */
function notesOf(wanted) {
  const sections = readFileSync('CHANGELOG.md', 'utf8').split(/^## /m).slice(1)
  const found = sections.find((section) => section.split(/\s/, 1)[0] === wanted)
  return found === undefined ? '' : found.slice(found.indexOf('\n')).trim()
}

function disagreements(tag, repository) {
  const manifest = JSON.parse(readFileSync('package.json', 'utf8'))
  const chart = readFileSync('helm/distributary/Chart.yaml', 'utf8')
  const url = `git+https://github.com/${repository}.git`
  return [
    ...(tag === `v${manifest.version}` ? [] : [`the tag is ${tag}, and package.json has ${manifest.version}`]),
    ...(chart.includes(`\nversion: ${version}\nappVersion: ${version}\n`) ? [] : [`the chart is not ${version}`]),
    // npm refuses provenance of a repository that the package does not name.
    ...(manifest.repository.url === url ? [] : [`package.json names ${manifest.repository.url}, and this is ${url}`]),
  ]
}
