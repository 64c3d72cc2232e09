/**
 * Finds fields of Kubernetes releases that are newer than this server, which JSON, YAML and tables cannot show. A
 * response without such a field says so in a Warning, or an API server behind this one answers instead. Otherwise a
 * client that reads an object, changes it and writes it back would erase the field. Protobuf keeps such fields and
 * needs no check.
 */
import { Matcher } from '../../../engine/broadcast/matcher.js'
import type { Snapshot } from '../../../engine/cache/store.js'
import type { Key } from '../../../engine/model/event.js'
import { UnshowableError } from '../../../kubernetes/model/status.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import type { Negotiated } from '../../../kubernetes/dialect/accept.js'
import type { Selector } from '../../../kubernetes/dialect/selector.js'
import { turns } from '../../../support/turns.js'
import type { ApiContext } from './api-context.js'
import type { ReadRequest } from './request.js'
import type { FormOptions } from './resource-forms.js'

type Read = Pick<ReadRequest<FormOptions>, 'exchange' | 'live' | 'form' | 'caller' | 'options'>

/** States in which every object can be shown completely. */
const whole = new WeakSet<Snapshot>()

/** Checks one object before it is answered. @throws UnshowableError when the API server should answer instead. */
export function checkObject(context: ApiContext, read: Read, object: StoredObject): void {
  const field = missingField(context, read, object)
  if (field !== null) reportMissing(context, read, object, field, true)
}

/**
 * Checks the objects of a list, or of a watch's initial state, in time slices.
 *
 * @param isList whether the request is a list. A watch is never forwarded, because it would then have to end whenever
 * such an object appears.
 * @throws UnshowableError when the API server should answer instead.
 */
export async function checkObjects(
  context: ApiContext,
  read: Read,
  snapshot: Snapshot,
  { prefix, selector, apiVersion }: { readonly prefix: Key; readonly selector: Selector; readonly apiVersion: string },
  isList: boolean,
): Promise<void> {
  if (snapshot.protobufTypes.size === 0 || isShownWhole(read.form) || whole.has(snapshot)) return
  const { cache, dispatcher } = read.live
  let isWhole = true
  const matcher = new Matcher('', selector, dispatcher.facts, apiVersion, read.caller.identity)
  try {
    for (const object of snapshot.objects(prefix)) {
      if (turns.isOver) await turns.take()
      if (context.forms.unknownFields(object).length === 0) continue
      isWhole = false
      const field = missingField(context, read, object)
      if (field === null || !matcher.matches(object)) continue
      // The API server might ignore the shard and list everything.
      reportMissing(context, read, object, field, isList && selector.shard === null)
      return
    }
  } finally {
    matcher.close()
  }
  if (isWhole && prefix === cache.prefix) whole.add(snapshot)
}

/** Protobuf responses are the stored bytes; a Table has no protobuf form, although its cells may come from protobuf. */
function isShownWhole({ encoding, transform }: Negotiated): boolean {
  return encoding === 'protobuf' && transform !== 'table'
}

/** Returns the first field that the form should show but cannot; null for nearly every object. */
function missingField({ forms }: ApiContext, { form, options }: Read, object: StoredObject): string | null {
  if (isShownWhole(form)) return null
  const fields = forms.unknownFields(object)
  const isWholeObject = form.transform === 'none' || options.includeObject === 'Object'
  return (isWholeObject ? fields[0] : fields.find((field) => field.startsWith('metadata.'))) ?? null
}

function reportMissing(
  context: ApiContext,
  { exchange }: Read,
  object: StoredObject,
  field: string,
  mayPass: boolean,
): void {
  const what = `fields of ${object.typeName} ${object.schemaVersion} that this server does not know, such as ${field}`
  if (mayPass && context.passthrough !== null) throw new UnshowableError(`there are ${what}`)
  exchange.warn(`this response lacks ${what}: request protobuf, or ask the API server`)
}
