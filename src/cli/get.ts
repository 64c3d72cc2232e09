/** `distributary get`: prints objects, and with `-w` their changes. */
import { indentJson } from '../codec/json-indent.js'
import { encodeJsonTree, isRecord, type Json, parseJsonTree, record, textMember } from '../codec/json-tree.js'
import { jsonToYaml } from '../codec/json-to-yaml.js'
import { bytesCodec } from '../reflector/bytes-codec.js'
import type { ObjectCodec } from '../reflector/object-codec.js'
import { type CommandContext, defineCommand, type FlagValues, type Flags } from './command.js'
import { connect, type Connection, connectionFlags } from './connection.js'
import { customRow } from './custom-columns.js'
import { CommandError, EXIT, type ExitCode, UsageError } from './exit-code.js'
import { follow } from './follow.js'
import { renderTemplate } from './jsonpath/evaluate.js'
import { outputFlag, type OutputFormat, parseOutputFormat } from './output-format.js'
import { askBytes } from './request.js'
import { type Chosen, chooseSeveral, COMMON_RESOURCES, selectionFlags, watchSelection } from './selection.js'
import { sorterBy } from './sort-by.js'
import { type Row, rowsOfAnswer, tableCodec } from './table/table-codec.js'
import { TablePrinter } from './table/table-printer.js'

const getFlags = {
  watch: {
    kind: 'boolean',
    short: 'w',
    doc: 'Stay, and print each object again when it changes. It resumes by itself; JSON is then one object a line.',
  },
  output: outputFlag,
  'sort-by': {
    kind: 'string',
    placeholder: 'PATH',
    doc: 'Ordered by what a JSONPath picks of each object: .metadata.creationTimestamp. Numbers and quantities by size; without such a value first.',
  },
  'resource-version': {
    kind: 'string',
    placeholder: 'RESOURCEVERSION',
    doc: 'What there was at exactly this resourceVersion. Fails when the server no longer has that history.',
  },
  'no-headers': { kind: 'boolean', doc: 'No line of column names.' },
  ...selectionFlags,
  ...connectionFlags,
} as const satisfies Flags

type Context = CommandContext<typeof getFlags>

interface Get {
  readonly context: Context
  readonly connection: Connection
  readonly chosen: readonly Chosen[]
  readonly format: OutputFormat
}

export const getCommand = defineCommand<typeof getFlags>({
  name: 'get',
  summary: 'print objects, as a table, JSON, YAML, names or what paths pick',
  description:
    'RESOURCE is a name as the server has it (pods, pod, po, deployments.apps), RESOURCE/NAME, several of either (pods,services), or a path (/api/v1/pods). The columns of a table are the server’s.',
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
    { doc: 'several resources in one call', line: 'distributary get deploy,svc -n shop' },
    {
      doc: 'own columns',
      line: `distributary get pods -A -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName`,
    },
    { doc: 'the newest last', line: 'distributary get pods -A --sort-by .metadata.creationTimestamp' },
    { doc: 'an own prefix of etcd', line: 'distributary get flags.distributary.io -o yaml' },
  ],
  async run(context) {
    const { flags, args, environment, signal } = context
    const format = parseOutputFormat(flags.output)
    const sort = flags['sort-by'] === null ? null : sorterBy(flags['sort-by'])
    const { 'resource-version': revision } = flags
    if (flags.watch && sort !== null)
      throw new UsageError('--watch and --sort-by do not go together: changes come as they come')
    if (flags.watch && revision !== null) {
      throw new UsageError(
        '--watch does not go with --resource-version here: distributary watch takes one to go on after',
      )
    }
    if (revision !== null && !/^[1-9]\d*$/.test(revision)) {
      throw new UsageError(`--resource-version is that of a list or an event, not "${revision}"`)
    }
    const connection = await connect(flags as FlagValues<typeof connectionFlags>, environment)
    try {
      const chosen = await chooseSeveral(connection, args, flags, signal)
      if (format.kind === 'name' && chosen.some(({ resource }) => resource === null)) {
        throw new UsageError('-o name wants a resource, not a path')
      }
      if (revision !== null && chosen.some(({ names }) => names.length > 0)) {
        throw new UsageError('--resource-version is for lists: choose by --field-selector metadata.name=NAME')
      }
      const get: Get = { context, connection, chosen, format }
      if (flags.watch) {
        if (chosen.length > 1) throw new UsageError('only one resource can be watched at a time')
        return await watchObjects(get)
      }
      return format.kind === 'table' ? await printTables(get, format.isWide, sort) : await printObjects(get, sort)
    } finally {
      connection.close()
    }
  },
})

type Sort = ReturnType<typeof sorterBy> | null

/** The number of rows in a request: the first ones are on the screen while the last ones are still being made. */
const PAGE = 500

/** Prints tables one below the other; when kinds are mixed, each name has its kind. */
async function printTables(get: Get, isWide: boolean, sort: Sort): Promise<ExitCode> {
  const { context, chosen } = get
  const { out, err, flags } = context
  const isMixed = new Set(chosen.map(({ selection }) => selection.path)).size > 1
  let count = 0
  let printer: TablePrinter | null = null
  for (const [index, one] of chosen.entries()) {
    // Several objects of one resource given as RESOURCE/NAME are one table.
    const isSame = index > 0 && chosen[index - 1]!.selection.path === one.selection.path
    if (printer === null || !isSame) printer = printerOf(one, isWide, flags, isMixed ? `${typeName(one)}/` : '')
    const needsGap = count > 0 && !isSame
    let ofThis = 0
    for await (const rows of rowsOf(get, one, sort)) {
      if (Buffer.isBuffer(rows)) {
        await out.write(rows.toString('utf8').replace(/\n*$/, '\n'))
        ofThis++
        continue
      }
      const lines = printer.lines(rows)
      if (lines.length > 0) await out.write(`${needsGap && ofThis === 0 ? '\n' : ''}${lines.join('\n')}\n`)
      ofThis += rows.length
    }
    count += ofThis
  }
  if (count === 0) await err.line(`no objects${chosen[0]!.place}`)
  return EXIT.done
}

/**
 * Yields rows page by page, or all at once when they are to be sorted, which needs the objects themselves as well. What a
 * path answers that is no object (`/version`, `/healthz`) is yielded as it is.
 */
async function* rowsOf(
  { context, connection }: Get,
  chosen: Chosen,
  sort: Sort,
): AsyncGenerator<readonly Row[] | Buffer> {
  const { signal, flags } = context
  const { selection, names } = chosen
  const accept = tableCodec().accept!
  const wish = sort === null ? {} : { includeObject: 'Object' }
  if (names.length > 0) {
    for (const name of names) {
      const path = `${selection.path}/${encodeURIComponent(name)}`
      yield rowsOfAnswer(await askBytes(connection, { path, query: wish, accept, signal }))
    }
    return
  }
  if (sort !== null) {
    const query = { ...selectorsOf(chosen, flags), ...wish }
    yield sort(rowsOfAnswer(await askBytes(connection, { path: selection.path, query, accept, signal })), objectOf)
    return
  }
  for (let continueToken = ''; ;) {
    const query = {
      ...selectorsOf(chosen, flags),
      limit: String(PAGE),
      ...(continueToken === '' ? {} : { continue: continueToken }),
    }
    // The next page is read at the revision of its list.
    if (continueToken !== '')
      for (const name of ['resourceVersion', 'resourceVersionMatch']) Reflect.deleteProperty(query, name)
    const body = await askBytes(connection, { path: selection.path, query, accept, signal })
    if (chosen.resource === null && !holdsObjects(body)) {
      yield body
      return
    }
    yield rowsOfAnswer(body)
    continueToken = continueOf(body)
    if (continueToken === '') return
  }
}

function holdsObjects(body: Buffer): boolean {
  const answer = parsed(body) as { items?: unknown; metadata?: object; kind?: string } | null | undefined
  return answer?.kind === 'Table' || answer?.items !== undefined || answer?.metadata !== undefined
}

/** Returns undefined for what is not JSON. */
function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return undefined
  }
}

const objectOf = ({ object }: Row): Json => (object ?? null) as Json

function printerOf(chosen: Chosen, isWide: boolean, flags: FlagValues<typeof getFlags>, namePrefix = ''): TablePrinter {
  return new TablePrinter({
    isWide,
    withNamespace: chosen.resource === null ? 'auto' : chosen.isAcross,
    withHeader: !flags['no-headers'],
    namePrefix,
  })
}

function continueOf(body: Buffer): string {
  const { metadata } = JSON.parse(body.toString('utf8')) as { metadata?: { continue?: string } }
  return metadata?.continue ?? ''
}

function selectorsOf({ selection }: Chosen, flags: FlagValues<typeof getFlags>): Record<string, string> {
  const { labelSelector, fieldSelector } = selection
  const { 'resource-version': revision } = flags
  return {
    ...(labelSelector === undefined ? {} : { labelSelector }),
    ...(fieldSelector === undefined ? {} : { fieldSelector }),
    ...(revision === null ? {} : { resourceVersion: revision, resourceVersionMatch: 'Exact' }),
  }
}

/**
 * For one object, or for what a path answers, JSON and YAML are the server's bytes, indented; otherwise they come from
 * trees that keep every number. The objects of a list get the kind that lists leave out, as kubectl does.
 */
async function printObjects(get: Get, sort: Sort): Promise<ExitCode> {
  const { context, chosen, format } = get
  const { out, err, flags } = context
  const answers: { readonly one: Chosen; readonly body: Buffer }[] = []
  for (const one of chosen) for (const body of await answersOf(get, one)) answers.push({ one, body })
  const [first] = answers
  const isOne = answers.length === 1 && sort === null && (first!.one.resource === null || first!.one.names.length > 0)
  if (isOne && (format.kind === 'json' || format.kind === 'yaml')) return await printBytes(get, first!.body)

  const trees = answers.map(({ one, body }) => ({ one, tree: parseJsonTree(body).value }))
  let items = trees.flatMap(({ one, tree }) => itemsOf(tree).map((item) => ({ one, item })))
  if (sort !== null) items = sort(items, ({ item }) => item)
  if (format.kind === 'name') {
    for (const { one, item } of items) await out.line(`${typeName(one)}/${textMember(item, 'metadata', 'name')}`)
  } else if (format.kind === 'custom-columns') {
    const printer = new TablePrinter({ isWide: false, withNamespace: false, withHeader: !flags['no-headers'] })
    for (const line of printer.lines(items.map(({ item }) => customRow(format.columns, item)))) await out.line(line)
  } else {
    const whole = trees.length === 1 ? withItems(trees[0]!.tree, items) : listOf(items.map(({ item }) => item))
    if (format.kind === 'jsonpath') await out.write(renderTemplate(format.template, whole))
    else await printBytes(get, encodeJsonTree(whole))
  }
  const isSilent = format.kind === 'name' || format.kind === 'custom-columns'
  if (isSilent && items.length === 0) await err.line(`no objects${chosen[0]!.place}`)
  return EXIT.done
}

async function answersOf({ context, connection }: Get, one: Chosen): Promise<readonly Buffer[]> {
  const { signal, flags } = context
  const { path } = one.selection
  if (one.names.length === 0) {
    const body = await askBytes(connection, { path, query: selectorsOf(one, flags), signal })
    if (one.resource === null && parsed(body) === undefined) throw new CommandError(`${path} does not answer with JSON`)
    return [body]
  }
  const objects: Buffer[] = []
  for (const name of one.names) {
    objects.push(await askBytes(connection, { path: `${path}/${encodeURIComponent(name)}`, signal }))
  }
  return objects
}

async function printBytes({ context, format }: Get, body: Buffer): Promise<ExitCode> {
  if (format.kind === 'yaml') await context.out.write(jsonToYaml(body))
  else await context.out.write(Buffer.concat([indentJson(compact(body)), Buffer.from('\n')]))
  return EXIT.done
}

/** Returns the objects of a list, each with the kind that lists leave out, or the object itself. */
function itemsOf(tree: Json): readonly Json[] {
  if (!isRecord(tree) || !('items' in tree)) return [tree]
  const kind = textMember(tree, 'kind').replace(/List$/, '')
  const apiVersion = textMember(tree, 'apiVersion')
  const items = Array.isArray(tree['items']) ? tree['items'] : []
  return items.map((item) => (isRecord(item) && !('kind' in item) ? record({ kind, apiVersion, ...item }) : item))
}

/** Returns a list as the server sent it, with its objects in another order. */
function withItems(tree: Json, items: readonly { readonly item: Json }[]): Json {
  return isRecord(tree) && 'items' in tree ? record({ ...tree, items: items.map(({ item }) => item) }) : tree
}

function listOf(items: Json[]): Json {
  return record({ kind: 'List', apiVersion: 'v1', metadata: record({ resourceVersion: '' }), items })
}

async function watchObjects({ context, connection, chosen, format }: Get): Promise<ExitCode> {
  const { out, flags, signal } = context
  const one = chosen[0]!
  const { isWide } = format.kind === 'table' ? format : { isWide: false }
  const printer =
    format.kind === 'custom-columns'
      ? new TablePrinter({ isWide, withNamespace: false, withHeader: !flags['no-headers'] })
      : printerOf(one, isWide, flags)
  if (format.kind === 'table') {
    return await printEach({ context, connection, chosen: one }, tableCodec(), async (rows) => {
      const lines = printer.lines(rows)
      if (lines.length > 0) await out.write(`${lines.join('\n')}\n`)
    })
  }
  return await printEach({ context, connection, chosen: one }, bytesCodec, async (objects) => {
    for (const { bytes, name } of objects) {
      if (signal.aborted) return
      const body = Buffer.from(bytes)
      if (format.kind === 'jsonpath') {
        await out.line(renderTemplate(format.template, parseJsonTree(body).value))
      } else if (format.kind === 'custom-columns') {
        for (const line of printer.lines([customRow(format.columns, parseJsonTree(body).value)])) await out.line(line)
      } else if (format.kind === 'json') await out.line(body.toString('utf8'))
      else if (format.kind === 'yaml') await out.write(`---\n${jsonToYaml(body)}`)
      else await out.line(`${typeName(one)}/${name}`)
    }
  })
}

/**
 * Prints all objects, then each that changed. After a relist it prints only objects that differ from the last print.
 */
async function printEach<T extends { readonly resourceVersion: string }>(
  { context, connection, chosen }: Omit<Get, 'format' | 'chosen'> & { readonly chosen: Chosen },
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

/** The indenter needs text without white space between tokens. Servers end it with a line feed. */
function compact(body: Buffer): Buffer {
  let end = body.length
  while (end > 0 && body[end - 1]! <= 0x20) end--
  return body.subarray(0, end)
}

/** Returns a name such as `pod` or `deployment.apps`. */
function typeName({ resource }: Chosen): string {
  const { singular, plural, kind, group } = resource!
  const name = singular === '' ? (kind === '' ? plural : kind.toLowerCase()) : singular
  return group === '' ? name : `${name}.${group}`
}
