import t from 'tap'
import { readPackageFile } from '../../../../../src/support/package-file.js'
import { withHistory } from './history.js'

const table = (...lines: string[]): string => `${lines.join('\n')}\n`

void t.test('the newest release defines its fields, and removed ones stay', (t) => {
  const before = table(
    '# a comment',
    '= m meta',
    '@ a.v1 a/v1',
    'Changed* metadata?:1:m/ObjectMeta spec:2:Spec status?:3:string',
    'Removed* metadata?:1:m/ObjectMeta',
    'Spec a:1:string b:2:string',
    '@ gone.v1 gone/v1',
    'Kind* metadata?:1:m/ObjectMeta',
  )
  const release = table(
    '= m meta',
    '@ a.v1 a/v1',
    'Added* metadata??:1:m/ObjectMeta',
    // b has another number now, and a new name for the old one of a.
    'Changed* metadata?:1:m/ObjectMeta status:3:string',
    'Spec b:4:string',
  )
  const merged = table(
    '= m meta',
    '@ a.v1 a/v1',
    'Added* metadata??:1:m/ObjectMeta',
    'Changed* metadata?:1:m/ObjectMeta status:3:string spec?:2:*Spec',
    'Removed* metadata?:1:m/ObjectMeta',
    'Spec b:4:string a?:1:string',
    '@ gone.v1 gone/v1',
    'Kind* metadata?:1:m/ObjectMeta',
  )
  t.equal(withHistory(release, before), merged)
  t.equal(withHistory(release, merged), merged, 'making it again changes nothing')
  t.end()
})

void t.test('the table in use is sorted like a generated one', (t) => {
  const text = readPackageFile('src/kubernetes/codec/protobuf/kubernetes-schema.txt').toString()
  const lines = text.split('\n').filter((line) => !line.startsWith('#'))
  t.equal(withHistory('', text).split('\n').slice(0, -1).length, lines.length - 1 - 2, 'all lines but the aliases')
  t.end()
})
