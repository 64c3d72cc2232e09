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

/** Skips a test of something that only Node has: HTTP/2 without TLS, and workers (docs/runtimes.md). */
export const needsNode = serverRuntime() === process.execPath ? false : 'only on Node'

/** Whether tests with these sources start programs. */
export function startsPrograms(sources: ReadonlySet<string>): boolean {
  return sources.has('test/support/program.ts')
}

/** Builds the bundles, for this process and its children; nothing where a parent has: others may be starting them. */
export async function bundlePrograms(): Promise<void> {
  if (process.env[BUNDLED] !== undefined) return
  rmSync(bundles, { recursive: true, force: true })
  const { build } = await import('esbuild')
  await build({
    entryPoints: programs,
    outdir: bundles,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    // People read stack traces; names suffice.
    keepNames: true,
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
            const contents = readFileSync(path, 'utf8')
            return { contents: contents.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href)) }
          })
        },
      },
    ],
  })
  process.env[BUNDLED] = '1'
}
