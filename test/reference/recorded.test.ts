/** Compares our answers with recorded ones of the API server 0.37 over an etcd with the same history. */
import t from 'tap'
import { startEtcd } from '../support/etcd-process.js'
import { startServer } from '../support/server-process.js'
import { serverAt, tryAsk } from './ask.js'
import { compareAnswers } from './compare.js'
import { loadHistory, readRecording } from './recording.js'
import { Report } from './report.js'

for (const set of ['first', 'second'])
  void t.test(`recorded requests of the ${set} set are answered as the API server answered them`, async (t) => {
    const { history, answers } = readRecording(set)
    const etcd = await startEtcd(t)
    await loadHistory(etcd, history)
    const server = await startServer(t, { flags: ['--etcd-servers', etcd.url, '--backfill-revisions', '100000'] })
    const ours = serverAt('ours', server.url)
    t.teardown(() => ours.agent.destroy())
    const report = new Report()
    const left = [...answers].reverse()
    const askOn = async (): Promise<void> => {
      for (let next = left.pop(); next !== undefined; next = left.pop()) {
        const answer = await tryAsk(ours, next.question)
        report.add(next.question, compareAnswers(next.question, next.answer, answer, { areAgesCompared: false }))
      }
    }
    await Promise.all(Array.from({ length: 8 }, askOn))
    t.ok(answers.length > 400, `${answers.length} answers were compared`)
    if (report.failed > 0) report.print((line) => t.comment(line))
    t.equal(report.failed, 0, 'no difference is outside the table')
  })
