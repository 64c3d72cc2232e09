/** Rows of volumes, and of their providers. */
import { entriesAt, field, has, isTrue, listAt, scalarAt, textAt } from '../../../support/fields.js'
import { AGE, column, NAME, nameOf, type Printer, printer, wide } from './printer.js'

const VOLUME_MODE = wide(
  'VolumeMode',
  'Filesystem or block device.',
  (object) => textAt(object, 'spec', 'volumeMode') || 'Filesystem',
)
const ATTRIBUTES_CLASS = wide(
  'VolumeAttributesClass',
  'Class of its mutable attributes.',
  (object) => textAt(object, 'spec', 'volumeAttributesClassName') || '<unset>',
)
const STORAGE_CLASS = column('StorageClass', 'string', 'Class of the storage.', (object) => {
  const beta = textAt(object, 'metadata', 'annotations', 'volume.beta.kubernetes.io/storage-class')
  return beta || textAt(object, 'spec', 'storageClassName')
})

export const storagePrinters: Readonly<Record<string, Printer>> = {
  PersistentVolume: printer(
    NAME,
    column('Capacity', 'string', 'Its size.', (object) => scalarAt('0', object, 'spec', 'capacity', 'storage')),
    column('Access Modes', 'string', 'How it can be mounted.', (object) => accessModes(object, 'spec')),
    column(
      'Reclaim Policy',
      'string',
      'What happens to it when its claim is deleted.',
      (object) => textAt(object, 'spec', 'persistentVolumeReclaimPolicy') || 'Retain',
    ),
    column('Status', 'string', 'Whether it is available, bound or released.', phase),
    column('Claim', 'string', 'Claim that it is bound to.', (object) => {
      const claim = field(object, 'spec', 'claimRef')
      return has(claim) ? `${textAt(claim, 'namespace')}/${textAt(claim, 'name')}` : ''
    }),
    STORAGE_CLASS,
    { ...ATTRIBUTES_CLASS, priority: 0 },
    column('Reason', 'string', 'Why it is in its state.', (object) => textAt(object, 'status', 'reason')),
    AGE,
    VOLUME_MODE,
  ),
  PersistentVolumeClaim: printer(
    NAME,
    column('Status', 'string', 'Whether it is bound.', phase),
    column('Volume', 'string', 'Volume it is bound to.', (object) => textAt(object, 'spec', 'volumeName')),
    column('Capacity', 'string', 'Size of the volume.', (object) =>
      isBound(object) ? scalarAt('0', object, 'status', 'capacity', 'storage') : '',
    ),
    column('Access Modes', 'string', 'How the volume can be mounted.', (object) =>
      isBound(object) ? accessModes(object, 'status') : '',
    ),
    STORAGE_CLASS,
    { ...ATTRIBUTES_CLASS, priority: 0 },
    AGE,
    VOLUME_MODE,
  ),
  StorageClass: printer(
    { ...NAME, cell: (object) => nameOf(object) + (isDefaultClass(object) ? ' (default)' : '') },
    column('Provisioner', 'string', 'What creates its volumes.', (object) => textAt(object, 'provisioner')),
    column(
      'ReclaimPolicy',
      'string',
      'What happens to a volume when its claim is deleted.',
      (object) => textAt(object, 'reclaimPolicy') || 'Delete',
    ),
    column(
      'VolumeBindingMode',
      'string',
      'When a volume is bound.',
      (object) => textAt(object, 'volumeBindingMode') || 'Immediate',
    ),
    column('AllowVolumeExpansion', 'string', 'Whether a volume can grow.', (object) =>
      isTrue(object, 'allowVolumeExpansion'),
    ),
    AGE,
  ),
  VolumeAttributesClass: printer(
    NAME,
    column('DriverName', 'string', 'Driver it is for.', (object) => textAt(object, 'driverName')),
    AGE,
  ),
  VolumeAttachment: printer(
    NAME,
    column('Attacher', 'string', 'Driver that attaches it.', (object) => textAt(object, 'spec', 'attacher'), {
      format: 'name',
    }),
    column('PV', 'string', 'Volume.', (object) => textAt(object, 'spec', 'source', 'persistentVolumeName')),
    column('Node', 'string', 'Node it is attached to.', (object) => textAt(object, 'spec', 'nodeName')),
    column('Attached', 'boolean', 'Whether it is attached.', (object) => isTrue(object, 'status', 'attached')),
    AGE,
  ),
  CSINode: printer(
    NAME,
    column('Drivers', 'integer', 'Drivers on the node.', (object) => listAt(object, 'spec', 'drivers').length),
    AGE,
  ),
  CSIDriver: printer(
    NAME,
    column(
      'AttachRequired',
      'boolean',
      'Whether volumes must be attached.',
      (object) => field(object, 'spec', 'attachRequired') !== false,
    ),
    column(
      'PodInfoOnMount',
      'boolean',
      'Whether the driver receives information about the pod when it mounts a volume.',
      (object) => isTrue(object, 'spec', 'podInfoOnMount'),
    ),
    column('StorageCapacity', 'boolean', 'Whether it reports its capacity.', (object) =>
      isTrue(object, 'spec', 'storageCapacity'),
    ),
    column('TokenRequests', 'string', 'Audiences of the tokens it asks for.', (object) =>
      has(object, 'spec', 'tokenRequests')
        ? listAt(object, 'spec', 'tokenRequests')
            .map((request) => textAt(request, 'audience'))
            .join(',')
        : '<unset>',
    ),
    column('RequiresRepublish', 'boolean', 'Whether it is called periodically.', (object) =>
      isTrue(object, 'spec', 'requiresRepublish'),
    ),
    column(
      'Modes',
      'string',
      'Life cycles it supports.',
      (object) => listAt(object, 'spec', 'volumeLifecycleModes').map(String).join(',') || '<none>',
    ),
    AGE,
  ),
}

function phase(object: unknown): string {
  return has(object, 'metadata', 'deletionTimestamp') ? 'Terminating' : textAt(object, 'status', 'phase') || 'Pending'
}

function isBound(claim: unknown): boolean {
  return textAt(claim, 'spec', 'volumeName') !== ''
}

const MODES: readonly (readonly [mode: string, short: string])[] = [
  ['ReadWriteOnce', 'RWO'],
  ['ReadOnlyMany', 'ROX'],
  ['ReadWriteMany', 'RWX'],
  ['ReadWriteOncePod', 'RWOP'],
]

function accessModes(object: unknown, part: 'spec' | 'status'): string {
  const modes = listAt(object, part, 'accessModes')
  return MODES.filter(([mode]) => modes.includes(mode))
    .map(([, short]) => short)
    .join(',')
}

function isDefaultClass(object: unknown): boolean {
  return entriesAt(object, 'metadata', 'annotations').some(
    ([key, value]) => /^storageclass(\.beta)?\.kubernetes\.io\/is-default-class$/.test(key) && value === 'true',
  )
}
