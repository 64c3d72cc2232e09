/** Finds the columns of a resource, and computes the row of an object. */
import type { ServedResource } from '../resource-registry.js'
import { certificatePrinters } from './certificates.js'
import { clusterPrinters, priorityLevel } from './cluster.js'
import { customPrinter, objectsPrinter, plainPrinter, valuesPrinter } from './custom-columns.js'
import { definitionPrinter } from './definition.js'
import { devicePrinters } from './devices.js'
import { networkPrinters } from './network.js'
import { podPrinter } from './pod.js'
import type { Cell, Column, Printer, RowCondition } from './printer.js'
import { schedulingPrinters } from './scheduling.js'
import { storagePrinters } from './storage.js'
import { workloadPrinters } from './workloads.js'
import { oncePer } from '../../../support/memo.js'

export interface TableRow {
  readonly cells: readonly Cell[]
  readonly conditions: readonly RowCondition[] | undefined
}

const KINDS: Readonly<Record<string, Printer>> = {
  Pod: podPrinter,
  ...workloadPrinters,
  ...networkPrinters,
  ...storagePrinters,
  ...devicePrinters,
  ...schedulingPrinters,
  ...certificatePrinters,
  ...clusterPrinters,
  CustomResourceDefinition: definitionPrinter,
}

const assuredShares = priorityLevel('AssuredConcurrencyShares')

export function tableColumns(served: ServedResource): readonly Column[] {
  return printerOf(served).columns
}

/**
 * Computes a row. It never throws, because `object`, parsed from the object's JSON, may have any shape.
 * @param nowMs milliseconds since the epoch, from which ages are counted.
 */
export function tableRow(served: ServedResource, object: unknown, nowMs: number): TableRow {
  const printer = printerOf(served)
  return { cells: printer.cells(object, nowMs), conditions: printer.conditions?.(object) }
}

/** Returns the order of the objects' rows in a list; undefined where rows are in the order of their keys. */
export function tableOrder(served: ServedResource): Printer['order'] {
  return printerOf(served).order
}

/** Computed once per resource. The registry gives a changed resource a new identity. */
const printerOf = oncePer(({ origin, resource, printerColumns }: ServedResource): Printer => {
  if (origin === 'custom') return customPrinter(printerColumns)
  if (origin === 'declared') return resource.holds === 'values' ? valuesPrinter : objectsPrinter
  const { kind, version } = resource
  if (kind === 'PriorityLevelConfiguration' && /^v1beta[12]$/.test(version)) return assuredShares
  return Object.hasOwn(KINDS, kind) ? KINDS[kind]! : plainPrinter
})
