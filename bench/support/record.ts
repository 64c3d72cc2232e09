/**
 * Records one measured row: it is printed as one line of JSON, and appended to `bench/out/QUESTION.jsonl`; with
 * `--keep` also to the committed `bench/results.jsonl`, from which the report is made.
 */
import { execFileSync } from 'node:child_process'
import { appendFileSync, mkdirSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { repositoryRoot } from './native.js'

export type Value = string | number | boolean | null

export interface Row {
  readonly question: string
  /** The subject that was measured, and its wire. */
  readonly subject: string
  readonly wire: string
  readonly [name: string]: Value
}

export interface Recorder {
  row(row: Row): Row
}

/** Returns the facts that all rows of a run share. Ratios are valid only within one run. */
function environment({ etcdBinary, apiServerVersion, resource }: Facts): Record<string, Value> {
  const said = (command: string, ...flags: string[]): string => {
    try {
      return execFileSync(command, flags, { cwd: repositoryRoot, stdio: ['ignore', 'pipe', 'ignore'] }).toString()
    } catch {
      return ''
    }
  }
  const dirty = said('git', 'status', '--porcelain', '--untracked-files=no', 'src').trim() !== ''
  return {
    at: new Date().toISOString(),
    commit: (said('git', 'rev-parse', '--short=12', 'HEAD').trim() || 'unknown') + (dirty ? '+changes' : ''),
    node: process.version,
    etcd: /etcd Version: (\S+)/.exec(said(etcdBinary, '--version'))?.[1] ?? 'unknown',
    ...(apiServerVersion === undefined ? {} : { apiServer: apiServerVersion }),
    resource,
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    kernel: said('uname', '-r').trim(),
  }
}

export interface Facts {
  readonly etcdBinary: string
  /** The API server's version, if one is measured. */
  readonly apiServerVersion?: string | undefined
  /** The resource that is written and watched. */
  readonly resource: string
}

export function createRecorder(options: Facts & { readonly quick: boolean; readonly keep: boolean }): Recorder {
  const { at, ...facts } = environment(options)
  const run = `${String(at)}-${process.pid}`
  return {
    row(row) {
      const line = JSON.stringify({ run, quick: options.quick, ...facts, ...row }, (_, value: unknown) =>
        typeof value === 'number' ? Number(value.toPrecision(6)) : value,
      )
      process.stdout.write(`${line}\n`)
      mkdirSync(`${repositoryRoot}bench/out`, { recursive: true })
      appendFileSync(`${repositoryRoot}bench/out/${row.question}.jsonl`, `${line}\n`)
      if (options.keep) appendFileSync(`${repositoryRoot}bench/results.jsonl`, `${line}\n`)
      return row
    },
  }
}
