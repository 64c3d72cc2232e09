/** Tests the published package: it contains exactly what is needed, and runs in an empty folder. */
import { isAscii } from 'node:buffer'
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { declarationErrors, MAX_TICKET_EVENTS_BYTES, scriptBytes } from './support/installed-client.js'
import { installPackage, makePackage, run } from './support/package.js'
import { root, runToEnd, startServerProcess } from './support/server-process.js'

const text = (path: string): string => readFileSync(join(root, path), 'utf8')
const { version } = JSON.parse(text('package.json')) as { version: string }

void t.test('all files have the same version', async (t) => {
  t.match(text('helm/distributary/Chart.yaml'), `\nversion: ${version}\nappVersion: ${version}\n`)
  t.equal((JSON.parse(text('package-lock.json')) as { version: string }).version, version)
  for (const overlay of ['base', 'edge', 'static-pod']) {
    t.match(text(`deploy/kubernetes/${overlay}/kustomization.yaml`), new RegExp(`newTag: '?${version}'?\n`), overlay)
  }
  for (const path of ['deploy/kubernetes/kubeadm/patches/etcd+strategic.yaml', 'README.md', 'docs/guide/client.md']) {
    const versions = [...text(path).matchAll(/distributary(?::|-client-)(\d+\.\d+\.\d+)/g)].map(([, one]) => one)
    t.same(versions, [version], path)
  }
  const changes = [...text('CHANGELOG.md').matchAll(/^## (.*)$/gm)].map(([, heading]) => heading!)
  t.ok(changes[0] === 'Unreleased' || changes[0]!.startsWith(version), 'what is new stands first')
})

void t.test(
  'the package contains everything it needs, installs into an empty folder under strict rules, and runs',
  async (t) => {
    t.setTimeout(300_000)
    const folder = mkdtempSync(join(tmpdir(), 'distributary-pack-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const { scripts } = JSON.parse(text('package.json')) as { scripts: Record<string, string> }
    t.match(scripts['pack:server'], 'node deploy/server-package.js dist-package')
    const { tarball, size, files } = makePackage(folder)
    for (const needed of [
      'dist/main.js',
      'dist/server/ui/page/main.js',
      'dist/server/ui/page/uPlot.iife.min.js',
      'dist/client/index.js',
      'dist/client/index.d.ts',
      'dist/client/react.js',
      'dist/client/react.d.ts',
      'src/server/ui/page/index.html',
      'src/sample/sample-cluster.json',
      'src/kubernetes/codec/protobuf/kubernetes-schema.txt',
      'src/kubernetes/dialect/openapi-messages.txt',
      'src/kubernetes/dialect/well-known-resources.txt',
      'src/kubernetes/codec/kubernetes-openapi.json',
      'src/kubernetes/writes/default-facts.txt',
      'src/server/auth/authz/bootstrap-roles.json',
      'LICENSE',
      'NOTICE',
      'THIRD-PARTY-LICENSES.txt',
      'README.md',
      'CHANGELOG.md',
    ]) {
      t.ok(files.includes(needed), needed)
    }
    t.same(
      files.filter(
        (path) =>
          !/^(dist\/.*\.(js|d\.ts|css)|src\/(kubernetes|sample|server)\/.*\.(json|txt)|src\/server\/ui\/page\/\w+\.(html|css|svg)|LICENSE|NOTICE|THIRD-PARTY-LICENSES\.txt|\w+\.md|package\.json)$/.test(
            path,
          ),
      ),
      [],
      'and nothing else',
    )
    t.ok(files.length < 250, `${files.length} files`)
    t.ok(size < 2_000_000, `${size} bytes`)

    const installed = installPackage(folder, tarball)
    for (const path of files.filter((file) => /^dist\/[^/]*\.js$/.test(file))) {
      const source = readFileSync(join(installed, path))
      t.ok(isAscii(source), `${path} takes one byte of memory for each character`)
    }
    const manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as Record<string, unknown>
    t.match(manifest, { name: 'distributary', version, engines: { node: '>=20.19' } })
    for (const field of ['dependencies', 'optionalDependencies', 'overrides', 'scripts', 'private'])
      t.notOk(field in manifest, `it has no ${field}`)
    t.ok((await scriptBytes(folder, 'distributary/client', 'ticketEvents')) < MAX_TICKET_EVENTS_BYTES)
    t.same(declarationErrors(folder, ['distributary/client', 'distributary/react']), [])
    t.equal(
      readdirSync(join(folder, 'node_modules'))
        .filter((name) => !name.startsWith('.'))
        .join(),
      'distributary',
    )
    t.equal(run(folder, 'npm', 'exec', '--offline', '--', 'distributary', '--version'), `distributary ${version}\n`)
    const help = await runToEnd(['npx', '--offline', 'distributary', '--help'], { cwd: folder })
    t.equal(help.code, 0)
    t.match(help.output, '--etcd-servers')

    // The program that npx runs; through npx itself a signal would reach npm.
    const program = join(folder, 'node_modules/.bin/distributary')
    const config = join(folder, 'config.yaml')
    // A configuration is YAML, writes of large bodies and definitions are read in threads, and spans need their
    // exporter: all that is loaded late.
    writeFileSync(config, 'port: 0\nworkers: 2\ntracingOtlpEndpoint: http://127.0.0.1:9\n')
    const server = await startServerProcess(t, { command: [program], args: ['--config', config], cwd: folder })
    const get = async (path: string): Promise<string> => await (await fetch(server.url + path)).text()
    t.match(await get('/metrics'), `distributary_build_info{version="${version}"} 1`)
    t.match(await get('/version'), version)
    t.match(await get('/ui/'), '<title>distributary</title>')
    for (const asset of ['main.js', 'overview.js', 'uplot.js', 'uplot.css', 'style.css', 'icon.svg']) {
      t.equal((await fetch(`${server.url}/ui/${asset}`)).status, 200, asset)
    }
    t.match(await get('/api/v1/pods?limit=1'), '"kind":"PodList"')
    const large = { metadata: { name: 'large' }, data: { a: 'x'.repeat(700_000) } }
    const written = await fetch(`${server.url}/api/v1/namespaces/default/configmaps`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(large),
    })
    t.equal(written.status, 201, 'a large object is written in a thread')
    t.match(await get('/apis/apiextensions.k8s.io/v1/customresourcedefinitions'), 'CustomResourceDefinitionList')
    // In the image, the health check is next to the package.
    copyFileSync(join(root, 'deploy/health.js'), join(installed, 'health.js'))
    const words = join(folder, 'cmdline')
    writeFileSync(words, `node\0--max-semi-space-size=8\0/app/dist/main.js\0--port=${new URL(server.url).port}\0`)
    const check = async (): Promise<number | null> =>
      (await runToEnd([process.execPath, join(installed, 'health.js'), words])).code
    t.equal(await check(), 0, 'the health check of the image reads the configuration with the package')
    t.equal(await server.stop(), 0)
    t.equal(await check(), 1)

    writeFileSync(
      join(folder, 'program.mjs'),
      `import { keyName, loadKubeconfig, SharedInformer } from 'distributary/client'
    console.log(keyName('a/b'), typeof SharedInformer, (await loadKubeconfig('kubeconfig')).server)`,
    )
    const kubeconfig = {
      clusters: [{ name: 'c', cluster: { server: 'http://127.0.0.1:1' } }],
      contexts: [{ name: 'x', context: { cluster: 'c' } }],
      'current-context': 'x',
    }
    writeFileSync(join(folder, 'kubeconfig'), JSON.stringify(kubeconfig))
    t.equal(run(folder, process.execPath, 'program.mjs'), 'a:b function http://127.0.0.1:1\n')
  },
)
