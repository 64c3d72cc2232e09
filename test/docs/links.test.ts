import { existsSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { readText, root } from './repository.js'

const pages = [
  ...readdirSync(root).filter((file) => file.endsWith('.md')),
  ...readdirSync(`${root}docs`, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => `docs/${file}`),
]

/** Returns the anchors that GitHub derives from a page's headings. */
function anchors(page: string): string[] {
  return [...page.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  )
}

void t.test('every link within the repository leads somewhere', async (t) => {
  for (const page of pages) {
    const prose = readText(page).replace(/```[^]*?```/g, '')
    for (const [, target = ''] of prose.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue
      const [path = '', anchor] = target.split('#')
      const file = path === '' ? page : join(dirname(page), path)
      if (!t.ok(existsSync(root + file), `${page}: ${target}`) || anchor === undefined) continue
      t.ok(anchors(readText(file)).includes(anchor), `${page}: ${target}`)
    }
  }
})

void t.test('every page under docs can be reached from its first page', async (t) => {
  const seen = new Set<string>()
  const visit = (page: string): void => {
    if (seen.has(page) || !existsSync(root + page)) return
    seen.add(page)
    for (const [, target = ''] of readText(page).matchAll(/\]\(([^)#\s]+\.md)/g)) {
      if (!/^[a-z]+:/.test(target)) visit(join(dirname(page), target))
    }
  }
  visit('docs/README.md')
  for (const page of pages.filter((one) => one.startsWith('docs/'))) {
    t.ok(seen.has(page), page)
  }
})

/** A path of the repository in text, code or a picture; a path within `src/` may omit that. */
const PATH = /(?<![\w./:@-])((?:\w[\w-]*\/)+(?:[\w.-]*\w)?)(?![\w*<{/-])/g
const top = readdirSync(root)
const stages = readdirSync(`${root}src`, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

void t.test('every file and folder that the pages for contributors name exists', async (t) => {
  for (const page of ['docs/architecture.md', 'CONTRIBUTING.md']) {
    const text = readText(page)
    const paths = [...text.matchAll(PATH)].map(([, path = '']) => path).filter((path) => isPath(path))
    t.ok(paths.length > 20, `${page} names ${paths.length} paths`)
    for (const path of paths) t.ok(existsSync(root + path) || existsSync(`${root}src/${path}`), `${page}: ${path}`)
    // A file without its folder is next to the last one that was named with it.
    const files = readdirSync(`${root}src`, { recursive: true, encoding: 'utf8' })
    for (const [, file = ''] of text.matchAll(/(?<![\w./-])([a-z][\w-]*\.ts)\b/g)) {
      t.ok(
        files.some((one) => one.endsWith(`/${file}`)),
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
  const picture = readText('docs/architecture.md')
  for (const stage of stages) {
    t.ok(text.includes(`\`src/${stage}/\``), `CONTRIBUTING.md: src/${stage}/`)
    t.ok(picture.includes(`${stage}/`), `docs/architecture.md: ${stage}/`)
  }
})

void t.test('every file and option that a page names exists', async (t) => {
  const options = readText('docs/options.md')
  for (const page of pages.filter((one) => one.startsWith('docs/'))) {
    for (const [, path = ''] of readText(page).matchAll(/`((?:deploy|helm|src|test)\/[\w./-]+)`/g)) {
      t.ok(existsSync(root + path), `${page}: ${path}`)
    }
    // Commands have other flags, and that page is generated from them.
    if (page === 'docs/commands.md') continue
    for (const [, flag = ''] of readText(page).matchAll(
      /`(--(?:watch|max-watchers|max-initial|list|shutdown|etcd|require|insecure|resource|on-gap|default|workers)[a-z-]*)/g,
    )) {
      t.match(options, `\`${flag}\``, `${page}: ${flag}`)
    }
  }
})
