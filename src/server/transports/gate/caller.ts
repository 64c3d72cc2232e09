/** The gate's findings about the client of an admitted request. */
import type { Attributes } from '../../auth/authz/authorizer.js'
import type { RightsWrite } from '../../auth/authz/escalation.js'
import type { ReviewJudge } from '../../auth/authz/reviews.js'
import type { User } from '../../auth/user.js'
import type { StatusError } from '../../../kubernetes/model/status.js'

/** An admitted request that may have to wait before it is answered. */
export interface Confirmable {
  /**
   * Checks again that the request is allowed. `afterWait` calls it.
   * @throws UnauthorizedError, possibly synchronously; ForbiddenError, ServiceUnavailableError
   */
  confirm(): Promise<void> | undefined
}

/** The client of a request that has passed the gate. */
export interface Caller extends Confirmable {
  /** The name under which limits count the client: the user's name, or the address of an anonymous client. */
  readonly identity: string
  /** null if this server authenticates no one. */
  readonly user: User | null
  /**
   * Equal for callers with the same name, uid, groups and extra, who therefore have the same permissions; '' if the
   * server authenticates no one.
   */
  readonly rights: string
  /** Whether anyone may make this request; false while that is unknown. */
  isAnybody(): Promise<boolean>
  /**
   * Checks a further permission, such as `create` for a PUT that would create an object.
   * @throws ForbiddenError, ServiceUnavailableError
   */
  authorize(attributes: Attributes): Promise<void>
  /** Whether the client has a permission that this request does not need; false while that is unknown. */
  may(attributes: Attributes): Promise<boolean>
  /**
   * Rejects a write of a Role or binding that grants more than the caller has.
   * @throws ForbiddenError, NotFoundError
   */
  confirmRights(write: RightsWrite): Promise<void>
  /** Keeps checking that a running request is still allowed. @returns a function that ends the checks. */
  keep(revoked: (error: StatusError) => void): () => void
}

/** The client of a request that needs no permission so far. */
export interface KnownCaller extends Confirmable {
  /** As for `Caller`. */
  readonly identity: string
  readonly isAnonymous: boolean
}

/** The client of an access review, and the judge that answers it. */
export interface Reviewer extends Confirmable {
  readonly user: User
  readonly address: string
  readonly judge: ReviewJudge
}

/** The client of a request that another server answers. */
export interface ForwardedCaller {
  /** As for `Caller`. */
  readonly identity: string
  /** null if this server authenticates no one. */
  readonly user: User | null
  readonly isAnonymous: boolean
  /**
   * Whether this server authenticated the caller by the caller's own Authorization header. If not, the other server
   * would see a different caller in that header.
   */
  readonly byToken: boolean
  readonly address: string
}
