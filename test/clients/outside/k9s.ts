/**
 * k9s, unmodified, in two terminals: one shows Kubernetes' own API server, and one distributary. Their screens are
 * equal in every cell and colour: lists, descriptions and YAML of many kinds, changes, objects that k9s itself scales
 * and deletes, and all of that again after a restart of distributary.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { buildGoProgram } from '../../support/go-program.js'
import { pause, until } from '../../support/until.js'
import { k9s } from '../programs.js'
import { clientFolder, rewrite, sources, startCompared, urlOf } from '../support/api-server.js'
import { team } from '../support/team.js'
import { COLOUR, startTerminal, type Terminal } from '../support/terminal.js'

const program = buildGoProgram(k9s)

/** Commands for k9s, each with a pattern that its screen must contain. */
const lists: readonly (readonly [command: string, shown: RegExp])[] = [
  ['nodes', /n1 .*NotReady/],
  ['pods team', /CrashLoopBackOff/],
  ['services team', /www\.example\.org/],
  ['endpoints team', /10\.2\.0\.7:8080/],
  ['endpointslices team', /web-x/],
  ['deployments team', /web .*1\/3/],
  ['replicasets team', /web-1/],
  ['statefulsets team', /store/],
  ['daemonsets team', /agent/],
  ['jobs team', /once/],
  ['cronjobs team', /0 3 \* \* \*/],
  ['configmaps team', /settings/],
  ['secrets team', /login/],
  ['serviceaccounts team', /robot/],
  ['events team', /BackOff/],
  ['persistentvolumes', /Retain/],
  ['persistentvolumeclaims team', /fast/],
  ['storageclasses', /example\.com\/disks/],
  ['ingresses team', /site/],
  ['networkpolicies team', /closed/],
  ['poddisruptionbudgets team', /web/],
  ['horizontalpodautoscalers team', /Deployment\/web/],
  ['roles team', /reader/],
  ['rolebindings team', /readers/],
  ['leases team', /turn/],
  ['gadgets team', /large .*7 .*red/],
  ['namespaces /team', /team.* Active/],
  ['pods team app=web', /CrashLoopBackOff/],
]

/** Views of the first object in a list. */
const details: readonly (readonly [command: string, key: string, shown: RegExp])[] = [
  ['nodes', 'd', /Allocatable/],
  ['nodes', 'y', /kernelVersion/],
  ['pods team', 'd', /QoS Class/],
  ['pods team', 'y', /resourceVersion/],
  ['pods team', 'Enter', /main/],
  ['services team', 'd', /External Name/],
  ['deployments team', 'd', /NewReplicaSet/],
  ['deployments team', 'Enter', /CrashLoopBackOff/],
  ['configmaps team', 'd', /a\.conf/],
  ['configmaps team', 'y', /a\.conf/],
  ['gadgets team', 'd', /Gadget/],
  ['gadgets team', 'y', /colour/],
  ['roles team', 'Enter', /configmaps/],
]

for (const source of sources) {
  void t.test(`the screens of k9s at distributary (${source.name}) are those at the API server`, async (t) => {
    const { isAlone = false } = source
    const { stage, apiServer } = await startCompared(t, team, source)
    await rewrite(apiServer, team.initial.values())
    const write = async (turn: string): Promise<void> => {
      await stage.write(turn)
      await rewrite(
        apiServer,
        team.turn(turn).flatMap((commit) => Object.values(commit)),
      )
    }
    const terminals = { theirs: startK9s(t, urlOf(apiServer)), ours: startK9s(t, stage.url) }
    const screens = new Screens(t, terminals, isAlone ? withoutVersion : (line) => line)
    await screens.compare('its first screen', /CrashLoopBackOff/)

    for (const [command, shown] of lists) await screens.open(command, shown)
    for (const [command, key, shown] of details) {
      const [, listed] = lists.find(([one]) => one === command)!
      await screens.open(command, listed)
      screens.press(key)
      await screens.compare(`${key} of ${command}`, shown)
    }

    await t.test('changes appear', async () => {
      await screens.open('pods team', /CrashLoopBackOff/)
      await write('first')
      await screens.compare('a pod is created', /first/)
    })

    await t.test('what it writes', { skip: isAlone }, async () => {
      await screens.open('deployments team', /1\/3/)
      await screens.scale(5)
      await screens.compare('it has scaled a deployment', /1\/5/)
      await screens.open('pods team', /done/)
      screens.pressInOurs('C-k')
      await screens.compare('it has deleted a pod', /first/, /done/)
    })

    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await t.test(`after ${signal}`, async () => {
        const [meanwhile, after] = [`without-${signal.toLowerCase()}`, `after-${signal.toLowerCase()}`]
        await screens.open('pods team', /first/)
        await stage.kill(signal)
        await write(meanwhile)
        await stage.start()
        await write(after)
        await screens.compare('an open list', new RegExp(`${after}[^]*${meanwhile}`))
        await screens.open('services team', /www\.example\.org/)
        await screens.open('events team', /BackOff/)
      })
    }
  })
}

const WITHIN_MS = 90_000
const POLL_MS = 100

/** The terminals of both, which get the same keys. */
class Screens {
  constructor(
    readonly t: Test,
    readonly terminals: Readonly<Record<'theirs' | 'ours', K9s>>,
    readonly normalize: (line: string) => string,
  ) {}

  press(...keys: readonly string[]): void {
    for (const { terminal } of Object.values(this.terminals)) terminal.press(...keys)
  }

  pressInOurs(...keys: readonly string[]): void {
    this.terminals.ours.terminal.press(...keys)
  }

  async open(command: string, shown: RegExp): Promise<void> {
    for (const { terminal } of Object.values(this.terminals)) {
      terminal.type(`:${command}`)
      terminal.press('Enter')
    }
    await this.compare(command, shown)
  }

  async scale(replicas: number): Promise<void> {
    const { terminal } = this.terminals.ours
    terminal.type('s')
    await until(() => terminal.screen().some((line) => line.includes('Replicas:')), 'it asks how many')
    terminal.press('C-u')
    terminal.type(String(replicas))
    terminal.press('Tab', 'Enter')
  }

  /** Waits until both are equal and show what they should. */
  async compare(what: string, shown: RegExp, hidden?: RegExp): Promise<void> {
    const { theirs, ours } = this.terminals
    let [there, here]: (readonly string[])[] = [[], []]
    const isEqual = async (): Promise<boolean> => {
      await pause(POLL_MS)
      ;[there, here] = [theirs, ours].map(({ terminal }) => terminal.screen().map(this.normalize))
      const plain = plainText(there!)
      return shown.test(plain) && hidden?.test(plain) !== true && there!.join('\n') === here!.join('\n')
    }
    await until(isEqual, `${what}: the screens are equal`, WITHIN_MS).catch(() => {
      this.t.comment(ours.log())
      this.t.match(plainText(there!), shown, `${what}: the API server's`)
    })
    this.t.same(here, there, what)
  }
}

const VERSION = new RegExp(`v1\\.37\\.2(?:\\+distributary\\S*?)?(?:${COLOUR}| )+`)

/** Removes the server's version, and the space after it, from the head of the screen. */
const withoutVersion = (line: string): string => (line.includes('K8s Rev:') ? line.replace(VERSION, '') : line)

const plainText = (lines: readonly string[]): string => lines.join('\n').replaceAll(new RegExp(COLOUR, 'g'), '')

interface K9s {
  readonly terminal: Terminal
  readonly log: () => string
}

/** k9s as the administrator of the server. */
function startK9s(t: Test, server: string): K9s {
  const { folder, kubeconfig } = clientFolder(t, server)
  const ui = { splashless: true, logoless: true }
  writeFileSync(join(folder, 'config.yaml'), JSON.stringify({ k9s: { refreshRate: 2, skipLatestRevCheck: true, ui } }))
  const log = join(folder, 'k9s.log')
  const terminal = startTerminal(
    t,
    [program, '--kubeconfig', kubeconfig, '--logFile', log, '--namespace', 'team', '--command', 'pods'],
    { HOME: folder, PATH: process.env['PATH'] ?? '', K9S_CONFIG_DIR: folder },
  )
  return { terminal, log: () => readFileSync(log, 'utf8') }
}
