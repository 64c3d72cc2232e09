/** Tests of the package that `npm pack` makes: it has just what is needed, and it runs in an empty folder. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { root, runToEnd, startServerProcess } from './support/server-process.js'

function npm(cwd: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync('npm', args, { cwd, encoding: 'utf8' })
  if (status !== 0) throw new Error(`npm ${args.join(' ')}: ${stderr}`)
  return stdout
}

const text = (path: string): string => readFileSync(join(root, path), 'utf8')
const { version } = JSON.parse(text('package.json')) as { version: string }

void t.test('all files have the same version', async (t) => {
  t.match(text('helm/distributary/Chart.yaml'), `\nversion: ${version}\nappVersion: ${version}\n`)
  t.equal((JSON.parse(text('package-lock.json')) as { version: string }).version, version)
  for (const overlay of ['base', 'edge', 'static-pod']) {
    t.match(text(`deploy/kubernetes/${overlay}/kustomization.yaml`), new RegExp(`newTag: '?${version}'?\n`), overlay)
  }
  t.match(text('deploy/kubernetes/kubeadm/patches/etcd+strategic.yaml'), `distributary:${version}\n`)
  const changes = [...text('CHANGELOG.md').matchAll(/^## (.*)$/gm)].map(([, heading]) => heading!)
  t.ok(changes[0] === 'Unreleased' || changes[0]!.startsWith(version), 'what is new stands first')
})

void t.test('the package holds what is needed, installs into an empty folder and runs', async (t) => {
  t.setTimeout(300_000)
  const folder = mkdtempSync(join(tmpdir(), 'distributary-pack-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  // What `npm pack` runs first, but for the check of the types, which does not change what is made.
  const { scripts } = JSON.parse(text('package.json')) as { scripts: Record<string, string> }
  t.equal(scripts['prepack'], 'rm -rf dist && npm run --silent build')
  rmSync(join(root, 'dist'), { recursive: true, force: true })
  npm(root, 'run', 'build', '--', '--noCheck')
  const pack = npm(root, 'pack', '--json', '--ignore-scripts', '--pack-destination', folder)
  const [packed] = JSON.parse(pack) as {
    filename: string
    size: number
    files: { path: string }[]
  }[]
  const paths = packed!.files.map(({ path }) => path)
  for (const needed of [
    'dist/main.js',
    'dist/server/ui/page/main.js',
    'src/server/ui/page/index.html',
    'src/engine/upstream/embedded/sample-cluster.json',
    'LICENSE',
    'NOTICE',
    'THIRD-PARTY-LICENSES.txt',
    'README.md',
    'CHANGELOG.md',
  ]) {
    t.ok(paths.includes(needed), needed)
  }
  t.same(
    paths.filter(
      (path) =>
        !/^(dist\/.*\.(js|d\.ts)|src\/engine\/upstream\/embedded\/sample-cluster\.json|src\/server\/ui\/page\/\w+\.(html|css|svg)|LICENSE|NOTICE|THIRD-PARTY-LICENSES\.txt|\w+\.md|package\.json)$/.test(
          path,
        ),
    ),
    [],
    'and nothing else',
  )
  t.ok(packed!.size < 2_000_000, `${packed!.size} bytes`)

  writeFileSync(join(folder, 'package.json'), '{"private":true}')
  // The server runs without the optional packages.
  const omit = ['--omit=dev', '--omit=optional']
  npm(folder, 'install', '--prefer-offline', '--no-audit', '--no-fund', ...omit, `./${packed!.filename}`)
  t.equal(npm(folder, 'exec', '--offline', '--', 'distributary', '--version'), `distributary ${version}\n`)
  const help = await runToEnd(['npx', '--offline', 'distributary', '--help'], { cwd: folder })
  t.equal(help.code, 0)
  t.match(help.output, '--etcd-servers')

  // The program that npx runs; through npx itself a signal would reach npm.
  const program = join(folder, 'node_modules/.bin/distributary')
  const server = await startServerProcess(t, { command: [program], cwd: folder })
  const get = async (path: string): Promise<string> => await (await fetch(server.url + path)).text()
  t.match(await get('/metrics'), `distributary_build_info{version="${version}"} 1`)
  t.match(await get('/version'), version)
  t.match(await get('/ui/'), '<title>distributary</title>')
  for (const asset of ['main.js', 'overview.js', 'uplot.js', 'uplot.css', 'style.css', 'icon.svg']) {
    t.equal((await fetch(`${server.url}/ui/${asset}`)).status, 200, asset)
  }
  t.match(await get('/api/v1/pods?limit=1'), '"kind":"PodList"')
  t.equal(await server.stop(), 0)
})
