/**
 * Stores the API server's responses as data, so that `npm test` can check them without Go: every revision of an etcd's
 * history, and the responses of the API server over it. Loaded into an empty etcd, the history gives the same
 * revisions, so the responses need no translation; of ages, only the form is compared.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { EtcdProcess } from '../support/etcd-process.js'
import type { Answer, Question } from './ask.js'

/** @param set its name. */
function folderOf(set: string): string {
  return fileURLToPath(new URL(`../../../test/data/kube-apiserver-0.37/${set}/`, import.meta.url))
}

export interface Recorded {
  readonly question: Question
  readonly answer: Answer
}

/** One revision: the API server writes one key at a time. */
export interface Written {
  readonly revision: number
  readonly key: string
  /** null if the key was deleted. */
  readonly value: string | null
}

export function readRecording(set: string): {
  readonly history: readonly Written[]
  readonly answers: readonly Recorded[]
} {
  const folder = folderOf(set)
  const linesOf = (name: string): unknown[] =>
    readFileSync(`${folder}${name}`, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown)
  const answers = linesOf('answers.jsonl').map((line): Recorded => {
    const { question, code, headers, body, base64 } = line as Omit<Answer, 'body'> & {
      question: Question
      body?: string
      base64?: string
    }
    return {
      question,
      answer: { code, headers, body: body === undefined ? Buffer.from(base64 ?? '', 'base64') : Buffer.from(body) },
    }
  })
  return { history: linesOf('history.jsonl') as Written[], answers }
}

/** @throws Error when a revision differs from the recorded one. */
export async function loadHistory(etcd: EtcdProcess, history: readonly Written[]): Promise<void> {
  for (const { revision, key, value } of history) {
    const named = { key: Buffer.from(key).toString('base64') }
    const call =
      value === null
        ? etcd.call('kv/deleterange', named)
        : etcd.call('kv/put', { ...named, value: Buffer.from(value).toString('base64') })
    const { header } = (await call) as { header: { revision: string } }
    if (Number(header.revision) !== revision)
      throw new Error(`${key} was written at ${revision}, now at ${header.revision}`)
  }
}
