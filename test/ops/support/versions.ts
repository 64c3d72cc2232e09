/** The versions of the server's environment, each read from the one place that defines it. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { root } from './server-process.js'

const text = (path: string): string => readFileSync(join(root, path), 'utf8')

/** The Node versions on which all tests run, oldest first: `20.19`, `22`. */
export function supportedNodes(): readonly string[] {
  const { jobs } = parse(text('.github/workflows/ci.yml')) as {
    readonly jobs: Readonly<Record<string, { readonly strategy?: { readonly matrix: { readonly node?: string[] } } }>>
  }
  return Object.values(jobs).flatMap(({ strategy }) => strategy?.matrix.node ?? [])
}

/** The full Node version of the container: `24.20.0`. */
export function imageNode(): string {
  const [, version] = /^ARG NODE_IMAGE=node:([\d.]+)-/m.exec(text('deploy/Dockerfile')) ?? []
  if (version === undefined) throw new Error('the Dockerfile names no Node')
  return version
}

/** The oldest and the newest NATS that the tests run on: `2.9`, `2.15`. */
export function supportedNats(): readonly [oldest: string, newest: string] {
  const [, newest] = /nats-server\/v2 v(\d+\.\d+)\./.exec(text('test/nats/nats-server/go.mod')) ?? []
  const [, oldest] = /^\| NATS \| (\d+\.\d+)\./m.exec(text('CONTRIBUTING.md')) ?? []
  if (newest === undefined || oldest === undefined) throw new Error('the versions of NATS are not where they were')
  return [oldest, newest]
}
