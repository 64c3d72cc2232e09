/** Questions with a shardSelector, which the API server answers with the gate ShardedListAndWatch. */
import { shardTexts } from '../support/shards.js'
import type { Question } from './ask.js'
import { asked, PROTOBUF, query, root, type Shelf, TABLE } from './questions.js'

const [LOW, HIGH] = shardTexts(2) as [string, string]
const SEVENTH = shardTexts(7)[3]!
const NAMESPACES = shardTexts(2, 'namespace')

/** Lists of shards of one resource. */
export function shardQuestions(shelf: Shelf): readonly Question[] {
  const path = root(shelf, null)
  const ask = (accept: string, ...parameters: [name: string, value: string][]): Question =>
    asked(`${path}${query(parameters)}`, accept)
  return [
    ...[LOW, HIGH, SEVENTH, `${HIGH} || ${SEVENTH}`, ...NAMESPACES].map((shard) =>
      ask('application/json', ['shardSelector', shard]),
    ),
    ...[TABLE, TABLE.replace('Table', 'PartialObjectMetadataList'), 'application/yaml', PROTOBUF].map((accept) =>
      ask(accept, ['shardSelector', LOW]),
    ),
    ask('application/json', ['shardSelector', LOW], ['limit', '1']),
    ask('application/json', ['shardSelector', HIGH], ['resourceVersion', '0']),
    ask('application/json', ['shardSelector', HIGH], ['labelSelector', 'app!=web']),
    ask('application/json', ['shardSelector', LOW], ['fieldSelector', 'metadata.name!=nobody']),
    ask('application/json', ['shardSelector', LOW], ['watch', '1'], ['timeoutSeconds', '1']),
    ask('application/json', ['shardSelector', 'x']),
  ]
}

const UID = 'object.metadata.uid'
const ZERO = "'0x0000000000000000'"
const END = "'0x10000000000000000'"
const range = (field: string, start: string, end: string): string => `shardRange(${field}, ${start}, ${end})`

/** Selectors as people mistype them, and as CEL allows them. */
const ODD: readonly string[] = [
  '', ' ', 'x', 'true', '1', "'x'", 'object.metadata', 'shardRange', 'shardRange()', `has(${UID})`, `(${LOW})`, `((${LOW}) || ${HIGH})`,
  `${LOW}||${HIGH}`, `${HIGH}\n||\n${LOW}`, `${LOW} // all`, `${LOW} && ${HIGH}`, `!${LOW}`, `${LOW} ||`, `${LOW})`, `(${LOW}`, `${LOW}, ${HIGH}`,
  `${LOW} || ${NAMESPACES[1]}`, `${LOW} || true`, `${LOW} || ${LOW}`, LOW.replaceAll("'", '"'), LOW.replaceAll(' ', ''), LOW.replace('shardRange', 'x.shardRange'),
  LOW.replace('shardRange', 'shardrange'), LOW.replace("'", ''), range('metadata.uid', ZERO, END), range('object.metadata.name', ZERO, END),
  range('object.metadata', ZERO, END), range(`'${UID}'`, ZERO, END), range(UID, ZERO, ZERO), range(UID, END, ZERO), range(UID, END, "'0xffffffffffffffff'"),
  range(UID, '0', '1'), range(UID, '0u', END), range(UID, '0x0', END), range(UID, '1.5', END), range(UID, 'null', END), range(UID, 'false', END), range(UID, 'x', END), range(UID, ZERO, 'x.y'),
  range(UID, ZERO, 'f()'), range(UID, ZERO, `${ZERO} || ${ZERO}`), range(UID, "'0x0'", END), range(UID, "'0x'", END), range(UID, "''", END), range(UID, "'00'", END),
  range(UID, ZERO, "'0xFFFFFFFFFFFFFFFF'"), range(UID, ZERO, "'0x10000000000000001'"), range(UID, ZERO, "'0x100000000000000000'"), range(UID, ZERO, "'0xffffffffffffffff'"),
  `shardRange(${UID}, ${ZERO})`, `shardRange(${UID}, ${ZERO}, ${END}, ${END})`,
] // prettier-ignore

export function oddShardQuestions(): readonly Question[] {
  return ODD.flatMap((shard) =>
    [[], [['watch', '1'] as [string, string], ['timeoutSeconds', '1'] as [string, string]]].map((more) =>
      asked(`/api/v1/namespaces${query([...more, ['shardSelector', shard]])}`, 'application/json'),
    ),
  )
}

/** The selections of watches that are compared for as long as there are writes. */
export const SHARD_WATCHES: readonly [name: string, value: string][][] = [
  [['shardSelector', LOW]],
  [
    ['shardSelector', HIGH],
    ['labelSelector', 'app=web'],
  ],
]
