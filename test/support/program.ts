/**
 * The programs that tests start. `npm test` first bundles those that its tests start, each with nearly all its modules:
 * they read some hundred files fewer and start at half the cost, which saves more than a minute in a full run. Other
 * runners and the benchmarks start the compiled modules directly, as do tests of the package.
 */
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const bundles = join(root, '.build', 'bundle')
const programs = {
  main: fileURLToPath(new URL('../../src/main.js', import.meta.url)),
  replica: fileURLToPath(new URL('../fleet/replica-main.js', import.meta.url)),
}

/** Tells test processes that there are bundles. */
const BUNDLED = 'TEST_PROGRAMS_BUNDLED'

/** The compiled file of a program: distributary itself, or a replica of one resource. */
export function programFile(name: keyof typeof programs): string {
  return process.env[BUNDLED] === undefined ? programs[name] : join(bundles, `${name}.js`)
}

/**
 * The program that runs a compiled file: the Node of the tests, or the one that `TEST_SERVER_RUNTIME` names, such as
 * the path of Bun.
 */
export function serverRuntime(): string {
  return process.env['TEST_SERVER_RUNTIME'] ?? process.execPath
}

/** Skips a test of something that only Node has: HTTP/2 without TLS, and workers (docs/guide/runtimes.md). */
export const needsNode = serverRuntime() === process.execPath ? false : 'only on Node'

/** Whether tests with these sources start programs. */
export function startsPrograms(sources: ReadonlySet<string>): boolean {
  return sources.has('test/support/program.ts')
}

/** Builds the bundles, for this process and its children; nothing where a parent has: others may be starting them. */
export async function bundlePrograms(): Promise<void> {
  if (process.env[BUNDLED] !== undefined) return
  await bundle(bundles, programs, [])
  process.env[BUNDLED] = '1'
}

/** Another value in a source: an interval that is shortened, or a limit that is lowered, for a run that reaches many. */
export interface Change {
  /** `src/…ts` */
  readonly source: string
  /** Found once in the compiled source. */
  readonly pattern: RegExp
  readonly replacement: string
}

/** The change of a module's constant. */
export function constant(source: string, name: string, value: number): Change {
  return { source, pattern: new RegExp(`\\bconst ${name} = [^;]+;`), replacement: `const ${name} = ${value};` }
}

/**
 * Builds distributary with changes, so that it needs no option that only tests would set.
 *
 * @param name of its folder.
 * @returns the file of the program.
 * @throws Error when a source has nothing to change.
 */
export async function bundleWith(name: string, changes: readonly Change[]): Promise<string> {
  const folder = join(root, '.build', name)
  await bundle(folder, { main: programs.main }, changes)
  return join(folder, 'main.js')
}

async function bundle(
  outdir: string,
  entryPoints: Readonly<Record<string, string>>,
  changes: readonly Change[],
): Promise<void> {
  rmSync(outdir, { recursive: true, force: true })
  const missing = new Set(changes)
  const { build } = await import('esbuild')
  await build({
    entryPoints,
    outdir,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    // People read stack traces; names suffice. They are not what a heap snapshot calls a function.
    keepNames: changes.length === 0,
    // As in the package, because the source stays in memory.
    minifyWhitespace: true,
    lineLimit: 200,
    logLevel: 'error',
    // These are rarely loaded, on demand, and use features that only CommonJS has.
    external: ['yaml', '@opentelemetry/*'],
    // CommonJS packages need these names.
    banner: {
      js: "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);",
    },
    plugins: [
      {
        name: 'files beside a module are found from where it was compiled',
        setup(context) {
          context.onLoad({ filter: /\.build[/\\](src|test)[/\\].*\.js$/ }, ({ path }) => {
            let contents = readFileSync(path, 'utf8')
            for (const change of changes) {
              if (!path.endsWith(`/.build/${change.source.replace(/ts$/, 'js')}`)) continue
              contents = contents.replace(change.pattern, () => {
                missing.delete(change)
                return change.replacement
              })
            }
            return { contents: contents.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href)) }
          })
        },
      },
    ],
  })
  for (const { source, pattern } of missing) throw new Error(`${source} has no ${pattern}`)
}
