/**
 * The bytes that followed the heads of upgrade requests. The listeners record them for the code that takes over the
 * connection.
 */
const heads = new WeakMap<object, Buffer>()

export function noteUpgrade(request: object, head: Buffer): void {
  heads.set(request, head)
}

/** Returns the bytes that followed the head of an upgrade request; undefined for any other request. */
export function upgradeHead(request: object): Buffer | undefined {
  return heads.get(request)
}
