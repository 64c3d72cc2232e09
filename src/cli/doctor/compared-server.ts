/** One of the two servers that `doctor` compares, used with one identity. Every status code counts as a response. */
import type { Transport, TransportRequest } from '../../client/reflector/transport.js'
import { type ApiResource, discover } from '../../client/discovery.js'
import { errorMessage } from '../../support/error-message.js'
import { CommandError } from '../exit-code.js'
import { jsonIn } from '../../support/json-text.js'
import { readBytes } from '../../support/read-bytes.js'

export interface Reply {
  readonly status: number
  /** The parsed body; {} if it is not JSON. */
  readonly body: Body
  readonly text: string
  /** How old the content is, in seconds, if distributary says so. Default: 0. */
  readonly stalenessSeconds: number
  /** Whether the server leaves `metadata.managedFields` out of all objects (`strip`). */
  readonly lacksManagedFields: boolean
}

/** The parts of a response that the checks read. */
export interface Body {
  readonly message?: string
  readonly gitVersion?: string
  readonly metadata?: { readonly resourceVersion?: string }
  readonly items?: readonly ListedObject[]
  readonly data?: Readonly<Record<string, string>>
  readonly status?: {
    readonly allowed?: boolean
    readonly token?: string
    readonly userInfo?: { readonly username?: string; readonly groups?: readonly string[] }
  }
}

export interface ListedObject {
  readonly metadata?: {
    readonly namespace?: string
    readonly name?: string
    readonly resourceVersion?: string
    readonly managedFields?: unknown
  }
  readonly subjects?: readonly Subject[]
}

export interface Subject {
  readonly kind: string
  readonly name: string
  readonly namespace?: string
}

const MAX_BODY_BYTES = 2 ** 28
const DELETE_MS = 5_000

export class ComparedServer {
  constructor(
    readonly transport: Transport,
    /** The server's name in messages. */
    readonly name: string,
    readonly signal: AbortSignal,
  ) {}

  /** @throws CommandError when there is no response. */
  async get(path: string, query: Readonly<Record<string, string>> = {}, accept = 'application/json'): Promise<Reply> {
    return await this.#send({ path, query, accept })
  }

  async post(path: string, body: object): Promise<Reply> {
    const headers = { 'content-type': 'application/json' }
    return await this.#send({
      method: 'POST',
      path,
      query: {},
      accept: 'application/json',
      headers,
      body: JSON.stringify(body),
    })
  }

  /** Also deletes after Ctrl-C, within a time limit, so that nothing is left behind. */
  async delete(path: string): Promise<Reply> {
    const request = { method: 'DELETE', path, query: {}, accept: 'application/json' } as const
    return await this.#send(request, AbortSignal.timeout(DELETE_MS))
  }

  /** @throws CommandError when the server refuses. */
  async resources(): Promise<readonly ApiResource[]> {
    return await discover(async (path, accept) => {
      const { status, body } = await this.get(path, {}, accept)
      if (status === 404) return null
      if (status !== 200) throw new CommandError(`${this.name} answers ${status} to ${path}`)
      return body
    })
  }

  async #send(request: Omit<TransportRequest, 'signal'>, signal = this.signal): Promise<Reply> {
    try {
      const response = await this.transport.send({ ...request, signal })
      const text = Buffer.from(await readBytes(response.body, MAX_BODY_BYTES)).toString()
      const stalenessSeconds = Number(response.header('x-distributary-staleness-seconds') ?? 0)
      const stripped = response.header('x-distributary-stripped') ?? ''
      return {
        status: response.status,
        body: (jsonIn(text) ?? {}) as Body,
        text,
        stalenessSeconds,
        lacksManagedFields: stripped.split(',').includes('metadata.managedFields'),
      }
    } catch (error) {
      throw new CommandError(`${this.name} does not answer: ${errorMessage(error)}`, undefined, { cause: error })
    }
  }
}
