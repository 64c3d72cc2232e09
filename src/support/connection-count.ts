/**
 * Counts the connections of a client on which a response has arrived. Node's `reusedSocket` cannot be used for this,
 * because it is false for a request that waited for a connection.
 */
export class ConnectionCount {
  readonly #known = new WeakSet<object>()
  #count = 0

  get count(): number {
    return this.#count
  }

  /** Call this with the socket of each response. */
  note(socket: object): void {
    if (this.#known.has(socket)) return
    this.#known.add(socket)
    this.#count++
  }
}
