import { existsSync, readdirSync, statSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import t from 'tap'
import { OWNED, repository } from './owner.js'
import { readText, root } from './repository.js'

/** The files under a folder of the repository, by path in it, without recorded data and what other programs made. */
function filesIn(folder: string): string[] {
  return readdirSync(root + folder, { recursive: true, encoding: 'utf8' })
    .map((file) => `${folder}/${file}`)
    .filter((file) => !/^test\/data\/.*(?<!\.md)$|\/node_modules\//.test(file) && statSync(root + file).isFile())
}

const files = ['.github', 'bench', 'deploy', 'docs', 'helm', 'src', 'test'].flatMap(filesIn)
/** What `npm run release:check` leaves in a checkout. */
const GENERATED = 'sbom.cdx.json'
const textFiles = [
  ...readdirSync(root).filter((one) => /\.(?:md|json)$/.test(one) && one !== GENERATED),
  ...files,
].filter((file) => !/\.(?:png|gz|br|jsonl)$/.test(file))
const isPage = (file: string): boolean => file.endsWith('.md')
const pages = [...readdirSync(root), ...files].filter(isPage)
const guides = pages.filter((page) => page.startsWith('docs/'))

/** Returns the anchors that GitHub derives from a page's headings. */
function anchors(page: string): string[] {
  return [...page.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  )
}

/** Whether a path of the repository, with an anchor if it has one, leads somewhere. */
function resolves(target: string): boolean {
  const [file = '', anchor] = target.split('#')
  return existsSync(root + file) && (anchor === undefined || anchors(readText(file)).includes(anchor))
}

void t.test('every link within the repository leads somewhere', async (t) => {
  for (const page of pages) {
    const prose = readText(page).replace(/```[^]*?```/g, '')
    for (const [, link = '', source = ''] of prose.matchAll(/\]\(([^)\s]+)\)|\bsrc(?:set)?="([^"]+)"/g)) {
      const target = link || source
      if (/^[a-z]+:/.test(target)) continue
      t.ok(resolves(target.startsWith('#') ? page + target : join(dirname(page), target)), `${page}: ${target}`)
    }
  }
})

void t.test('every page that an address, a text or a comment names exists', async (t) => {
  const address = new RegExp(`github\\.com/${repository()}/(?:blob|tree)/main/([\\w./#-]*[\\w/])`, 'g')
  const path = /(?<![\w./-])((?:bench|deploy|docs|helm|src|test)\/[\w./-]*\.md(?:#[\w-]+)?)\b/g
  let runbooks = 0
  for (const file of textFiles) {
    const text = readText(file)
    for (const [, target = ''] of text.matchAll(address)) {
      if (target.startsWith('docs/guide/alerts')) runbooks++
      t.ok(resolves(target), `${file}: ${target}`)
    }
    if (isPage(file)) continue
    for (const [, target = ''] of text.matchAll(path)) t.ok(resolves(target), `${file}: ${target}`)
  }
  t.ok(runbooks > 60, `the addresses of ${runbooks} runbooks`)
})

void t.test('the first release needs no changes but those that releasing.md names', async (t) => {
  const address = new RegExp(`(?:github\\.com|ghcr\\.io)/${dirname(repository())}/`, 'i')
  const owned: readonly string[] = OWNED
  for (const file of textFiles) if (address.test(readText(file))) t.ok(owned.includes(file), `${file} names the owner`)
  const steps = readText('docs/project/releasing.md')
  for (const page of pages) {
    if (!/(?:after|before|until) the first release/i.test(readText(page)) || readText(page) === steps) continue
    t.ok(steps.includes(`\`${page}\``), `${page} describes the time before`)
  }
})

void t.test('the index has a row for every page, and sorts those under docs by what they are for', async (t) => {
  const index = readText('docs/README.md')
  const alerts = 'docs/guide/alerts/'
  const others = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md', 'src/SPEC.md', 'bench/README.md']
  others.push('bench/RESULTS.md', 'deploy/SCALING.md', 'helm/distributary/README.md', 'test/soak/README.md')
  for (const page of [...guides, ...others]) {
    if (page === 'docs/README.md' || (page.startsWith(alerts) && page !== `${alerts}README.md`)) continue
    t.ok(index.includes(`](${relative('docs', page)}`), page)
    if (page.startsWith('docs/')) t.match(page, /^docs\/(?:guide|reference|project)\//)
  }
  const names = guides.map((page) => basename(page).toLowerCase()).filter((name) => name !== 'readme.md')
  t.equal(new Set(names).size, names.length, 'no two pages have the same name')
  t.notOk(names.includes('security.md'), 'and none that of SECURITY.md')
})

/** A path of the repository in text, code or a picture; a path within `src/` may omit that. */
const PATH = /(?<![\w./:@-])((?:\w[\w-]*\/)+(?:[\w.-]*\w)?)(?![\w*<{/-])/g
const top = readdirSync(root)
const stages = readdirSync(`${root}src`, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

void t.test('every file and folder that the pages for contributors name exists', async (t) => {
  for (const page of ['docs/project/architecture.md', 'CONTRIBUTING.md']) {
    const text = readText(page)
    const paths = [...text.matchAll(PATH)].map(([, path = '']) => path).filter((path) => isPath(path))
    t.ok(paths.length > 20, `${page} names ${paths.length} paths`)
    for (const path of paths) t.ok(existsSync(root + path) || existsSync(`${root}src/${path}`), `${page}: ${path}`)
    // A file without its folder is next to the last one that was named with it.
    for (const [, file = ''] of text.matchAll(/(?<![\w./-])([a-z][\w-]*\.ts)\b/g)) {
      t.ok(
        files.some((one) => one.startsWith('src/') && one.endsWith(`/${file}`)),
        `${page}: ${file}`,
      )
    }
  }
})

/** Begins with a folder of the repository, or with a stage. */
function isPath(path: string): boolean {
  const first = path.slice(0, path.indexOf('/'))
  return top.includes(first) || stages.includes(first)
}

void t.test('every stage is documented for contributors', async (t) => {
  const text = readText('CONTRIBUTING.md')
  const picture = readText('docs/project/architecture.md')
  for (const stage of stages) {
    t.ok(text.includes(`\`src/${stage}/\``), `CONTRIBUTING.md: src/${stage}/`)
    t.ok(picture.includes(`${stage}/`), `docs/project/architecture.md: ${stage}/`)
  }
})

void t.test('every file and option that a page names exists', async (t) => {
  const options = readText('docs/reference/options.md')
  for (const page of guides) {
    for (const [, path = ''] of readText(page).matchAll(/`((?:deploy|helm|src|test)\/[\w./-]+)`/g)) {
      t.ok(existsSync(root + path), `${page}: ${path}`)
    }
    // Commands have other flags, and that page is generated from them.
    if (page === 'docs/reference/commands.md') continue
    for (const [, flag = ''] of readText(page).matchAll(
      /`(--(?:watch|max-watchers|max-initial|list|shutdown|etcd|require|insecure|resource|on-gap|default|workers)[a-z-]*)/g,
    )) {
      t.match(options, `\`${flag}\``, `${page}: ${flag}`)
    }
  }
})
