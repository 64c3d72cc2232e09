/**
 * The functions of `yaml` used here. The library is loaded on the first call, because it has seventy files and most
 * servers never read YAML.
 */
import { createRequire } from 'node:module'
import type * as Yaml from 'yaml'

export type { Alias, Node, Scalar, YAMLMap } from 'yaml'

type Library = typeof Yaml

const require = createRequire(import.meta.url)
let loaded: Library | null = null

function library(): Library {
  return (loaded ??= require('yaml') as Library)
}

type Functions = { [K in keyof Library]: Library[K] extends (...given: never[]) => unknown ? K : never }[keyof Library]

function lazily<K extends Functions>(name: K): Library[K] {
  const call = (...given: unknown[]): unknown => (library()[name] as (...given: unknown[]) => unknown)(...given)
  return call as unknown as Library[K]
}

export const isAlias: Library['isAlias'] = lazily('isAlias')
export const isMap: Library['isMap'] = lazily('isMap')
export const isNode: Library['isNode'] = lazily('isNode')
export const isScalar: Library['isScalar'] = lazily('isScalar')
export const isSeq: Library['isSeq'] = lazily('isSeq')
export const parse: Library['parse'] = lazily('parse')
export const parseAllDocuments: Library['parseAllDocuments'] = lazily('parseAllDocuments')
export const parseDocument: Library['parseDocument'] = lazily('parseDocument')

export function createLineCounter(): Yaml.LineCounter {
  return new (library().LineCounter)()
}
