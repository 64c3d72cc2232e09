/**
 * Remembers the ages that another server reports for its resources, so that the age of a source further up is passed
 * down the chain.
 *
 * One request, `GET /readyz?ages`, gets the ages of all resources and needs no permission. A server without this
 * endpoint (a kube-apiserver, an older distributary) counts as being as fresh as its last response.
 */
import type { SourceAge } from '../../engine/upstream/upstream.js'
import { isObject } from '../../support/fields.js'
import { jsonIn } from '../../support/json-text.js'

/** How often the ages are requested. */
export const AGES_INTERVAL_MS = 1_000
/** The most that polling at this interval adds to the age of a healthy source. */
const STEP_MS = 1_200
/** How long a confirmation from a source that reports no age is valid. */
const WITHOUT_AGE_MS = 600

/** Milliseconds; `validMs` is null for a source that is never old while connected. */
interface ReportedAge {
  readonly ageMs: number
  readonly validMs: number | null
}

export class RemoteAges {
  #requestedAtMs: number | null = null
  #ages: ReadonlyMap<string, ReportedAge> = new Map()

  /**
   * @param body the server's response, in any form.
   * @param requestedAtMs the time of the request, in monotonic milliseconds.
   */
  received(body: string, requestedAtMs: number): void {
    this.#requestedAtMs = requestedAtMs
    this.#ages = parseAges(body)
  }

  /** Returns null before the first response. @param resource the resource's id: `deployments.apps`. */
  of(resource: string, nowMs: number): SourceAge | null {
    if (this.#requestedAtMs === null) return null
    const { ageMs, validMs } = this.#ages.get(resource) ?? { ageMs: 0, validMs: null }
    return { ageMs: nowMs - this.#requestedAtMs + ageMs, validMs: (validMs ?? WITHOUT_AGE_MS) + STEP_MS }
  }
}

/** Returns no ages for anything but `{"ages":{"pods":{"ageMs":12,"validMs":1800}}}`. */
function parseAges(body: string): ReadonlyMap<string, ReportedAge> {
  const ages = new Map<string, ReportedAge>()
  const document = jsonIn(body)
  const reported = isObject(document) ? document['ages'] : undefined
  if (!isObject(reported)) return ages
  for (const [resource, age] of Object.entries(reported)) {
    if (!isObject(age)) continue
    const { ageMs, validMs } = age
    if (!isDuration(ageMs) || (validMs !== null && !isDuration(validMs))) continue
    ages.set(resource, { ageMs, validMs })
  }
  return ages
}

function isDuration(value: unknown): value is number {
  return typeof value === 'number' && value >= 0
}
