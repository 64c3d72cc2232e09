/** The page's summary line, and its answers to three questions: is the data fresh, is a watcher behind, what is served? */
import { byId, formatClock, formatCount, formatNumber, formatSeconds, marked } from './elements.js'
import type { ServerStatus } from './figures.js'
import { awaySeconds, countWatchers, type Reading } from './reading.js'

/**
 * Fills the live region only when its text changes, because screen readers read it aloud.
 * @param trouble why there are no new figures; '' if there are.
 */
export function showSummary(status: ServerStatus, trouble: string): void {
  const isAway = awaySeconds(status) > 0
  const state = `${status.ready ? 'ready' : 'not ready'}${isAway ? ' · upstream unavailable' : ''}`
  const text = `${status.version} · ${status.upstream} · ${trouble === '' ? state : trouble}`
  const element = byId('summary')
  const className = status.ready && !isAway && trouble === '' ? '' : 'bad'
  if (element.textContent !== text) element.replaceChildren(marked(text, className))
}

/** @param ageMs the age of the figures; null if they are current. */
export function showAnswers(reading: Reading, ageMs: number | null): void {
  const asOf = ageMs === null ? '' : `As of ${formatClock(reading.atMs)}, ${formatSeconds(ageMs / 1000)} ago: `
  answer(
    'fresh',
    ageMs === null
      ? freshness(reading)
      : [
          'bad',
          'Unknown',
          `No figures from this server for ${formatSeconds(ageMs / 1000)}. What follows is from ${formatClock(reading.atMs)}.`,
        ],
  )
  answer('behind', laggards(reading), asOf)
  answer('serving', served(reading), asOf)
}

type Answer = readonly [className: 'good' | 'bad' | '', short: string, long: string]

function answer(id: string, [className, short, long]: Answer, asOf = ''): void {
  byId(id).replaceChildren(marked(short, `answer ${className}`), marked(`${asOf}${long}`, 'hint'))
}

function freshness({ status, atMs }: Reading): Answer {
  const seconds = awaySeconds(status)
  if (seconds > 0) {
    const since = `${formatClock(atMs - seconds * 1000)}, ${formatSeconds(seconds)} ago`
    return ['bad', 'No', `Not confirmed since ${since}. Clients get the data of that time.`]
  }
  const problems = status.resources.filter(({ problem }) => problem !== null).length
  if (!status.ready)
    return ['bad', 'Not ready', problems === 0 ? 'Starting.' : `${formatCount(problems, 'resource')} not ready.`]
  if (problems > 0)
    return ['bad', 'Not all of it', `${formatCount(problems, 'resource')} not ready; all others are current.`]
  return ['good', 'Yes', `Every resource is up to date with ${status.upstream}.`]
}

function laggards({ status, delayMs }: Reading): Answer {
  const { slow, slowCount } = status
  const total = countWatchers(status)
  const delay =
    delayMs === null
      ? 'No events in the last second.'
      : `Events reach the socket within ${formatNumber(delayMs)} ms (p99).`
  if (total === 0) return ['', 'Nobody watches', 'There are no watchers.']
  if (slowCount === 0) return ['good', 'Nobody', `${formatCount(total, 'watcher')} up to date. ${delay}`]
  const most = Math.max(0, ...slow.map(({ behind }) => behind))
  return [
    'bad',
    `${formatNumber(slowCount)} of ${formatNumber(total)}`,
    `The slowest is ${formatCount(most, 'revision')} behind. ${delay}`,
  ]
}

function served({ status, rates }: Reading): Answer {
  const filled = status.resources.filter(({ objects }) => objects > 0)
  const objects = filled.reduce((sum, one) => sum + one.objects, 0)
  const largest = filled
    .toSorted((a, b) => b.watchers - a.watchers || b.objects - a.objects)
    .slice(0, 3)
    .map(({ resource }) => resource)
  const names =
    largest.length === 0 ? '' : `${largest.join(', ')}${filled.length > 3 ? ` and ${filled.length - 3} more` : ''}; `
  return [
    '',
    formatCount(objects, 'object'),
    `${names}${formatNumber(rates.out)} events/s to ${formatCount(countWatchers(status), 'watcher')}.`,
  ]
}
