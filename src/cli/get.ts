/** `distributary get`: prints objects, and with `-w` their changes. */
import { indentJson } from '../kubernetes/codec/json-indent.js'
import {
  encodeJsonTree,
  isRecord,
  type Json,
  parseJsonTree,
  record,
  textMember,
} from '../kubernetes/codec/json-tree.js'
import { jsonToYaml } from '../kubernetes/codec/json-to-yaml.js'
import { bytesCodec } from '../client/reflector/bytes-codec.js'
import type { ObjectCodec } from '../client/reflector/object-codec.js'
import { selectionQuery } from '../client/reflector/requests.js'
import { type CommandContext, defineCommand, type FlagValues, type Flags } from './command.js'
import { type Connection, connectionFlags, withConnection } from './server-connection.js'
import { type Difference, differences, isSameObject } from './differences.js'
import { CommandError, EXIT, type ExitCode, UsageError } from './exit-code.js'
import { follow } from './follow.js'
import { requestBytes } from './server-request.js'
import { choose, type Chosen, selectionFlags, watchSelection } from './selection.js'
import { isSameRow, type Row, rowsOfBody, tableCodec } from './table/table-codec.js'
import { TablePrinter } from './table/table-printer.js'
import { jsonIn } from '../support/json-text.js'

const getFlags = {
  watch: {
    kind: 'boolean',
    short: 'w',
    doc: 'Keep running, and print each object again when it changes or is deleted. Resumes automatically after a broken connection; if the server no longer has that history, lists again and prints the difference. JSON is then one object per line.',
  },
  'watch-only': { kind: 'boolean', doc: 'Like --watch, without the existing objects.' },
  'output-watch-events': {
    kind: 'boolean',
    doc: 'With --watch or --watch-only: print the type of each event too, in tables as a column, in JSON and YAML as {"type":…,"object":…}.',
  },
  output: {
    kind: 'choice',
    short: 'o',
    choices: ['table', 'wide', 'json', 'yaml', 'name'],
    doc: 'Default: table. JSON and YAML keep all digits of numbers, and each object in a list has its kind.',
  },
  'resource-version': {
    kind: 'string',
    placeholder: 'RESOURCEVERSION',
    doc: 'State at exactly this resourceVersion. Fails if the server no longer has it.',
  },
  'no-headers': { kind: 'boolean', doc: 'Omit the line of column names.' },
  ...selectionFlags,
  ...connectionFlags,
} as const satisfies Flags

type Context = CommandContext<typeof getFlags>

interface Get {
  readonly context: Context
  readonly connection: Connection
  readonly chosen: Chosen
}

export const getCommand = defineCommand<typeof getFlags>({
  name: 'get',
  summary: 'print objects, as a table, JSON, YAML or names',
  description:
    'RESOURCE is a name that the server knows (pods, pod, po, deployments.apps), RESOURCE/NAME, or a path (/api/v1/pods). The server chooses the table’s columns. For several resources at once, JSONPath, custom columns and sorting, use kubectl with the same server.',
  positionals: '<RESOURCE> [NAME...]',
  flags: getFlags,
  examples: [
    { doc: 'pods of every namespace', line: 'distributary get pods -A' },
    { doc: 'follow one of them', line: 'distributary get pod web-0 -n shop -w' },
    { doc: 'all changes from now on', line: 'distributary get pods -A --watch-only --output-watch-events' },
    { doc: 'by label, with more columns', line: 'distributary get deploy -l app=cart -o wide' },
    { doc: 'a declared etcd prefix', line: 'distributary get flags.distributary.io -o yaml' },
  ],
  async run(context) {
    const { flags, args, signal } = context
    const { 'resource-version': revision } = flags
    const isWatch = flags.watch || flags['watch-only']
    if (isWatch && revision !== null) throw new UsageError('--watch and --resource-version cannot be combined')
    if (flags['output-watch-events'] && !isWatch) throw new UsageError('--output-watch-events needs --watch')
    if (revision !== null && !/^[1-9]\d*$/.test(revision)) {
      throw new UsageError(`--resource-version must come from a list or an event, not "${revision}"`)
    }
    return await withConnection(context, async (connection) => {
      const chosen = await choose(connection, args, flags, signal)
      if (flags.output === 'name' && chosen.resource === null) {
        throw new UsageError('-o name needs a resource, not a path')
      }
      if (revision !== null && chosen.names.length > 0) {
        throw new UsageError(
          '--resource-version is for lists: use --field-selector metadata.name=NAME instead of a name',
        )
      }
      const get: Get = { context, connection, chosen }
      if (isWatch) return await watchObjects(get)
      return isTable(flags) ? await printTable(get) : await printObjects(get)
    })
  },
})

type Values = FlagValues<typeof getFlags>

function isTable({ output }: Values): boolean {
  return output === null || output === 'table' || output === 'wide'
}

/**
 * The number of rows per request. With pages, the first rows are on the screen while the server is still generating the
 * last ones.
 */
const PAGE = 500

async function printTable(get: Get): Promise<ExitCode> {
  const { context, chosen } = get
  const { out, err, flags } = context
  const printer = printerOf(chosen, flags)
  let isEmpty = true
  for await (const rows of rowsOf(get)) {
    const lines = Buffer.isBuffer(rows) ? [rows.toString('utf8').replace(/\n*$/, '')] : printer.lines(rows)
    if (lines.length === 0) continue
    await out.write(`${lines.join('\n')}\n`)
    isEmpty = false
  }
  if (isEmpty) await err.line(`no objects${chosen.place}`)
  return EXIT.done
}

/** Yields rows page by page. A response that is not an object (`/version`, `/healthz`) is yielded unchanged. */
async function* rowsOf({ context, connection, chosen }: Get): AsyncGenerator<readonly Row[] | Buffer> {
  const { signal, flags } = context
  const { selection, names } = chosen
  const accept = tableCodec().accept!
  if (names.length > 0) {
    for (const name of names) {
      const path = `${selection.path}/${encodeURIComponent(name)}`
      yield rowsOfBody(await requestBytes(connection, { path, accept, signal }))
    }
    return
  }
  for (let continueToken = ''; ;) {
    const query = {
      ...selectorsOf(chosen, flags),
      limit: String(PAGE),
      ...(continueToken === '' ? {} : { continue: continueToken }),
    }
    // The token already contains the revision of the list.
    if (continueToken !== '')
      for (const name of ['resourceVersion', 'resourceVersionMatch']) Reflect.deleteProperty(query, name)
    const body = await requestBytes(connection, { path: selection.path, query, accept, signal })
    if (chosen.resource === null && !holdsObjects(body)) {
      yield body
      return
    }
    yield rowsOfBody(body)
    continueToken = continueOf(body)
    if (continueToken === '') return
  }
}

function holdsObjects(body: Buffer): boolean {
  const document = jsonIn(body.toString('utf8')) as
    | { items?: unknown; metadata?: object; kind?: string }
    | null
    | undefined
  return document?.kind === 'Table' || document?.items !== undefined || document?.metadata !== undefined
}

function printerOf(chosen: Chosen, flags: Values): TablePrinter {
  return new TablePrinter({
    isWide: flags.output === 'wide',
    withNamespace: chosen.resource === null ? 'auto' : chosen.isAcross,
    withHeader: !flags['no-headers'],
  })
}

function continueOf(body: Buffer): string {
  const { metadata } = JSON.parse(body.toString('utf8')) as { metadata?: { continue?: string } }
  return metadata?.continue ?? ''
}

function selectorsOf({ selection }: Chosen, flags: Values): Record<string, string> {
  const { 'resource-version': revision } = flags
  return {
    ...selectionQuery(selection),
    ...(revision === null ? {} : { resourceVersion: revision, resourceVersionMatch: 'Exact' }),
  }
}

/**
 * Prints JSON or YAML. For a single object or the response to a path, that is the server's bytes, reformatted.
 * Otherwise it comes from trees that keep every digit. The objects of a list get the kind that lists omit, as in
 * kubectl.
 */
async function printObjects(get: Get): Promise<ExitCode> {
  const { context, chosen } = get
  const { out, err, flags } = context
  const bodies = await bodiesOf(get)
  const [first] = bodies
  const isOne = bodies.length === 1 && (chosen.resource === null || chosen.names.length > 0)
  if (isOne && flags.output !== 'name') return await printBytes(context, first!)

  const trees = bodies.map((body) => parseJsonTree(body).value)
  const items = trees.flatMap(itemsOf)
  if (flags.output === 'name') {
    for (const item of items) await out.line(`${typeName(chosen)}/${textMember(item, 'metadata', 'name')}`)
    if (items.length === 0) await err.line(`no objects${chosen.place}`)
    return EXIT.done
  }
  return await printBytes(context, encodeJsonTree(trees.length === 1 ? withItems(trees[0]!, items) : listOf(items)))
}

async function bodiesOf({ context, connection, chosen }: Get): Promise<readonly Buffer[]> {
  const { signal, flags } = context
  const { path } = chosen.selection
  if (chosen.names.length === 0) {
    const body = await requestBytes(connection, { path, query: selectorsOf(chosen, flags), signal })
    if (chosen.resource === null && jsonIn(body.toString('utf8')) === undefined)
      throw new CommandError(`the response to ${path} is not JSON`)
    return [body]
  }
  const objects: Buffer[] = []
  for (const name of chosen.names) {
    objects.push(await requestBytes(connection, { path: `${path}/${encodeURIComponent(name)}`, signal }))
  }
  return objects
}

async function printBytes({ out, flags }: Context, body: Buffer): Promise<ExitCode> {
  if (flags.output === 'yaml') await out.write(jsonToYaml(body))
  else await out.write(Buffer.concat([indentJson(compact(body)), Buffer.from('\n')]))
  return EXIT.done
}

/** Returns the objects of a list, each with the kind that lists omit, or the object itself. */
function itemsOf(tree: Json): readonly Json[] {
  if (!isRecord(tree) || !('items' in tree)) return [tree]
  const kind = textMember(tree, 'kind').replace(/List$/, '')
  const apiVersion = textMember(tree, 'apiVersion')
  const items = Array.isArray(tree['items']) ? tree['items'] : []
  return items.map((item) => (isRecord(item) && !('kind' in item) ? record({ kind, apiVersion, ...item }) : item))
}

/** Returns the server's list with these objects. */
function withItems(tree: Json, items: Json[]): Json {
  return isRecord(tree) && 'items' in tree ? record({ ...tree, items }) : tree
}

function listOf(items: Json[]): Json {
  return record({ kind: 'List', apiVersion: 'v1', metadata: record({ resourceVersion: '' }), items })
}

async function watchObjects(get: Get): Promise<ExitCode> {
  const { out, flags, signal } = get.context
  const { chosen } = get
  const withTypes = flags['output-watch-events']
  if (isTable(flags)) {
    const printer = printerOf(chosen, flags)
    return await printEach(get, tableCodec(), isSameRow, async (changes) => {
      const rows = changes.map(({ object }) => object)
      const lines = printer.lines(rows, withTypes ? changes.map(({ type }) => type) : null)
      if (lines.length > 0) await out.write(`${lines.join('\n')}\n`)
    })
  }
  return await printEach(get, bytesCodec, isSameObject, async (changes) => {
    for (const { type, object } of changes) {
      if (signal.aborted) return
      const json = Buffer.from(object.bytes).toString('utf8')
      const body = withTypes ? `{"type":"${type}","object":${json}}` : json
      if (flags.output === 'json') await out.line(body)
      else if (flags.output === 'yaml') await out.write(`---\n${jsonToYaml(Buffer.from(body))}`)
      else await out.line(`${typeName(chosen)}/${object.name}`)
    }
  })
}

/**
 * Prints all objects, and then each object that changes. After a relist it prints only what differs from the last
 * print.
 */
async function printEach<T>(
  { context, connection, chosen }: Get,
  codec: ObjectCodec<T>,
  isSame: (a: T, b: T) => boolean,
  print: (changes: readonly Difference<T>[]) => Promise<void>,
): Promise<ExitCode> {
  const { err, signal, flags } = context
  let known: Map<string, T> | null = null
  const onNotice = (text: string): void => void err.line(`distributary get: ${text}`)
  for await (const item of follow({ connection, selection: watchSelection(chosen), codec, signal, onNotice })) {
    if (item.type === 'BOOKMARK') continue
    if (item.type === 'STATE') {
      const now = new Map(item.items.map((object) => [codec.keyOf(object), object]))
      const changes = differences(known ?? new Map<string, T>(), now, isSame)
      if (known !== null) {
        onNotice(`relisted at resourceVersion ${item.resourceVersion}, which shows ${changes.length} changes`)
      }
      if (known !== null || !flags['watch-only']) await print(changes)
      known = now
    } else {
      if (item.type === 'DELETED') known?.delete(item.key)
      else known?.set(item.key, item.object)
      await print([item])
    }
  }
  return EXIT.done
}

/**
 * Removes white space at the end, because the indenter expects text without white space between tokens, and servers
 * append a line feed.
 */
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
