import t from 'tap'
import { scanObject } from '../../../../src/kubernetes/codec/json-scan.js'
import { LIST_TAIL, partialObject, partialObjectListHead } from '../../../../src/kubernetes/dialect/partial-object.js'
import { servedResource } from '../../../../src/kubernetes/dialect/resource-registry.js'
import {
  encodeTableBookmark,
  encodeTableEvent,
  encodeTableRow,
  tableHead,
} from '../../../../src/kubernetes/dialect/table/encode-table.js'
import { findWellKnown, wellKnownResources } from '../../../../src/kubernetes/dialect/well-known-resources.js'
import { toRevision } from '../../../../src/engine/model/revision.js'

const NOW = Date.parse('2026-11-21T12:00:00Z')
const found = findWellKnown(wellKnownResources(), 'configmaps')
if (found === undefined) throw new Error('configmaps')
const configmaps = servedResource(found.resource, 'well-known')

/** Numbers and keys that JSON.parse and JSON.stringify would change. */
const TEXT =
  '{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"3","generation":12345678901234567890,' +
  '"annotations":{"__proto__":"p","n":"\\u0061","e":"é"},"dup":1,"dup":2},"data":{"x":"1.0","y":"}"}}'

function scan(text: string): NonNullable<ReturnType<typeof scanObject>> {
  const scanned = scanObject(Buffer.from(text))
  if (scanned === null) throw new Error('refused')
  return scanned
}

const METADATA =
  '{"resourceVersion":"42","name":"a","generation":12345678901234567890,"annotations":{"__proto__":"p","n":"\\u0061","e":"é"},"dup":1,"dup":2}'

void t.test('a PartialObjectMetadata has the stored metadata byte for byte, with its resourceVersion', async (t) => {
  const open = '{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'
  for (const [text, metadata] of [
    [TEXT, METADATA],
    ['{"metadata":{}}', '{"resourceVersion":"42"}'],
    ['{"metadata":{"name":"a"},"spec":{}}', '{"resourceVersion":"42","name":"a"}'],
    ['{"spec":{"metadata":{"name":"no"}},"metadata":{"name":"a{\\"}"}}', '{"resourceVersion":"42","name":"a{\\"}"}'],
  ] as const) {
    t.equal(partialObject(scan(text), toRevision(42)).toString(), `${open}${metadata}}`)
  }
  t.throws(() => partialObject(scan('{"kind":"x"}'), toRevision(42)), RangeError)
})

void t.test('a list of PartialObjectMetadata is a PartialObjectMetadataList', async (t) => {
  const item = partialObject(scan(TEXT), toRevision(42))
  const head = partialObjectListHead({ resourceVersion: '50', continue: 'abc', remainingItemCount: 7 })
  const list = JSON.parse(Buffer.concat([head, item, Buffer.from(','), item, LIST_TAIL]).toString()) as {
    metadata: object
    items: { metadata: { resourceVersion: string } }[]
  }
  t.match(list, { kind: 'PartialObjectMetadataList', apiVersion: 'meta.k8s.io/v1' })
  t.same(list.metadata, { resourceVersion: '50', continue: 'abc', remainingItemCount: 7 })
  t.equal(list.items[1]?.metadata.resourceVersion, '42')
  const empty = Buffer.concat([partialObjectListHead({ resourceVersion: '50', continue: '' }), LIST_TAIL])
  t.same((JSON.parse(empty.toString()) as { metadata: object; items: object[] }).metadata, { resourceVersion: '50' })
  t.same((JSON.parse(empty.toString()) as { items: object[] }).items, [], 'items is never null')
})

const FORM = { include: 'Metadata', metaVersion: 'meta.k8s.io/v1' } as const

void t.test('a row carries the requested part of the object, never a rewritten one', async (t) => {
  const row = (include: 'None' | 'Metadata' | 'Object'): string =>
    encodeTableRow(configmaps, scan(TEXT), toRevision(42), NOW, { ...FORM, include }).toString()
  const cells = '{"cells":["a",2,"<unknown>"],"object":'
  t.equal(row('None'), `${cells}null}`)
  t.equal(
    row('Metadata'),
    `${cells}{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":${METADATA}}}`,
  )
  t.equal(
    row('Object'),
    `${cells}{"kind":"ConfigMap","apiVersion":"v1","metadata":${METADATA},"data":{"x":"1.0","y":"}"}}}`,
  )
})

void t.test('a Table of a list consists of head, rows and tail', async (t) => {
  const row = encodeTableRow(configmaps, scan(TEXT), toRevision(42), NOW, FORM)
  const bytes = Buffer.concat([
    tableHead(configmaps, { resourceVersion: '50' }, FORM),
    row,
    Buffer.from(','),
    row,
    LIST_TAIL,
  ])
  const table = JSON.parse(bytes.toString()) as { columnDefinitions: object[]; rows: object[] }
  t.match(table, { kind: 'Table', apiVersion: 'meta.k8s.io/v1', metadata: { resourceVersion: '50' } })
  t.same(Object.keys(table.columnDefinitions[0] ?? {}), ['name', 'type', 'format', 'description', 'priority'])
  t.match(table.columnDefinitions, [{ name: 'Name', type: 'string', format: 'name', priority: 0 }, {}, { name: 'Age' }])
  t.equal(table.rows.length, 2)
})

void t.test('v1beta1 is named in the Table and in the objects of its rows', async (t) => {
  const form = { include: 'Metadata', metaVersion: 'meta.k8s.io/v1beta1' } as const
  const head = tableHead(configmaps, { resourceVersion: '50' }, form)
  const row = encodeTableRow(configmaps, scan(TEXT), toRevision(42), NOW, form)
  const table = JSON.parse(Buffer.concat([head, row, LIST_TAIL]).toString()) as object
  t.match(table, { apiVersion: form.metaVersion, rows: [{ object: { apiVersion: form.metaVersion } }] })
})

void t.test('a bookmark is a Table whose row is that of an object with only metadata', async (t) => {
  const metadata = { resourceVersion: '42', annotations: { 'k8s.io/initial-events-end': 'true' } }
  const bytes = encodeTableBookmark(configmaps, metadata, FORM)
  t.match(JSON.parse(bytes.toString()), {
    metadata: { resourceVersion: '42', annotations: undefined },
    columnDefinitions: null,
    rows: [{ cells: ['', 0, '<unknown>'], object: { kind: 'PartialObjectMetadata', metadata } }],
  })
})

void t.test('only the first event of a watch contains the columns', async (t) => {
  const event = (first: boolean): { columnDefinitions: object[] | null; rows: object[]; metadata: object } =>
    JSON.parse(encodeTableEvent(configmaps, scan(TEXT), toRevision(42), NOW, FORM, first).toString()) as ReturnType<
      typeof event
    >
  t.equal(event(true).columnDefinitions?.length, 3)
  t.equal(event(false).columnDefinitions, null)
  t.same(event(false).metadata, { resourceVersion: '42' })
  t.same(event(true).rows, event(false).rows)
  t.equal(event(false).rows.length, 1)
})
