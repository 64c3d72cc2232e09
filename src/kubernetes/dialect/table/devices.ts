/** Rows of devices, and of the claims to them. */
import { countAt, field, has, listAt, textAt } from '../../../support/fields.js'
import { ageOf } from '../../../support/human-duration.js'
import { AGE, column, NAME, type Printer, printer } from './printer.js'

export const devicePrinters: Readonly<Record<string, Printer>> = {
  DeviceClass: printer(NAME, AGE),
  ResourceClaimTemplate: printer(NAME, AGE),
  ResourceClaim: printer(NAME, column('State', 'string', 'Whether it is allocated and reserved.', claimState), AGE),
  ResourceSlice: printer(
    NAME,
    column('Node', 'string', 'Node that has the devices.', (object) => textAt(object, 'spec', 'nodeName')),
    column('Driver', 'string', 'Driver of the devices.', (object) => textAt(object, 'spec', 'driver')),
    column('Pool', 'string', 'Pool the devices are in.', (object) => textAt(object, 'spec', 'pool', 'name')),
    AGE,
  ),
  DeviceTaintRule: printer(
    NAME,
    column('Key', 'string', 'Key of the taint.', (object) => textAt(object, 'spec', 'taint', 'key')),
    column('Value', 'string', 'Value of the taint.', (object) => textAt(object, 'spec', 'taint', 'value')),
    column('Effect', 'string', 'What it does to pods.', (object) => textAt(object, 'spec', 'taint', 'effect')),
    column('TimeAdded', 'string', 'Time since it was added.', (object, nowMs) =>
      has(object, 'spec', 'taint', 'timeAdded') ? ageOf(field(object, 'spec', 'taint', 'timeAdded'), nowMs) : '',
    ),
    AGE,
  ),
  ResourcePoolStatusRequest: printer(
    NAME,
    column('Driver', 'string', 'Driver of the pools.', (object) => textAt(object, 'spec', 'driver')),
    column('Total', 'string', 'Devices in all pools.', devices('totalDevices')),
    column('Available', 'string', 'Devices that are available.', devices('availableDevices')),
    column('Allocated', 'string', 'Devices that are allocated.', devices('allocatedDevices')),
    column('Unavailable', 'string', 'Devices that are unavailable.', devices('unavailableDevices')),
    column('Errors', 'string', 'Pools with errors.', (object) =>
      isCounted(object) ? String(pools(object).filter((pool) => has(pool, 'validationError')).length) : '-',
    ),
    column('Pools', 'integer', 'Pools that match.', (object) => countAt(object, 'status', 'poolCount')),
    column('Status', 'string', 'Whether it was answered.', poolStatus),
    column('Completed', 'string', 'Time since it was answered.', (object, nowMs) => {
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

/** The first condition that says that the request has been handled; undefined while it is pending. */
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
