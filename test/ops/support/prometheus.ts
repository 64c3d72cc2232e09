/** Debian's Prometheus, scraping one server with our rules loaded. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { root } from './server-process.js'
import { freePort } from '../../support/free-port.js'

/** The names of both programs in Debian. */
export const prometheusBinary = 'prometheus'
export const promtoolBinary = 'promtool'

export interface Sample {
  readonly metric: Readonly<Record<string, string>>
  readonly value: readonly [number, string]
}

export interface PrometheusProcess {
  readonly url: string
  /** Runs an instant query. @throws Error when it is not PromQL. */
  query(expression: string): Promise<readonly Sample[]>
  get(path: string): Promise<unknown>
}

export async function startPrometheus(t: Test, target: string): Promise<PrometheusProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'distributary-prometheus-'))
  const port = await freePort()
  const config = {
    global: { scrape_interval: '500ms', evaluation_interval: '500ms' },
    rule_files: [join(root, 'deploy/prometheus/rules.yaml')],
    scrape_configs: [{ job_name: 'distributary', static_configs: [{ targets: [target] }] }],
  }
  // JSON is YAML.
  await writeFile(join(folder, 'prometheus.yaml'), JSON.stringify(config))
  const child = spawn(
    prometheusBinary,
    [
      `--config.file=${join(folder, 'prometheus.yaml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=warn',
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  let errors = ''
  child.stderr.on('data', (chunk: Buffer) => (errors = (errors + chunk.toString()).slice(-2_000)))
  t.teardown(async () => {
    if (child.exitCode === null) {
      const closed = once(child, 'close')
      child.kill('SIGKILL')
      await closed
    }
    await rm(folder, { recursive: true, force: true })
  })
  const url = `http://127.0.0.1:${port}`
  const get = async (path: string): Promise<unknown> => {
    const reply = (await (await fetch(url + path)).json()) as { status: string; error?: string; data: unknown }
    if (reply.status !== 'success') throw new Error(`${path}: ${reply.error}`)
    return reply.data
  }
  for (
    let i = 0;
    !(await fetch(`${url}/-/ready`).then(
      (reply) => reply.ok,
      () => false,
    ));
    i++
  ) {
    if (child.exitCode !== null || i > 600) throw new Error(`prometheus is not ready: ${errors}`)
    await delay(50)
  }
  return {
    url,
    get,
    query: async (expression) => {
      const data = (await get(`/api/v1/query?query=${encodeURIComponent(expression)}`)) as { result: Sample[] }
      return data.result
    },
  }
}
