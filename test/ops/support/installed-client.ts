/** Checks of a package that contains the client, as its users' tools see it. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'
import ts from 'typescript'

/** A page that imports `ticketEvents` alone gets a tenth of the client. */
export const MAX_TICKET_EVENTS_BYTES = 8_000

/**
 * Returns the size of a page's script that imports one function, minified.
 *
 * @param folder where the package is installed.
 */
export async function scriptBytes(folder: string, module: string, name: string): Promise<number> {
  const { outputFiles } = await build({
    stdin: { contents: `export { ${name} } from '${module}'`, resolveDir: folder },
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    write: false,
  })
  return outputFiles[0]!.contents.byteLength
}

/**
 * Returns what a strict compiler finds in the declarations of the modules, in a project without Node's types. As Node and
 * as a browser's bundler resolve them.
 */
export function declarationErrors(folder: string, modules: readonly string[]): readonly string[] {
  const sources = join(folder, 'project')
  mkdirSync(sources, { recursive: true })
  const file = join(sources, 'all.ts')
  writeFileSync(file, modules.map((module, i) => `export * as _${i} from '${module}'\n`).join(''))
  return [undefined, ['browser']].flatMap((customConditions) => {
    const program = ts.createProgram([file], {
      target: ts.ScriptTarget.ES2022,
      lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'],
      module: customConditions === undefined ? ts.ModuleKind.NodeNext : ts.ModuleKind.ESNext,
      moduleResolution:
        customConditions === undefined ? ts.ModuleResolutionKind.NodeNext : ts.ModuleResolutionKind.Bundler,
      ...(customConditions === undefined ? {} : { customConditions }),
      types: [],
      strict: true,
      noEmit: true,
    })
    return ts
      .getPreEmitDiagnostics(program)
      .map(({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`)
  })
}
