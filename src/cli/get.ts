/** `distributary get`: objects as they are, and with `-w` as they change. */
import { indentJson } from '../codec/json-indent.js'
import { jsonToYaml } from '../codec/json-to-yaml.js'
import { bytesCodec } from '../reflector/bytes-codec.js'
import type { ObjectCodec } from '../reflector/object-codec.js'
import { type CommandContext, defineCommand, type FlagValues, type Flags } from './command.js'
import { connect, type Connection, connectionFlags } from './connection.js'
import { EXIT, type ExitCode, UsageError } from './exit-code.js'
import { follow } from './follow.js'
import { renderTemplate } from './jsonpath/evaluate.js'
import { outputFlag, type OutputFormat, parseOutputFormat } from './output-format.js'
import { askBytes } from './request.js'
import { type Chosen, choose, COMMON_RESOURCES, selectionFlags, watchSelection } from './selection.js'
import { rowsOfAnswer, tableCodec } from './table/table-codec.js'
import { TablePrinter } from './table/table-printer.js'

const getFlags = {
  watch: {
    kind: 'boolean',
    short: 'w',
    doc: 'Stay, and print each object again when it changes. It resumes by itself; JSON is then one object a line.',
  },
  output: outputFlag,
  'no-headers': { kind: 'boolean', doc: 'No line of column names.' },
  ...selectionFlags,
  ...connectionFlags,
} as const satisfies Flags

type Context = CommandContext<typeof getFlags>

interface Get {
  readonly context: Context
  readonly connection: Connection
  readonly chosen: Chosen
  readonly format: OutputFormat
}

export const getCommand = defineCommand<typeof getFlags>({
  name: 'get',
  summary: 'print objects, as a table, JSON, YAML, names or what a JSONPath picks',
  description:
    'RESOURCE is a name as the server has it (pods, pod, po, deployments.apps), RESOURCE/NAME, or a path (/api/v1/pods). The columns of a table are the server’s.',
  positionals: [
    { name: 'RESOURCE', choices: COMMON_RESOURCES },
    { name: 'NAME', isOptional: true, isRepeated: true },
  ],
  flags: getFlags,
  examples: [
    { doc: 'pods of every namespace', line: 'distributary get pods -A' },
    { doc: 'one of them, followed', line: 'distributary get pod web-0 -n shop -w' },
    { doc: 'by label, with more columns', line: 'distributary get deploy -l app=cart -o wide' },
    {
      doc: 'name and phase of each',
      line: `distributary get pods -o 'jsonpath={range .items[*]}{.metadata.name} {.status.phase}{"\\n"}{end}'`,
    },
    { doc: 'an own prefix of etcd', line: 'distributary get flags.distributary.io -o yaml' },
  ],
  async run(context) {
    const { flags, args, environment, signal } = context
    const format = parseOutputFormat(flags.output)
    const connection = await connect(flags as FlagValues<typeof connectionFlags>, environment)
    try {
      const chosen = await choose(connection, args, flags, signal)
      if (format.kind === 'name' && chosen.resource === null)
        throw new UsageError('-o name wants a resource, not a path')
      const get: Get = { context, connection, chosen, format }
      if (flags.watch) return await watchObjects(get)
      return format.kind === 'table' ? await printTable(get, format.isWide) : await printObjects(get)
    } finally {
      connection.close()
    }
  },
})

/** So many rows are asked for at a time: the first are on the screen while the last are still being made. */
const PAGE = 500

async function printTable({ context, connection, chosen }: Get, isWide: boolean): Promise<ExitCode> {
  const { out, err, flags, signal } = context
  const printer = printerOf(chosen, isWide, flags)
  const { selection, names } = chosen
  const accept = tableCodec().accept!
  let count = 0
  if (names.length > 0) {
    for (const name of names) {
      const path = `${selection.path}/${encodeURIComponent(name)}`
      const rows = rowsOfAnswer(await askBytes(connection, { path, accept, signal }))
      for (const line of printer.lines(rows)) await out.line(line)
    }
    return EXIT.done
  }
  for (let continueToken = ''; ;) {
    const query = {
      ...selectorsOf(chosen),
      limit: String(PAGE),
      ...(continueToken === '' ? {} : { continue: continueToken }),
    }
    const body = await askBytes(connection, { path: selection.path, query, accept, signal })
    const rows = rowsOfAnswer(body)
    count += rows.length
    const lines = printer.lines(rows)
    if (lines.length > 0) await out.write(`${lines.join('\n')}\n`)
    continueToken = continueOf(body)
    if (continueToken === '') break
  }
  if (count === 0) await err.line(`no objects${chosen.place}`)
  return EXIT.done
}

function printerOf(chosen: Chosen, isWide: boolean, flags: FlagValues<typeof getFlags>): TablePrinter {
  return new TablePrinter({
    isWide,
    withNamespace: chosen.resource === null ? 'auto' : chosen.isAcross,
    withHeader: !flags['no-headers'],
  })
}

function continueOf(body: Buffer): string {
  const { metadata } = JSON.parse(body.toString('utf8')) as { metadata?: { continue?: string } }
  return metadata?.continue ?? ''
}

function selectorsOf({ selection }: Chosen): Record<string, string> {
  const { labelSelector, fieldSelector } = selection
  return {
    ...(labelSelector === undefined ? {} : { labelSelector }),
    ...(fieldSelector === undefined ? {} : { fieldSelector }),
  }
}

/** The server's bytes, laid out: parsing and writing them again would round large numbers. */
async function printObjects({ context, connection, chosen, format }: Get): Promise<ExitCode> {
  const { out, err, signal } = context
  const { selection, names } = chosen
  let body: Buffer
  if (names.length === 0) {
    body = await askBytes(connection, { path: selection.path, query: selectorsOf(chosen), signal })
  } else {
    const objects: Buffer[] = []
    for (const name of names) {
      objects.push(await askBytes(connection, { path: `${selection.path}/${encodeURIComponent(name)}`, signal }))
    }
    body = objects.length === 1 ? objects[0]! : listOf(objects)
  }
  if (format.kind === 'json') await out.write(Buffer.concat([indentJson(compact(body)), Buffer.from('\n')]))
  else if (format.kind === 'yaml') await out.write(jsonToYaml(body))
  else if (format.kind === 'jsonpath')
    await out.write(renderTemplate(format.template, JSON.parse(body.toString('utf8'))))
  else {
    const all = namesOf(body)
    for (const name of all) await out.line(`${typeName(chosen)}/${name}`)
    if (all.length === 0) await err.line(`no objects${chosen.place}`)
  }
  return EXIT.done
}

function listOf(objects: readonly Buffer[]): Buffer {
  const items = objects.flatMap((object, index) => (index === 0 ? [object] : [Buffer.from(','), object]))
  return Buffer.concat([
    Buffer.from('{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":""},"items":['),
    ...items,
    Buffer.from(']}'),
  ])
}

async function watchObjects({ context, connection, chosen, format }: Get): Promise<ExitCode> {
  const { out, flags, signal } = context
  const { isWide } = format.kind === 'table' ? format : { isWide: false }
  const printer = printerOf(chosen, isWide, flags)
  if (format.kind === 'table') {
    return await printEach({ context, connection, chosen }, tableCodec(), async (rows) => {
      const lines = printer.lines(rows)
      if (lines.length > 0) await out.write(`${lines.join('\n')}\n`)
    })
  }
  return await printEach({ context, connection, chosen }, bytesCodec, async (objects) => {
    for (const { bytes, name } of objects) {
      if (signal.aborted) return
      const body = Buffer.from(bytes)
      if (format.kind === 'jsonpath') {
        await out.line(renderTemplate(format.template, JSON.parse(body.toString('utf8'))))
      } else if (format.kind === 'json') await out.line(body.toString('utf8'))
      else if (format.kind === 'yaml') await out.write(`---\n${jsonToYaml(body)}`)
      else await out.line(`${typeName(chosen)}/${name}`)
    }
  })
}

/** All there are, then each that changed. After a relist only what is not as it was printed last. */
async function printEach<T extends { readonly resourceVersion: string }>(
  { context, connection, chosen }: Omit<Get, 'format'>,
  codec: ObjectCodec<T>,
  print: (objects: readonly T[]) => Promise<void>,
): Promise<ExitCode> {
  const { err, signal } = context
  const printed = new Map<string, string>()
  const onTrouble = (text: string): void => void err.line(`distributary get: ${text}`)
  for await (const item of follow({ connection, selection: watchSelection(chosen), codec, signal, onTrouble })) {
    if (item.type === 'BOOKMARK') continue
    if (item.type !== 'STATE') {
      if (item.type === 'DELETED') printed.delete(item.key)
      else printed.set(item.key, item.resourceVersion)
      await print([item.object])
      continue
    }
    const changed = item.items.filter((object) => printed.get(codec.keyOf(object)) !== object.resourceVersion)
    printed.clear()
    for (const object of item.items) printed.set(codec.keyOf(object), object.resourceVersion)
    await print(changed)
  }
  return EXIT.done
}

/** What the indenter asks for: no white space between tokens. Servers end with a line feed. */
function compact(body: Buffer): Buffer {
  let end = body.length
  while (end > 0 && body[end - 1]! <= 0x20) end--
  return body.subarray(0, end)
}

function namesOf(body: Buffer): string[] {
  const { metadata, items } = JSON.parse(body.toString('utf8')) as {
    metadata?: { name?: string }
    items?: readonly { metadata?: { name?: string } }[] | null
  }
  if (items === undefined) return [metadata?.name ?? '']
  return (items ?? []).map((item) => item.metadata?.name ?? '')
}

/** `pod`, `deployment.apps`. */
function typeName({ resource }: Chosen): string {
  const { singular, plural, kind, group } = resource!
  const name = singular === '' ? (kind === '' ? plural : kind.toLowerCase()) : singular
  return group === '' ? name : `${name}.${group}`
}
