/** Compares our results of small patches with the recorded ones of a kube-apiserver 1.37.2 (`patches.ts`). */
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { statusOf } from '../../src/kubernetes/model/status-of.js'
import { encodeJsonTree, type JsonRecord, parseJsonTree, treeFrom } from '../../src/kubernetes/codec/json-tree.js'
import { applyJsonPatch } from '../../src/kubernetes/writes/json-patch.js'
import { startApp } from '../support/app.js'
import { askPatch, makeThing, type PatchedCase, recordedPatches, THING } from './patches.js'

type Answer = Pick<PatchedCase, 'code' | 'spec' | 'warnings'>

/** Reasons for which our response may differ. */
const EXCEPTIONS: readonly (readonly [why: string, is: (theirs: PatchedCase, ours: Answer) => boolean])[] = [
  ['its handler panics where ours refuses', (theirs, ours) => theirs.code === 0 && ours.code === 422],
  [
    'it finds a duplicate member again in the patched object',
    ({ patch, spec }, ours) => /\{"a":1,"a":2\}/.test(patch) && isDeepStrictEqual(spec, ours.spec),
  ],
  ['a merge patch that is an array is refused later there', ({ type, patch }) => type === 'merge' && patch === '[]'],
]

function differenceOf(theirs: PatchedCase, ours: Answer): string | null {
  const { code, spec, warnings } = theirs
  if (isDeepStrictEqual({ code, spec, warnings }, { ...ours })) return null
  if (EXCEPTIONS.some(([, is]) => is(theirs, ours))) return null
  const shown = JSON.stringify({ code, spec, warnings })
  return `${theirs.type} ${theirs.validation} ${theirs.patch}\n  theirs ${shown}\n  ours   ${JSON.stringify(ours)}`
}

const all = recordedPatches()
/**
 * Whether the operations alone suffice for the same response: the whole object has metadata that they do not know here.
 */
const isPlain = ({ type, validation, code, patch }: PatchedCase): boolean =>
  type === 'json' && validation === '' && (code === 200 || code === 422) && !patch.includes('"path":""')

void t.test('operations of a JSON patch match a kube-apiserver’s', (t) => {
  const object = treeFrom(THING) as JsonRecord
  const differences = all.filter(isPlain).map((theirs) => {
    const warnings: readonly string[] = theirs.warnings
    try {
      const { spec = null } = applyJsonPatch(object, parseJsonTree(Buffer.from(theirs.patch)).value)
      return differenceOf(theirs, { code: 200, spec: JSON.parse(encodeJsonTree(spec).toString()), warnings })
    } catch (error) {
      return differenceOf(theirs, { code: statusOf(error).code, spec: null, warnings })
    }
  })
  t.ok(differences.length > 3_000, `${differences.length} answers were compared`)
  t.same(differences.filter((one) => one !== null).slice(0, 50), [])
  t.end()
})

void t.test('broken JSON patches and merge patches are answered as by a kube-apiserver', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes'] })
  await makeThing(h.url)
  const left = all.filter((one) => !isPlain(one) || one.warnings.length > 0)
  const count = left.length
  const differences: (string | null)[] = []
  const askOn = async (): Promise<void> => {
    for (let theirs = left.pop(); theirs !== undefined; theirs = left.pop()) {
      const { code, spec, warnings } = await askPatch(h.url, theirs)
      differences.push(differenceOf(theirs, { code, spec, warnings }))
    }
  }
  await Promise.all(Array.from({ length: 8 }, askOn))
  t.ok(count > 200, `${count} answers were compared`)
  t.same(
    differences.filter((one) => one !== null),
    [],
  )
})
