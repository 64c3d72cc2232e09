/** Compares our answers to writes with the recorded ones of a kube-apiserver 1.37.2 (`scenarios.ts`). */
import t from 'tap'
import { startApp } from '../../support/app.js'
import { serverAt } from '../ask.js'
import { answersTo, prepare, recordedWrites, type WriteAnswer } from './answers.js'
import { SCENARIOS, type Step } from './scenarios.js'

interface Compared {
  readonly scenario: string
  readonly step: Step
  readonly theirs: WriteAnswer
  readonly ours: WriteAnswer
  readonly theirText: string
  readonly ourText: string
}

const isRefusal = ({ code }: WriteAnswer): boolean => code >= 400

/** Reasons for which our response may differ. */
const EXCEPTIONS: readonly (readonly [why: string, is: (compared: Compared) => boolean])[] = [
  [
    'Go has its own messages for what it cannot read',
    ({ theirs, ours, theirText }) =>
      theirs.code === ours.code &&
      isRefusal(ours) &&
      /json parse error|cannot unmarshal|unrecognized \(must be|is registered for version|unknown conversion|invalid object type|JSON [Pp]atch|error (en|de)coding patch|^yaml: |strconv\.|day out of range|quantit(y|ies) |quantity's|no kind is registered|error in our request|415: Unsupported|cannot parse|invalid character|found '=', expected/.test(
        theirText,
      ),
  ],
  [
    'a patch whose result cannot be read is shown instead of the result, which holds the whole object',
    ({ theirs, ours, theirText, ourText }) =>
      theirs.code === 422 &&
      ours.code === 422 &&
      / "" is invalid: patch: /.test(theirText) &&
      theirText.split('strict decoding error: ')[1] === ourText.split('strict decoding error: ')[1],
  ],
  [
    'a strategic patch of the wrong type gets the same message as any other patch here',
    ({ step, theirs, ours }) => theirs.code === 422 && ours.code === 422 && /strategic/.test(step.type ?? ''),
  ],
  [
    'a mistake of the client is 500 there, and 400 or 409 here; and a configuration with several mistakes names a random part of them',
    ({ theirs, ours, theirText, ourText }) =>
      theirs.code === 500 &&
      (ours.code === 400 || ours.code === 409) &&
      (theirText === ourText ||
        /strconv|unable to convert unstructured|does not contain declared merge key/.test(theirText) ||
        theirText.split('): ')[0] === ourText.split('): ')[0]),
  ],
  [
    'what pods and their templates may contain is not checked here',
    ({ theirs, ours, theirText, scenario }) =>
      /(PodTemplate|Deployment\.apps) "[^"]*" is invalid: /.test(theirText) ||
      (theirs.code === 404 &&
        ours.code === 200 &&
        /^(null (env|toleration)|empty in a template|port .*)$/.test(scenario)),
  ],
  [
    'nothing collects garbage here, so that nothing waits for it',
    ({ scenario }) => /^a delete in the way of|^a delete of a deployment/.test(scenario),
  ],
  [
    'a custom resource without a type has that of its path',
    ({ step, ours }) => /things/.test(step.path) && ours.code < 300 && !/kind|apiVersion/.test(step.body ?? ''),
  ],
  [
    'a null in a body or in a type',
    ({ scenario }) =>
      scenario === 'no object' || scenario === 'no version of a thing' || scenario === 'no kind of a thing',
  ],
  [
    'an apply to a custom resource drops nulls like any other write',
    ({ scenario }) => scenario === 'null in an apply of a thing',
  ],
  [
    'another kind or version in a custom resource is 422 there',
    ({ scenario, step }) => /thing/.test(scenario) && /Other|v2|\/kind/.test(step.body ?? ''),
  ],
  [
    'causes are repeated there, and some are in random order',
    ({ theirs, ours }) => isRefusal(theirs) && withoutCauses(theirs) === withoutCauses(ours),
  ],
  [
    'the storage of etcd is in the message',
    ({ theirText, ourText }) =>
      theirText.includes('StorageError') &&
      theirText.replace(/StorageError: .*AdditionalErrorMsg: /, '').replace(/UID$/, '') === ourText.replace(/UID$/, ''),
  ],
  [
    'Go merges some duplicate fields; here the last one counts',
    ({ scenario }) => /^duplicate fields in a (create|replace)|^odd containers/.test(scenario),
  ],
  [
    'a JSON patch finds its duplicates again in the patched object',
    ({ scenario }) => scenario.startsWith('odd JSON patch'),
  ],
  [
    'Go’s YAML refuses the escape of half a character',
    ({ step, theirs }) => theirs.code === 400 && /\\u[dD]/.test(step.body ?? '') && /yaml/.test(step.type ?? ''),
  ],
  ['a tag of YAML', ({ step }) => /v: !!float 1\n/.test(step.body ?? '')],
  [
    'an integer that no type holds is 0 there in an apply, and a patch does not reach into embedded JSON',
    ({ scenario, step }) =>
      (/^integer .*9223372036854775808/.test(scenario) && /apply/.test(step.type ?? '')) ||
      (scenario.startsWith('raw') && /strategic/.test(step.type ?? '')),
  ],
  [
    'metadata of an embedded object that is sent in another form is no change here',
    ({ scenario, step }) => /^embedded .*null/.test(scenario) && step.method === 'PATCH',
  ],
  [
    'items of a set that are equal as stored are repeated here, however they are spelled',
    ({ scenario, theirs }) => /^set of numbers \[(1|1e3|0),/.test(scenario) && theirs.code !== 404,
  ],
  [
    'an empty list, and a set with an item twice, have managers there',
    ({ theirs, ours }) => withoutManagers(theirs) === withoutManagers(ours) && !isRefusal(ours),
  ],
  [
    'a deletionTimestamp in an object that is not being deleted is ignored here',
    ({ step }) => /deletionTimestamp/.test(step.body ?? ''),
  ],
  ['a scale has no field validation and no apply here', ({ scenario }) => scenario === 'scale'],
  [
    'a method of a subresource',
    ({ theirs, ours, theirText }) => theirs.code === 405 && ours.code === 405 && theirText !== '',
  ],
  ['a directive that no client sends', ({ step }) => /"\$setElementOrder"/.test(step.body ?? '')],
  ['a patch that takes both type and version away', ({ step }) => step.body === '{"kind":null,"apiVersion":null}'],
  [
    'the last state of a collection’s objects is the one before their deletion there',
    ({ step }) => step.method === 'DELETE' && step.path.includes('collected'),
  ],
]

function withoutCauses({ code, body }: WriteAnswer): string {
  const {
    details,
    message = '',
    ...rest
  } = JSON.parse(body) as { details?: { causes?: { field: string }[] }; message?: string }
  const { causes = [], ...others } = details ?? {}
  const fields = [...new Set(causes.map((cause) => JSON.stringify(cause)))]
    .filter((text) => !text.includes('<nil>'))
    .sort()
  return JSON.stringify({
    code,
    rest,
    others,
    fields,
    message:
      fields.length > 1 && !message.startsWith('Apply failed')
        ? ''
        : message.replace(/\[(.*?), <nil>: Invalid value: "": Checked value must be of type [^,\]]*\]/, '$1'),
  })
}

function withoutManagers({ code, warnings, body }: WriteAnswer): string {
  const object = JSON.parse(body) as { metadata?: { managedFields?: unknown } }
  if (object.metadata !== undefined) delete object.metadata.managedFields
  return JSON.stringify({ code, warnings, object })
}

function messageOf({ body }: WriteAnswer): string {
  try {
    return (JSON.parse(body) as { message?: string }).message ?? ''
  } catch {
    return ''
  }
}

void t.test('writes get the recorded answers of a kube-apiserver, apart from the listed exceptions', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes', '--resource=secrets,api/all'] })
  const server = serverAt('ours', h.url)
  t.teardown(() => server.agent.destroy())
  await prepare(server)
  const recorded = new Map(recordedWrites().map(({ name, answers }) => [name, answers]))
  const differences: string[] = []
  const used = new Set<string>()
  let count = 0
  for (const { name, steps } of SCENARIOS) {
    const expected = recorded.get(name) ?? []
    const answers = await answersTo(server, { name, steps })
    t.equal(expected.length, answers.length, `${name} is recorded`)
    for (const [i, theirs] of expected.entries()) {
      const [step, ours] = [steps[i]!, answers[i]!]
      count++
      if (JSON.stringify(theirs) === JSON.stringify(ours)) continue
      const compared = { scenario: name, step, theirs, ours, theirText: messageOf(theirs), ourText: messageOf(ours) }
      const exception = EXCEPTIONS.find(([, is]) => is(compared))
      if (exception === undefined) {
        const { method, path, body = '' } = step
        const request = `${name}, ${i}: ${method} ${path} ${body.slice(0, 300)}`
        differences.push(`${request}\n  theirs ${JSON.stringify(theirs)}\n  ours   ${JSON.stringify(ours)}`)
      } else used.add(exception[0])
    }
  }
  t.ok(count > 1_400, `${count} answers were compared`)
  t.same(differences, [])
  t.same(
    EXCEPTIONS.map(([why]) => why).filter((why) => !used.has(why)),
    [],
    'every exception is needed',
  )
})
