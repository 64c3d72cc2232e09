import { existsSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { readText, root } from './generate.js'

const pages = [
  ...readdirSync(root).filter((file) => file.endsWith('.md')),
  ...readdirSync(`${root}docs`, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => `docs/${file}`),
]

/** As GitHub makes them of headings. */
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

void t.test('every page under docs can be reached from its first', async (t) => {
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

void t.test('what pages say of files and options is so', async (t) => {
  const options = readText('docs/options.md')
  for (const page of pages.filter((one) => one.startsWith('docs/'))) {
    for (const [, path = ''] of readText(page).matchAll(/`((?:deploy|helm|src|test)\/[\w./-]+)`/g)) {
      t.ok(existsSync(root + path), `${page}: ${path}`)
    }
    // The flags of the commands are others, and that page is made from them.
    if (page === 'docs/commands.md') continue
    for (const [, flag = ''] of readText(page).matchAll(
      /`(--(?:watch|max-watchers|max-initial|list|shutdown|etcd|require|insecure|resource|on-gap|default|workers)[a-z-]*)/g,
    )) {
      t.match(options, `\`${flag}\``, `${page}: ${flag}`)
    }
  }
})
