/**
 * Compiles changed sources into `.build/`, one module per source. Types are not checked here: `npm run check:types`
 * does that.
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { compiledPath } from './compiled-path.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** @param sources relative to the root. @throws Error when one of them does not parse. */
export async function compile(sources: Iterable<string>): Promise<void> {
  const entryPoints = [...sources].filter((source) => !isCompiled(source))
  if (entryPoints.length === 0) return
  await build({
    entryPoints,
    absWorkingDir: root,
    outbase: root,
    outdir: join(root, '.build'),
    sourcemap: true,
    sourcesContent: false,
    logLevel: 'error',
  })
}

function isCompiled(source: string): boolean {
  const compiled = statSync(compiledPath(source), { throwIfNoEntry: false })
  return compiled !== undefined && compiled.mtimeMs > statSync(join(root, source)).mtimeMs
}
