/**
 * The default pull policy of a container: Always if its image has the tag `latest` or neither tag nor digest, otherwise
 * IfNotPresent.
 *
 * Source: "Images" of the Kubernetes documentation; the grammar of image references of the OCI distribution project.
 */

const PART = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*'
const HOST_LABEL = '[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?'
const HOST = `(?:${HOST_LABEL}(?:\\.${HOST_LABEL})*|\\[[a-fA-F0-9:]+\\])(?::\\d+)?`
const TAG = '\\w[\\w.-]{0,127}'
const DIGEST = '[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}'
const REFERENCE = new RegExp(`^(?:${HOST}/)?${PART}(?:/${PART})*(?::(${TAG}))?(?:@(${DIGEST}))?$`)
/**
 * Longer names fail anyway when the image is pulled. The limit keeps the regular expression from running on strings
 * of any length.
 */
const MAX_LENGTH = 1024

export function pullPolicyOf(image: string): 'Always' | 'IfNotPresent' {
  const parts = image.length > MAX_LENGTH ? null : REFERENCE.exec(image)
  if (parts === null) return 'IfNotPresent'
  const [, tag, digest] = parts
  return tag === 'latest' || (tag === undefined && digest === undefined) ? 'Always' : 'IfNotPresent'
}
