/**
 * Runs documented commands against real processes, in the order of their page: the page's next commands use the server
 * that the page has started. Ports, folders and files are the test's own.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { stringify, parse } from 'yaml'
import { load } from '../../src/server/config/load.js'
import { startServerProcess } from '../ops/support/server-process.js'
import { programFile } from '../support/program.js'
import { startEtcd } from '../support/etcd-process.js'
import { type How, howOf } from './command-table.js'
import { documentedCommands } from './documented-commands.js'
import { readText, root } from './repository.js'

const bench = fileURLToPath(new URL('../../bench/run.js', import.meta.url))

const kubeconfigOf = (server: string): object => ({
  apiVersion: 'v1',
  kind: 'Config',
  clusters: [{ name: 'here', cluster: { server } }],
  contexts: [{ name: 'here', context: { cluster: 'here' } }],
  'current-context': 'here',
})

/** The servers that pages have started: pages that start the same one share it. */
class Servers {
  readonly #urls = new Map<string, Promise<string>>()

  constructor(readonly t: Test) {}

  url(flags: string, port: number): Promise<string> {
    const key = `${port} ${flags}`
    const args = [...flags.split(' ').filter(Boolean), '--port', '0']
    const url = this.#urls.get(key) ?? startServerProcess(this.t, { args }).then((server) => server.url)
    this.#urls.set(key, url)
    return url
  }
}

/** The environment of one page: what its commands have started, by the documented port. */
class Scene {
  readonly urls = new Map<number, string>()
  readonly folder = mkdtempSync(join(tmpdir(), 'distributary-commands-'))

  constructor(
    readonly t: Test,
    readonly etcd: string,
    readonly servers: Servers,
    demo: string,
  ) {
    this.urls.set(8001, demo)
    t.teardown(() => rmSync(this.folder, { recursive: true, force: true }))
  }

  /** Replaces the documented addresses, folders and programs with ours. */
  here(command: string): string {
    // The folder first: the repository may itself be inside the one that the documents name.
    let line = command
      .replaceAll('/tmp/', `${this.folder}/`)
      .replaceAll('http://127.0.0.1:2379', this.etcd)
      .replaceAll(
        /\bnpm start --|\bnpm start\b|\bnpx distributary\b|\bdistributary(?= )/g,
        `${process.execPath} ${programFile('main')}`,
      )
      .replaceAll('npm run bench --', `${process.execPath} ${bench}`)
    for (const [port, url] of this.urls) line = line.replaceAll(`http://127.0.0.1:${port}`, url)
    return line
  }

  environmentOf(command: string): NodeJS.ProcessEnv {
    const url = this.urls.get(8001)!
    const kubeconfig = join(this.folder, 'kubeconfig')
    writeFileSync(kubeconfig, JSON.stringify(kubeconfigOf(url)))
    return {
      ...process.env,
      KUBECONFIG: kubeconfig,
      DISTRIBUTARY_SERVER: url,
      ETCDCTL_API: '3',
      // etcdctl refuses a variable and a flag for the same thing.
      ...(command.includes('--endpoints') ? {} : { ETCDCTL_ENDPOINTS: this.etcd }),
    }
  }

  /** @param edit a further change to the line. */
  run(command: string, edit = (line: string): string => line): { child: ChildProcess; output: { text: string } } {
    // In its own process group, so that everything a shell has started ends with it.
    const child = spawn('/bin/sh', ['-c', edit(this.here(command))], {
      cwd: root,
      env: this.environmentOf(command),
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    const end = (): void => {
      try {
        process.kill(-child.pid!, 'SIGKILL')
      } catch {
        // The process has already ended.
      }
    }
    this.t.teardown(end)
    const output = { text: '' }
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output.text += chunk.toString()))
    return { child, output }
  }
}

const acts: Readonly<Record<Extract<How, string>, (scene: Scene, command: string, t: Test) => Promise<void>>> = {
  async server(scene, command, t) {
    const words = scene.here(command).split(' ').slice(2)
    const port = Number(/--port[= ](\d+)/.exec(command)?.[1] ?? 8001)
    const args = words.filter((word, i) => !word.startsWith('--port') && !words[i - 1]?.startsWith('--port'))
    const url = await scene.servers.url(args.filter(Boolean).join(' '), port)
    scene.urls.set(port, url)
    t.equal((await fetch(`${url}/readyz`)).status, 200, command)
  },
  async flags(_scene, command, t) {
    const args = command.replace(/^.*? -- /, '').split(' ')
    t.equal(load(args, {}, () => 'content').kind, 'run', command)
  },
  async ends(scene, command, t) {
    const { child, output } = scene.run(command)
    const [code] = (await once(child, 'close')) as [number | null]
    t.equal(code, 0, code === 0 ? command : `${command}\n${output.text.slice(0, 2_000)}`)
    t.notMatch(output.text, /"kind": ?"Status"[^]*"Failure"/, command)
  },
  async streams(scene, command, t) {
    const { child, output } = scene.run(command)
    await Promise.race([once(child.stdout!, 'data'), once(child, 'close')])
    t.match(output.text, /"type":"(ADDED|MODIFIED)"|^NAMESPACE|^NAME|\bADDED +\d/, command)
    process.kill(-child.pid!, 'SIGKILL')
  },
  async prometheus(scene, command, t) {
    const [, file = ''] = /--config\.file=(\S+)/.exec(command) ?? []
    interface PrometheusConfig {
      global: Record<string, string>
      rule_files: string[]
      scrape_configs: { static_configs: { targets: string[] }[] }[]
    }
    const config = parse(readFileSync(join(root, file), 'utf8')) as PrometheusConfig
    const targets = config.scrape_configs[0]!.static_configs[0]!.targets.map((target) => {
      const url = scene.urls.get(Number(target.split(':')[1]))
      return url === undefined ? target : new URL(url).host
    })
    config.scrape_configs[0]!.static_configs[0]!.targets = targets
    config.global['scrape_interval'] = '500ms'
    config.rule_files = config.rule_files.map((name) => join(root, file, '..', name))
    const ours = join(scene.folder, 'prometheus.yaml')
    writeFileSync(ours, stringify(config))
    const { child, output } = scene.run(command, (line) =>
      line.replace(file, ours).replace(/127.0.0.1:9091$/, '127.0.0.1:0'),
    )
    const portOf = (): string | undefined => /msg="Listening on" .*?address=127\.0\.0\.1:(\d+)/.exec(output.text)?.[1]
    while (portOf() === undefined) {
      if (child.exitCode !== null) throw new Error(output.text)
      await delay(20)
    }
    const url = `http://127.0.0.1:${portOf()}/api/v1/query?query=${encodeURIComponent('sum(up{job="distributary"})')}`
    const up = async (): Promise<string | undefined> => {
      const reply = (await (await fetch(url)).json()) as { data?: { result: { value: [number, string] }[] } }
      return reply.data?.result[0]?.value[1]
    }
    while ((await up().catch(() => undefined)) !== '2') await delay(50)
    t.pass(`${command}: both are scraped`)
  },
  async script(_scene, command, t) {
    const { scripts } = JSON.parse(readText('package.json')) as { scripts: Record<string, string> }
    for (const [, script] of command.matchAll(/npm (?:run )?(?!ci\b)([\w:-]+)/g)) t.ok(scripts[script!], command)
    t.equal(scripts['start'], 'node dist/main.js', 'npm start is that')
  },
}

const NAMESPACE = { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'default', uid: '1' } }

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

/** One test for each page that `isOurs` selects. Pages repeat each other: a read-only command runs once. */
export async function runCommandsOf(t: Test, isOurs: (page: string) => boolean): Promise<void> {
  const servers = new Servers(t)
  const [etcd, demo] = await Promise.all([startEtcd(t), servers.url('', 8001)])
  // The documents assume an etcd with Kubernetes in it: over another one a server serves only declared prefixes.
  await etcd.call('kv/put', { key: base64('/registry/namespaces/default'), value: base64(JSON.stringify(NAMESPACE)) })
  const all = documentedCommands().filter(({ page }) => isOurs(page))
  const done = new Set<string>()
  for (const page of new Set(all.map((command) => command.page))) {
    await t.test(page, async (t) => {
      const scene = new Scene(t, etcd.url, servers, demo)
      for (const { text } of all.filter((command) => command.page === page)) {
        for (const part of text.split(' && ')) {
          const how = howOf(part)
          if (how === null || typeof how !== 'string') continue
          // A command that starts something is part of its page.
          const repeated = done.has(part) && how !== 'server' && how !== 'streams'
          done.add(part)
          if (!repeated) await acts[how](scene, part, t)
        }
      }
    })
  }
}
