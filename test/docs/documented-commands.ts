/** Every command that README and docs show: those of fenced shell blocks, block by block, and those in the text. */
import { readdirSync } from 'node:fs'
import { readText, root } from './repository.js'

export interface DocumentedCommand {
  readonly page: string
  readonly line: number
  /** The line at which its fenced block begins; null for a command in the text. */
  readonly block: number | null
  /** Continuation lines joined, comments left out. */
  readonly text: string
}

/** The words that commands in the text begin with; a span of one word names a program and is not a command. */
const PROGRAMS =
  /^(?:apt-get|curl|distributary|docker|etcd|etcdctl|git|helm|kill|kubectl|nats|nats-server|node|npm|npx|openssl|prometheus|promtool|systemctl) \S/

export function documentedCommands(): DocumentedCommand[] {
  return pages().flatMap((page) => commandsOf(page, readText(page)))
}

export function pages(): string[] {
  const markdown = (folder: string): string[] =>
    readdirSync(root + folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.md'))
      .map((file) => `${folder}/${file}`)
  const top = readdirSync(root).filter((file) => file.endsWith('.md') && file !== 'CHANGELOG.md')
  return [...top, ...markdown('docs'), ...markdown('deploy'), 'bench/README.md'].sort()
}

export function commandsOf(page: string, text: string): DocumentedCommand[] {
  const commands: DocumentedCommand[] = []
  let language: string | null = null
  let pending = ''
  let block: number | null = null
  for (const [i, raw] of text.split('\n').entries()) {
    const fence = /^\s*```(\w*)/.exec(raw)
    if (fence !== null) {
      language = language === null ? fence[1]! : null
      block = language === null ? null : i + 1
      pending = ''
      continue
    }
    const add = (command: string): void => {
      if (command !== '') commands.push({ page, line: i + 1, block, text: command })
    }
    if (language === null) {
      for (const [, span = ''] of raw.matchAll(/`([^`]+)`/g)) if (PROGRAMS.test(span)) add(span)
    } else if (/^(?:sh|bash|shell|console)$/.test(language)) {
      pending += raw.replace(/\s+#.*$|^#.*$/, '').trim()
      if (pending.endsWith('\\')) pending = pending.slice(0, -1)
      else {
        add(pending.replace(/^\$ /, ''))
        pending = ''
      }
    }
  }
  return commands
}
