/**
 * `npm run judge -- growth [--subset ci] [--groups client,NATS] [--only PATTERN] [--runtimes 20,24,bun]`: repeats every
 * activity of a server and of the published client, and fails for each that leaves something behind: objects,
 * listeners, timers, descriptors, threads, lines of the metrics. A failure prints what grew, and what keeps it.
 * `--subset ci` leaves out what waits or restarts other servers; `--groups` chooses groups by their names, `--only`
 * activities by a pattern; `--runtimes` starts the measured processes with these Nodes or with Bun. The last line is
 * `N passed, N failed`.
 */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { inspect, parseArgs } from 'node:util'
import { fileURLToPath } from 'node:url'
import { sourcesOf } from '../support/imports.js'
import { provideRequirements } from '../support/requirements.js'
import { needsNode } from '../support/program.js'
import { runMain } from '../support/run-main.js'
import { runtimeProgram } from '../support/runtime-program.js'
import { fail, print, verdict } from '../support/verdict.js'
import { withTeardown } from '../support/with-teardown.js'
import type { Activity, ActivityGroup, Subject } from './activity.js'
import { browser } from './browser.js'
import { client } from './client.js'
import { requests } from './requests.js'
import { Rounds } from './rounds.js'
import { cluster, etcd, etcdWithUsers, fleet, passthrough, passthroughOverTls, upstream, workers } from './upstreams.js'

const groups: readonly ActivityGroup[] = [
  requests,
  passthrough,
  passthroughOverTls,
  etcd,
  cluster,
  etcdWithUsers,
  upstream,
  fleet,
  workers,
  client,
  browser,
]

/** What a failure prints of the kinds that grew: the first explain the others. */
const MOST_KINDS = 12

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      subset: { type: 'string' },
      groups: { type: 'string' },
      only: { type: 'string', default: '' },
      runtimes: { type: 'string' },
    },
  })
  if (values.subset !== undefined && values.subset !== 'ci') return fail(`--subset ${values.subset}: there is only ci`)
  if (values.runtimes !== undefined) return await onEach(values.runtimes.split(','))
  const lack = provideRequirements(sourcesOf(['test/growth/run.ts']))
  if (lack !== null) return fail(lack)
  const isChosen = (activity: Activity<Subject>, { name }: ActivityGroup): boolean =>
    new RegExp(values.only).test(activity.name) &&
    (values.groups === undefined || values.groups.split(',').includes(name)) &&
    (values.subset === undefined || activity.isNightly !== true)
  const counts = { passed: 0, failed: 0 }
  for (const group of groups) {
    const activities =
      group.needsNode && needsNode !== false ? [] : group.activities.filter((activity) => isChosen(activity, group))
    if (activities.length === 0) continue
    await runGroup({ ...group, activities }, counts).catch((error: unknown) => {
      counts.failed++
      print(`FAILED: ${group.name}: ${inspect(error)}`)
    })
  }
  return verdict(counts)
}

async function runGroup(group: ActivityGroup, counts: { passed: number; failed: number }): Promise<void> {
  print(`== ${group.name}`)
  await withTeardown(async (t) => {
    const rounds = new Rounds(await group.start(t))
    for (const activity of group.activities) {
      const startedMs = performance.now()
      const seconds = (): string => `(${((performance.now() - startedMs) / 1_000).toFixed(1)} s)`
      try {
        const { growths, paths } = await rounds.judge(activity)
        const isConstant = growths.length === 0
        counts[isConstant ? 'passed' : 'failed']++
        const repeated = rounds.repeated === 0 ? '' : `, ${rounds.repeated} failed and were repeated`
        print(`${isConstant ? 'ok' : 'GROWS'}: ${activity.name} ${seconds()}${repeated}`)
        for (const { kind, counts } of growths.slice(0, MOST_KINDS)) print(`  ${kind}: ${counts.join(' → ')}`)
        for (const path of paths) print(`  ${path}`)
      } catch (error) {
        counts.failed++
        print(`FAILED: ${activity.name} ${seconds()}: ${inspect(error)}`)
      }
    }
  })
}

/** Runs this program once for each runtime: the client is measured too, and what only Node has is left out on Bun. */
async function onEach(runtimes: readonly string[]): Promise<number> {
  const counts = { passed: 0, failed: 0 }
  for (const runtime of runtimes) {
    const isBun = runtime === 'bun'
    const program = isBun ? runtimeProgram('bun', '1') : runtimeProgram('node', runtime)
    if (program === null) continue
    print(`== ${isBun ? 'Bun' : `Node ${runtime}`}`)
    const others = process.argv.slice(2).filter((argument, at, all) => ![argument, all[at - 1]].includes('--runtimes'))
    const child = spawn(isBun ? process.execPath : program, [fileURLToPath(import.meta.url), ...others], {
      env: { ...process.env, ...(isBun ? { TEST_SERVER_RUNTIME: program } : {}) },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let last = ''
    for await (const line of createInterface(child.stdout)) print((last = line))
    const [, passed = '0', failed = '1'] = /^(\d+) passed, (\d+) failed$/.exec(last) ?? []
    counts.passed += Number(passed)
    counts.failed += Number(failed)
  }
  return verdict(counts)
}

await runMain(import.meta.url, main)
