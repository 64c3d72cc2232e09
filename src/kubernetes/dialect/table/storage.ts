/** Rows of volumes, and of their providers. */
import { entriesAt, field, has, listAt, textAt } from '../../../support/fields.js'
import {
  AGE,
  aged,
  boolean,
  column,
  each,
  flag,
  integer,
  items,
  length,
  NAME,
  named,
  nameOf,
  or,
  type Printer,
  printer,
  reference,
  scalar,
  text,
  wide,
} from './printer.js'

const VOLUME_MODE = wide('VolumeMode', 'Filesystem or block device.', text('spec.volumeMode', 'Filesystem'))
const ATTRIBUTES_CLASS = wide(
  'VolumeAttributesClass',
  'Class of its mutable attributes.',
  text('spec.volumeAttributesClassName', '<unset>'),
)
const STORAGE_CLASS = column('StorageClass', 'Class of the storage.', (object) => {
  const beta = textAt(object, 'metadata', 'annotations', 'volume.beta.kubernetes.io/storage-class')
  return beta || textAt(object, 'spec', 'storageClassName')
})

const boundCapacity = scalar('status.capacity.storage', '0')
const audiences = each('spec.tokenRequests', 'audience')

export const storagePrinters: Readonly<Record<string, Printer>> = {
  PersistentVolume: named(
    column('Capacity', 'Its size.', scalar('spec.capacity.storage', '0')),
    column('Access Modes', 'How it can be mounted.', (object) => accessModes(object, 'spec')),
    column(
      'Reclaim Policy',
      'What happens to it when its claim is deleted.',
      text('spec.persistentVolumeReclaimPolicy', 'Retain'),
    ),
    column('Status', 'Whether it is available, bound or released.', phase),
    column('Claim', 'Claim that it is bound to.', reference('spec.claimRef', ['namespace', 'name'], '')),
    STORAGE_CLASS,
    { ...ATTRIBUTES_CLASS, priority: 0 },
    column('Reason', 'Why it is in its state.', 'status.reason'),
    AGE,
    VOLUME_MODE,
  ),
  PersistentVolumeClaim: named(
    column('Status', 'Whether it is bound.', phase),
    column('Volume', 'Volume it is bound to.', 'spec.volumeName'),
    column('Capacity', 'Size of the volume.', (object) => (isBound(object) ? boundCapacity(object) : '')),
    column('Access Modes', 'How the volume can be mounted.', (object) =>
      isBound(object) ? accessModes(object, 'status') : '',
    ),
    STORAGE_CLASS,
    { ...ATTRIBUTES_CLASS, priority: 0 },
    AGE,
    VOLUME_MODE,
  ),
  StorageClass: printer(
    { ...NAME, cell: (object) => nameOf(object) + (isDefaultClass(object) ? ' (default)' : '') },
    column('Provisioner', 'Provisioner that creates its volumes.', 'provisioner'),
    column('ReclaimPolicy', 'What happens to a volume when its claim is deleted.', text('reclaimPolicy', 'Delete')),
    column('VolumeBindingMode', 'When a volume is bound.', text('volumeBindingMode', 'Immediate')),
    column('AllowVolumeExpansion', 'Whether a volume can grow.', flag('allowVolumeExpansion')),
    AGE,
  ),
  VolumeAttributesClass: aged(column('DriverName', 'Driver it is for.', 'driverName')),
  VolumeAttachment: aged(
    column('Attacher', 'Driver that attaches it.', 'spec.attacher', {
      format: 'name',
    }),
    column('PV', 'Volume.', 'spec.source.persistentVolumeName'),
    column('Node', 'Node it is attached to.', 'spec.nodeName'),
    boolean('Attached', 'Whether it is attached.', flag('status.attached')),
  ),
  CSINode: aged(integer('Drivers', 'Drivers on the node.', length('spec.drivers'))),
  CSIDriver: aged(
    boolean(
      'AttachRequired',
      'Whether volumes must be attached.',
      (object) => field(object, 'spec', 'attachRequired') !== false,
    ),
    boolean(
      'PodInfoOnMount',
      'Whether the driver receives information about the pod when it mounts a volume.',
      flag('spec.podInfoOnMount'),
    ),
    boolean('StorageCapacity', 'Whether it reports its capacity.', flag('spec.storageCapacity')),
    column('TokenRequests', 'Audiences of the tokens that it requests.', (object) =>
      has(object, 'spec', 'tokenRequests') ? audiences(object) : '<unset>',
    ),
    boolean('RequiresRepublish', 'Whether it is called periodically.', flag('spec.requiresRepublish')),
    column('Modes', 'Life cycles it supports.', or('<none>', items('spec.volumeLifecycleModes'))),
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
