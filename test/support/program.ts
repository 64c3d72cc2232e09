/**
 * The programs that tests start. `npm test` bundles them first where it runs such tests, each with nearly all that it
 * loads: they read some hundred files less, and start at half the cost, which in a run of all tests is more than a minute.
 * Other runners and the judges start the compiled modules themselves; so does whatever test is about the package.
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

/** Tells the processes of the tests that there are bundles. */
const BUNDLED = 'TEST_PROGRAMS_BUNDLED'

/** The compiled file of a program: distributary itself, or a replica of one resource. */
export function programFile(name: keyof typeof programs): string {
  return process.env[BUNDLED] === undefined ? programs[name] : join(bundles, `${name}.js`)
}

/** Whether tests with these sources start programs. */
export function startsPrograms(sources: ReadonlySet<string>): boolean {
  return sources.has('test/support/program.ts')
}

/** Makes the bundles, for this process and those that it starts. */
export async function bundlePrograms(): Promise<void> {
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
    // Stack traces are read by people; names are all that they need.
    keepNames: true,
    logLevel: 'error',
    // Loaded when they are wanted, which is seldom, and in a way that only CommonJS has.
    external: ['yaml', '@opentelemetry/*'],
    // What packages in CommonJS call.
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
