/** PUT: replaces a whole object or its status. */
import { cloneTree, textMember } from '../codec/json-tree.js'
import { conflictError, objectNotFoundError } from '../dialect/status-body.js'
import { bareValueOf } from './bare-value.js'
import { changeOrMake, checkName, checkNamespace, makeObject, readWhole } from './create.js'
import { metadataOf } from './object-change.js'
import { type SingleResponse, Write, type WriteContext, type WriteRequest } from './write-context.js'
import { parseWriteOptions } from './write-options.js'

/** @throws StatusError */
export async function updateObject(context: WriteContext, request: WriteRequest): Promise<SingleResponse> {
  const { served, name, subresource } = request
  const { resource } = served
  const write = new Write(context, request, parseWriteOptions(request.query, request.userAgent, 'Update'))
  const value = readWhole(write)
  const metadata = metadataOf(value)
  checkName(metadata, request)
  checkNamespace(metadata, request)
  const uid = textMember(metadata, 'uid')
  const bare = bareValueOf(served, value, name)
  const version = textMember(metadata, 'resourceVersion').replace(/^0$/, '')
  const change = (): Promise<SingleResponse> =>
    write.change((held) => {
      if (held === null) throw objectNotFoundError(resource, name)
      if (bare === null) {
        const after = context.change.update(held.object, cloneTree(value), write.changeRequest({ verb: 'update' }))
        return write.lease.put(held, after)
      }
      if (version !== '' && version !== textMember(held.object, 'metadata', 'resourceVersion')) {
        throw conflictError(resource, name)
      }
      return write.lease.putBare(held, bare)
    })
  if (!context.change.rules(served).createsOnUpdate || subresource !== '') return await change()
  return await changeOrMake(change, async () => {
    if (uid !== '') {
      throw conflictError(resource, name, `Precondition failed: UID in precondition: ${uid}, UID in object meta: `)
    }
    // Kubernetes creates its own kinds again whatever version the client has seen.
    if (version !== '' && served.origin === 'declared') throw conflictError(resource, name)
    const made = cloneTree(value)
    delete metadataOf(made)['resourceVersion']
    await request.mayCreate()
    return await makeObject(write, made)
  })
}
