/** PUT: replaces a whole object or its status. */
import { cloneTree, textMember } from '../codec/json-tree.js'
import { conflictError, objectNotFoundError } from '../dialect/status-body.js'
import { NotFoundError } from '../model/status.js'
import { bareValueOf } from './bare-value.js'
import { checkName, checkNamespace, makeObject, readWhole } from './create.js'
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
  try {
    return await write.change((held) => {
      if (held === null) throw objectNotFoundError(resource, name)
      if (bare === null) {
        const after = context.change.update(held.object, cloneTree(value), write.changeRequest({ verb: 'update' }))
        return write.lease.put(held, after)
      }
      const version = textMember(metadata, 'resourceVersion').replace(/^0$/, '')
      if (version !== '' && version !== textMember(held.object, 'metadata', 'resourceVersion')) {
        throw conflictError(resource, name)
      }
      return write.lease.putBare(held, bare)
    })
  } catch (error) {
    const makes = context.change.rules(served).createsOnUpdate && subresource === ''
    if (!(error instanceof NotFoundError) || !makes) throw error
    if (uid !== '') {
      throw conflictError(resource, name, `Precondition failed: UID in precondition: ${uid}, UID in object meta: `)
    }
    delete metadata['resourceVersion']
    await request.mayCreate()
    return await makeObject(write, value)
  }
}
