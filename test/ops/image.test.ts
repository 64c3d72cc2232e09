/**
 * Checks the Dockerfile without a container engine: through the parser and linter of dockerfile-utils, and by running
 * what its images run, each with its own runtime: that of Bun in `npm run judge -- bun`.
 */
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { createAuthority } from '../support/certificates.js'
import { startEtcd } from '../support/etcd-process.js'
import { freePort } from '../support/free-port.js'
import { serverRuntime } from '../support/program.js'
import { builtMain, root, runToEnd, startServerProcess } from './support/server-process.js'

const text = (path: string): string => readFileSync(join(root, path), 'utf8')
const isBun = serverRuntime() !== process.execPath

interface Instruction {
  readonly name: string
  readonly value: string
}

/** Returns the instructions, one per line, with continuation lines joined and comments left out. */
function instructions(dockerfile: string): Instruction[] {
  return dockerfile
    .replace(/^#.*\n/gm, '')
    .replace(/\\\n\s*/g, ' ')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [, name = '', value = ''] = /^\s*(\w+)\s+(.*)$/.exec(line) ?? []
      return { name, value }
    })
}

void t.test('the Dockerfile builds an image that serves', async (t) => {
  const dockerfile = text('deploy/Dockerfile')
  const all = instructions(dockerfile)
  const stages = [null, 'bun'].map((name) => stageOf(all, name))
  const stage = stages[isBun ? 1 : 0]!
  const value = (name: string): string => stage.find((one) => one.name === name)?.value ?? ''
  const argument = (name: string): string =>
    all.find((one) => one.name === 'ARG' && one.value.startsWith(`${name}=`))?.value.slice(name.length + 1) ?? ''
  /** Returns a command of the image, with its paths mapped to ours. */
  const here = (command: string): string[] =>
    (JSON.parse(command.replace(/^CMD\s+/, '')) as string[]).map((word) =>
      word
        .replace('/nodejs/bin/node', `${imageFolder(t)}/node`)
        .replace('/app/dist/main.js', builtMain)
        .replace('/app/health.js', `${imageFolder(t)}/health.js`),
    )
  const environment = Object.fromEntries(
    stage
      .filter(({ name }) => name === 'ENV')
      .flatMap(({ value }) => value.split(/\s+/))
      .map((pair) => pair.split('=') as [string, string]),
  )

  await t.test('the Dockerfile passes the linter', async (t) => {
    const { validate } = createRequire(import.meta.url)('dockerfile-utils') as {
      readonly validate: (content: string) => readonly { message: string }[]
    }
    t.same(validate(dockerfile), [])
    t.ok(validate('FROM a\nRUNN b\n').length > 0, 'which finds what is wrong')
  })

  await t.test('each image has no root user, no shell and no development dependencies', async (t) => {
    t.match(argument('RUNTIME_IMAGE'), /distroless\/cc-.*:nonroot(@sha256:[0-9a-f]{64})?$/)
    for (const name of ['NODE', 'BUN']) {
      const isFull = /:\d+\.\d+\.\d+-.*slim(@sha256:[0-9a-f]{64})?$/
      t.match(argument(`${name}_IMAGE`), isFull, 'a runtime that is named in full')
    }
    for (const stage of stages) {
      const value = (name: string): string | undefined => stage.findLast((one) => one.name === name)?.value
      t.equal(value('USER'), '65532:65532', 'a number, which runAsNonRoot can judge')
      t.match(stage[0]?.value, '${RUNTIME_IMAGE}')
      t.notOk(stage.some(({ name, value }) => name === 'RUN' || value.includes('node_modules')))
      const copied = stage.flatMap(({ value }) => /^--from=(.*)$/.exec(value)?.[1] ?? [])
      t.same(copied[0], 'build /app/dist-package ./', 'only the published package')
      t.match(
        copied.slice(1).join(),
        /^(node \/usr\/local\/bin\/node|bun-image \/usr\/local\/bin\/bun) \/nodejs\/bin\/node$/,
      )
    }
    const bases = all.filter(({ name, value }) => name === 'FROM' && !/^server( |$)/.test(value))
    t.ok(
      bases.every(({ value }) =>
        /^(--platform=\$BUILDPLATFORM )?\$\{(NODE|BUN|RUNTIME)_IMAGE\}( AS [\w-]+)?$/.test(value),
      ),
      'each image has one place',
    )
    const installs = all.filter(({ name, value }) => name === 'RUN' && value.includes('npm'))
    for (const { value } of installs) t.match(value, /^npm (ci |run pack:server$)/)
  })

  await t.test('the Dockerfile copies only files that exist and are not ignored', async (t) => {
    const ignore = text('deploy/Dockerfile.dockerignore')
    const sources = all
      .filter(({ name, value }) => name === 'COPY' && !value.includes('--from'))
      .flatMap(({ value }) => value.split(/\s+/).slice(0, -1))
    t.ok(sources.length > 3)
    for (const source of new Set(sources)) {
      t.match(ignore, `!${source}\n`)
      if (!source.includes('*')) t.ok(existsSync(join(root, source)), source)
    }
  })

  await t.test('the command of the image exits with 2 without an upstream', async (t) => {
    const { code, output } = await runToEnd(here(value('ENTRYPOINT')), { environment })
    t.equal(code, 2)
    t.match(output, /--require-upstream/)
  })

  await t.test('the image’s command serves, and its health check passes until the server is gone', async (t) => {
    const etcd = await startEtcd(t)
    const check = here(value('HEALTHCHECK').replace(/^.*?(?=CMD)/, ''))
    const folder = imageFolder(t)
    const authority = createAuthority(t)
    const { cert, key } = authority.server()
    const [flagPort, variablePort, filePort] = [await freePort(), await freePort(), await freePort()]
    const file = join(folder, 'config.yaml')
    writeFileSync(file, `port: ${filePort}\netcdServers: ["${etcd.url}"]\n`)
    const tls = [`--tls-cert-file=${cert}`, `--tls-private-key-file=${key}`, `--secure-port=${flagPort}`]
    for (const [what, args, variables] of [
      ['a variable', [], { DISTRIBUTARY_ETCD_SERVERS: etcd.url, DISTRIBUTARY_PORT: String(variablePort) }],
      ['a file', ['--config', file], {}],
      [
        'a flag, over TLS',
        [...tls, `--client-ca-file=${authority.ca}`, '--authorization-mode=RBAC'],
        { DISTRIBUTARY_ETCD_SERVERS: etcd.url },
      ],
    ] as const) {
      const server = await startServerProcess(t, {
        command: here(value('ENTRYPOINT')),
        args,
        environment: { ...environment, ...variables },
        scheme: args.length > 2 ? 'https' : 'http',
      })
      // The server is process 1 of the container.
      const own = [...check, `/proc/${server.pid}/cmdline`]
      const health = await runToEnd(own, { environment: { ...environment, ...variables } })
      t.equal(health.code, 0, `the port comes from ${what}: ${health.output}`)
      const words = join(folder, 'cmdline')
      writeFileSync(words, readFileSync(`/proc/${server.pid}/cmdline`))
      t.equal(await server.stop(), 0, 'SIGTERM is a clean stop')
      t.equal((await runToEnd([...check, words], { environment: { ...environment, ...variables } })).code, 1)
    }
  })
})

/** The instructions of a stage, after those of the one that it continues. @param name null for the last stage. */
function stageOf(all: readonly Instruction[], name: string | null): Instruction[] {
  const isStart = (one: Instruction): boolean => one.name === 'FROM'
  const from = all.findLastIndex((one) => isStart(one) && (name === null || one.value.endsWith(` AS ${name}`)))
  const next = all.findIndex((one, at) => at > from && isStart(one))
  const own = all.slice(from, next === -1 ? undefined : next)
  const base = own[0]!.value.split(' ')[0]!
  return base.startsWith('$') ? own : [...stageOf(all, base), ...own.slice(1)]
}

/** The image's /app, with its runtime: the health check and the build. */
function imageFolder(t: Pick<Test, 'teardown'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-image-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  copyFileSync(join(root, 'deploy/health.js'), join(folder, 'health.js'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  symlinkSync(dirname(builtMain), join(folder, 'dist'))
  symlinkSync(serverRuntime(), join(folder, 'node'))
  return folder
}
