/**
 * docs/reference/client-reference.md: every name that `distributary/client` exports, with its declaration and docstring, from the
 * sources. The declarations are parsed, not type-checked: types appear as written, and nothing needs to be compiled.
 */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const client = fileURLToPath(new URL('../../../src/client/', import.meta.url))

export interface Exported {
  readonly name: string
  readonly kind: 'class' | 'function' | 'constant' | 'type'
  /** The only place that exports the name; '' if `distributary/client` does so for both Node and browsers. */
  readonly only: '' | 'Node' | '`distributary/react`'
  /** The text of its docstring; '' without one. */
  readonly doc: string
  /** The declaration without bodies and private members. */
  readonly declaration: string
}

/** Sorted by name. */
export function clientExports(): readonly Exported[] {
  const from = (only: Exported['only'], names: readonly Name[]): readonly Exported[] =>
    names.map(({ name, file }) => ({ name, only, ...declared(name, file) }))
  const hooks = ['useList', 'useObject'].map((name) => ({ name, file: join(client, 'react.ts') }))
  return [
    ...from('', namesIn(join(client, 'browser.ts'))),
    ...from('Node', namesIn(join(client, 'index.ts'))),
    ...from('`distributary/react`', hooks),
  ].toSorted((a, b) => a.name.toLowerCase().localeCompare(b.name.toLowerCase()))
}

export function clientReferencePage(): string {
  const all = clientExports()
  const of = (kind: Exported['kind'], title: string): string =>
    [`## ${title}`, ...all.filter((one) => one.kind === kind).map(section)].join('\n\n')
  return `# Reference of the client

Every name of \`distributary/client\` and \`distributary/react\`, made from the sources by \`npm run generate\`; [the client](../guide/client.md) says what to use when.

${[of('class', 'Classes'), of('function', 'Functions'), of('constant', 'Constants'), of('type', 'Types')].join('\n\n')}
`
}

function section({ name, doc, declaration, only }: Exported): string {
  const where = only === '' ? '' : ` (${only})`
  return `### \`${name}\`${where}\n\n${doc === '' ? 'Not documented.' : doc}\n\n\`\`\`ts\n${declaration}\n\`\`\``
}

interface Name {
  readonly name: string
  readonly file: string
}

/** The names that a file re-exports; `export *` is not followed. */
function namesIn(file: string): readonly Name[] {
  return parse(file).statements.flatMap((statement) => {
    if (!ts.isExportDeclaration(statement) || statement.exportClause === undefined) return []
    if (!ts.isNamedExports(statement.exportClause) || statement.moduleSpecifier === undefined) return []
    const { text } = statement.moduleSpecifier as ts.StringLiteral
    const from = join(dirname(file), text.replace(/\.js$/, '.ts'))
    return statement.exportClause.elements.map(({ name }) => ({ name: name.text, file: from }))
  })
}

type Declared = Pick<Exported, 'kind' | 'doc' | 'declaration'>

function declared(name: string, file: string): Declared {
  const source = parse(file)
  for (const statement of source.statements) {
    if (ts.isVariableStatement(statement)) {
      const [one] = statement.declarationList.declarations
      if (one === undefined || one.name.getText(source) !== name) continue
      const type = one.type?.getText(source) ?? one.initializer?.getText(source) ?? ''
      return { kind: 'constant', doc: docOf(statement), declaration: `const ${name}${one.type ? ': ' : ' = '}${type}` }
    }
    if (!isNamed(statement) || statement.name?.text !== name) continue
    const doc = docOf(statement)
    if (ts.isClassDeclaration(statement)) return { kind: 'class', doc, declaration: classText(statement, source) }
    const text = statement.getText(source).replace(/^export /, '')
    if (!ts.isFunctionDeclaration(statement)) return { kind: 'type', doc, declaration: text }
    return { kind: 'function', doc, declaration: withoutBody(statement, source).replace(/^export /, '') }
  }
  throw new Error(`${file} declares no ${name}`)
}

type Named = ts.ClassDeclaration | ts.FunctionDeclaration | ts.InterfaceDeclaration | ts.TypeAliasDeclaration

function isNamed(statement: ts.Statement): statement is Named {
  return (
    ts.isClassDeclaration(statement) ||
    ts.isFunctionDeclaration(statement) ||
    ts.isInterfaceDeclaration(statement) ||
    ts.isTypeAliasDeclaration(statement)
  )
}

function classText(declaration: ts.ClassDeclaration, source: ts.SourceFile): string {
  const text = declaration.getText(source)
  const head = text.slice(0, declaration.members.pos - declaration.getStart(source)).replace(/^export /, '')
  const members = declaration.members.filter((member) => !isPrivate(member)).map((member) => memberText(member, source))
  return `${head.trimEnd()}\n${members.map((one) => `  ${one}`).join('\n')}\n}`
}

function isPrivate(member: ts.ClassElement): boolean {
  if (member.name !== undefined && ts.isPrivateIdentifier(member.name)) return true
  return (ts.getCombinedModifierFlags(member) & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected)) !== 0
}

function memberText(member: ts.ClassElement, source: ts.SourceFile): string {
  const doc = source.text.slice(member.getStart(source, true), member.getStart(source))
  const text = ts.isPropertyDeclaration(member) ? member.getText(source) : withoutBody(member, source)
  return doc + text.replace(/^(override |async )+\*?\s*/, '')
}

function withoutBody(node: ts.Node & { readonly body?: ts.Node | undefined }, source: ts.SourceFile): string {
  const end = node.body?.getStart(source) ?? node.getEnd()
  return source.text.slice(node.getStart(source), end).trimEnd().replace('export async function', 'export function')
}

/** The docstring as Markdown, with its tags as a list. */
function docOf(node: ts.Node): string {
  const doc = ts.getJSDocCommentsAndTags(node).filter(ts.isJSDoc).at(-1)
  if (doc === undefined) return ''
  const text = (comment: ts.JSDocTag['comment']): string => (ts.getTextOfJSDocComment(comment) ?? '').trim()
  const tags = (doc.tags ?? []).map((tag) => {
    const of = ts.isJSDocParameterTag(tag) ? ` \`${tag.name.getText()}\`:` : ''
    return `- *${tag.tagName.text}*${of} ${text(tag.comment).replace(/\s*\n\s*/g, ' ')}`
  })
  return [text(doc.comment), tags.join('\n')].filter((part) => part !== '').join('\n\n')
}

function parse(file: string): ts.SourceFile {
  return ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.ES2023, true)
}
