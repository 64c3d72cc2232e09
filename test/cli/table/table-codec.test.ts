/** Tests which rows `get -w` prints again after a relist. */
import t from 'tap'
import { isSameRow, type Row, rowsOfBody } from '../../../src/cli/table/table-codec.js'

const metadata = { name: 'a', uid: 'u1', resourceVersion: '7', creationTimestamp: '2026-01-01T00:00:00Z' }

function row(cells: readonly unknown[], object: object = metadata): Row {
  const rows = [{ cells, object: { metadata: object } }]
  const answer = { kind: 'Table', metadata: { resourceVersion: '9' }, columnDefinitions: [], rows }
  return rowsOfBody(Buffer.from(JSON.stringify(answer)))[0]!
}

void t.test('a row is the same whatever its ages, and only with the same metadata and cells', async (t) => {
  const { creationTimestamp: _created, ...timeless } = metadata
  const cases: readonly (readonly [boolean, Row, Row])[] = [
    [true, row(['a', 'Running', '1 (5m ago)', '3d4h']), row(['a', 'Running', '1 (179m ago)', '5d'])],
    [false, row(['a', 'Running', '1 (5m ago)', '3d']), row(['a', 'Running', '2 (5m ago)', '3d'])],
    [false, row(['a', 'Running']), row(['a', 'Failed'])],
    [false, row(['a', 3]), row(['a', 4])],
    [false, row(['a']), row(['a'], { ...metadata, resourceVersion: '8' })],
    [false, row(['a']), row(['a'], { ...metadata, uid: 'u2' })],
    // In a row without a creation time, a duration counts as content.
    [false, row(['a', '5s'], timeless), row(['a', '10s'], timeless)],
  ]
  for (const [isSame, one, other] of cases) {
    t.equal(isSameRow(one, other), isSame, `${one.cells.join()} and ${other.cells.join()}`)
  }
})
