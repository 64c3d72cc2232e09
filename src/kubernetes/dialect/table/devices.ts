/** Rows of devices, and of the claims to them. */
import { countAt, field, has, listAt, textAt } from '../../../support/fields.js'
import { ageOf } from '../../../support/human-duration.js'
import { age, aged, column, count, integer, named, type Printer } from './printer.js'

export const devicePrinters: Readonly<Record<string, Printer>> = {
  DeviceClass: aged(),
  ResourceClaimTemplate: aged(),
  ResourceClaim: aged(column('State', 'Whether it is allocated and reserved.', claimState)),
  ResourceSlice: aged(
    column('Node', 'Node that has the devices.', 'spec.nodeName'),
    column('Driver', 'Driver of the devices.', 'spec.driver'),
    column('Pool', 'Pool that contains the devices.', 'spec.pool.name'),
  ),
  DeviceTaintRule: aged(
    column('Key', 'Key of the taint.', 'spec.taint.key'),
    column('Value', 'Value of the taint.', 'spec.taint.value'),
    column('Effect', 'Effect of the taint on pods.', 'spec.taint.effect'),
    column('TimeAdded', 'Time since it was added.', age('spec.taint.timeAdded', '')),
  ),
  ResourcePoolStatusRequest: named(
    column('Driver', 'Driver of the pools.', 'spec.driver'),
    column('Total', 'Devices in all pools.', devices('totalDevices')),
    column('Available', 'Devices that are available.', devices('availableDevices')),
    column('Allocated', 'Devices that are allocated.', devices('allocatedDevices')),
    column('Unavailable', 'Devices that are unavailable.', devices('unavailableDevices')),
    column('Errors', 'Pools with errors.', (object) =>
      isCounted(object) ? String(pools(object).filter((pool) => has(pool, 'validationError')).length) : '-',
    ),
    integer('Pools', 'Pools that match.', count('status.poolCount')),
    column('Status', 'Whether it was answered.', poolStatus),
    column('Completed', 'Time since it was answered.', (object, nowMs) => {
      const outcome = outcomeOf(object)
      return textAt(outcome, 'type') === 'Complete' ? ageOf(field(outcome, 'lastTransitionTime'), nowMs) : '<none>'
    }),
  ),
}

function claimState(claim: unknown): string {
  const states = [
    ...(has(claim, 'metadata', 'deletionTimestamp') ? ['deleted'] : []),
    ...(has(claim, 'status', 'allocation') ? ['allocated'] : []),
    ...(listAt(claim, 'status', 'reservedFor').length > 0 ? ['reserved'] : []),
  ]
  return states.join(',') || 'pending'
}

function pools(object: unknown): readonly unknown[] {
  return listAt(object, 'status', 'pools')
}

/** The first condition that says that the request has been handled; undefined while the request is pending. */
function outcomeOf(object: unknown): unknown {
  return listAt(object, 'status', 'conditions').find(
    (condition) => /^(Complete|Failed)$/.test(textAt(condition, 'type')) && textAt(condition, 'status') === 'True',
  )
}

function isCounted(object: unknown): boolean {
  return has(object, 'status') && textAt(outcomeOf(object), 'type') !== 'Failed'
}

function devices(member: string): (object: unknown) => string {
  return (object) =>
    isCounted(object) ? String(pools(object).reduce((sum: number, pool) => sum + countAt(pool, member), 0)) : '-'
}

function poolStatus(object: unknown): string {
  const type = textAt(outcomeOf(object), 'type')
  const [shown, matching] = [pools(object).length, countAt(object, 'status', 'poolCount')]
  return type === 'Complete' && matching > shown ? `Complete (${shown}/${matching} pools)` : type || 'Pending'
}
