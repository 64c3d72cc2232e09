/**
 * The `format:` values of a definition's schema that Kubernetes' validator checks, by name. Each check takes time
 * linear in the text. Names and addresses are limited in length before an expression sees them.
 */
import { isIPv4, isIPv6 } from 'node:net'
import { isDate } from '../codec/go-formats.js'

const MAX_HOST_LENGTH = 253
const MAX_EMAIL_LENGTH = 320

const TIME = /^([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(z|[-+]([01]\d|2[0-3]):?[0-5]\d)$/i
const HOST_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/i
const LOCAL_PART = /^[-a-z0-9!#$%&'*+/=?^_`{|}~.]+$/i
const URI = /^[a-z][-a-z0-9+.]*:(?:%[0-9a-f]{2}|[-a-z0-9._~:/?#[\]@!$&'()*+,;=])+$/i
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/
/** Go's duration format, not ISO 8601's. */
const DURATION = /^[-+]?((\d+(\.\d*)?|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h|d|w))+$|^0$/
const CIDR = /^([0-9.]{1,15}|[0-9a-f:.]{2,45})\/\d{1,3}$/i
const MAC = /^([0-9a-f]{2}[:-]){5}[0-9a-f]{2}$/i
const HEX_COLOR = /^#?([0-9a-f]{3}|[0-9a-f]{6})$/i

const uuid = (version: string, variant = '[0-9a-f]'): RegExp =>
  new RegExp(`^[0-9a-f]{8}-?[0-9a-f]{4}-?${version}[0-9a-f]{3}-?${variant}[0-9a-f]{3}-?[0-9a-f]{12}$`, 'i')

function isDateTime(text: string): boolean {
  const [date = '', time = '', ...more] = text.slice(0, 128).split(/[t ]/i)
  return more.length === 0 && text.length <= 128 && isDate(date) && TIME.test(time)
}

function isHostname(text: string): boolean {
  const labels = text.length > MAX_HOST_LENGTH + 1 ? [] : text.replace(/\.$/, '').split('.')
  return labels.length > 0 && labels.every((label) => HOST_LABEL.test(label))
}

function isEmail(text: string): boolean {
  const at = text.lastIndexOf('@')
  if (at < 1 || text.length > MAX_EMAIL_LENGTH) return false
  const local = text.slice(0, at)
  return LOCAL_PART.test(local) && !/^\.|\.\.|\.$/.test(local) && isHostname(text.slice(at + 1))
}

const matching =
  (expression: RegExp, maxLength: number): ((text: string) => boolean) =>
  (text) =>
    text.length <= maxLength && expression.test(text)

/** Checks by format. Unknown formats are not checked. */
export const FORMATS: ReadonlyMap<string, (text: string) => boolean> = new Map([
  ['date', isDate],
  ['date-time', isDateTime],
  ['datetime', isDateTime],
  ['email', isEmail],
  ['hostname', isHostname],
  ['ipv4', isIPv4],
  ['ipv6', isIPv6],
  ['uri', matching(URI, 65_536)],
  ['uuid', matching(uuid('[0-9a-f]'), 64)],
  ['uuid3', matching(uuid('3'), 64)],
  ['uuid4', matching(uuid('4', '[89ab]'), 64)],
  ['uuid5', matching(uuid('5', '[89ab]'), 64)],
  ['mac', matching(MAC, 64)],
  ['cidr', matching(CIDR, 64)],
  ['hexcolor', matching(HEX_COLOR, 16)],
  ['byte', (text) => text.length % 4 === 0 && BASE64.test(text)],
  ['duration', matching(DURATION, 1_024)],
])
