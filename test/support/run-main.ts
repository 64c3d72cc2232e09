/** Runs the main function of a runner of tests. The comment at the head of its source is its usage. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { textAt } from '../../src/support/fields.js'
import { fail, print } from './verdict.js'

/**
 * @param url the runner's `import.meta.url`.
 * @param main returns the exit code; its `parseArgs` need not know `--help`.
 */
export async function runMain(url: string, main: () => number | Promise<number>): Promise<void> {
  process.exitCode = process.argv.slice(2).some((one) => one === '--help' || one === '-h') ? help(url) : await run(main)
}

function help(url: string): number {
  const [, comment = ''] = /^\/\*\*\n(.*?)\n \*\//s.exec(readFileSync(sourceOf(url), 'utf8')) ?? []
  print(comment.replaceAll(/^ \* ?/gm, '').replaceAll('`', ''))
  return 0
}

function sourceOf(url: string): string {
  return fileURLToPath(url).replace('/.build/', '/').replace(/js$/, 'ts')
}

async function run(main: () => number | Promise<number>): Promise<number> {
  try {
    return await main()
  } catch (error) {
    if (error instanceof Error && textAt(error, 'code').startsWith('ERR_PARSE_ARGS_')) return fail(error.message)
    throw error
  }
}
