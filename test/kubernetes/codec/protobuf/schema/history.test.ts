import t from 'tap'
import { readPackageFile } from '../../../../../src/support/package-file.js'
import { Schema } from '../../../../../src/kubernetes/codec/protobuf/schema.js'
import { kindsIn, withHistory } from './history.js'

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

void t.test('a message that is the same in several packages has one line', (t) => {
  const release = table(
    '@ a.v1 a/v1',
    'Kind* metadata?:1:m/ObjectMeta spec:2:Spec',
    'Spec a:1:string',
    '@ a.v1beta1 a/v1beta1',
    'Kind* metadata?:1:m/ObjectMeta spec:2:Spec',
    'Spec a:1:int32',
    '@ b.v1beta1 b/v1beta1',
    'Spec a:1:string',
    '@ b.v1beta2 b/v1beta2',
    'Spec a:1:string',
  )
  const shorter = table(
    '@ a.v1 a/v1 v1beta1',
    'Kind* metadata?:1:m/ObjectMeta spec:2:Spec',
    '@ a.v1 a/v1 @ b.v1beta1 b/v1beta1 v1beta2',
    'Spec a:1:string',
    '@ a.v1beta1 a/v1beta1',
    'Spec a:1:int32',
  )
  t.equal(withHistory(release, ''), shorter)
  t.equal(withHistory('', shorter), shorter)
  t.same(kindsIn(shorter), kindsIn(release))
  const [long, short] = [release, shorter].map((text) => Schema.parse(text))
  for (const apiVersion of ['a/v1', 'a/v1beta1', 'b/v1beta1'])
    t.same(short!.messageOfKind(apiVersion, 'Kind'), long!.messageOfKind(apiVersion, 'Kind'), apiVersion)
  for (const name of ['a.v1.Kind', 'a.v1beta1.Kind', 'a.v1.Spec', 'a.v1beta1.Spec', 'b.v1beta1.Spec', 'b.v1beta2.Spec'])
    t.same(short!.message(name), long!.message(name), name)
  t.end()
})

void t.test('the table in use is sorted like a generated one', (t) => {
  const text = readPackageFile('src/kubernetes/codec/protobuf/kubernetes-schema.txt').toString()
  const lines = text.split('\n').filter((line) => !/^[#=]/.test(line))
  t.equal(withHistory('', text), lines.join('\n'))
  t.end()
})
