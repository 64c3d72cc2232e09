/** What `npm pack` makes: just what is needed, and it runs in an empty folder. */
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

void t.test('the package holds what is needed, installs into an empty folder and runs', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-pack-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  npm(root, 'run', 'build')
  const [packed] = JSON.parse(npm(root, 'pack', '--json', '--pack-destination', folder)) as {
    filename: string
    size: number
    files: { path: string }[]
  }[]
  const paths = packed!.files.map(({ path }) => path)
  for (const needed of [
    'dist/main.js',
    'dist/ui/page/main.js',
    'src/ui/page/index.html',
    'LICENSE',
    'README.md',
    'CHANGELOG.md',
  ]) {
    t.ok(paths.includes(needed), needed)
  }
  t.same(
    paths.filter(
      (path) => !/^(dist\/.*\.(js|d\.ts)|src\/ui\/page\/\w+\.(html|css|svg)|LICENSE|\w+\.md|package\.json)$/.test(path),
    ),
    [],
    'and nothing else',
  )
  t.ok(packed!.size < 2_000_000, `${packed!.size} bytes`)

  writeFileSync(join(folder, 'package.json'), '{"private":true}')
  npm(folder, 'install', '--prefer-offline', '--no-audit', '--no-fund', '--omit=dev', `./${packed!.filename}`)
  const program = join(folder, 'node_modules/.bin/distributary')
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  t.equal((await runToEnd([program, '--version'], { cwd: folder })).output, `distributary ${version}\n`)

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
