/** Every figure of the README comes from a row that `bench readme` produces, and none is typed by hand. */
import t from 'tap'
import { isOfReadme, LOADS } from '../../bench/support/readme-rows.js'
import { withLoads } from './capacity.js'
import { recordedRows, type Row } from './recorded.js'
import { readText } from './repository.js'

const GENERATED = /<!-- Generated from bench\/results\.jsonl[^]*?<!-- End of the generated part\. -->/g
const UNITS = ['µs', 'ms', 'MB', 'GB', 'MiB', 'cores?', 'deliveries', 'events/s', 'events a second', '%']
const MEASURED = new RegExp(`\\d[\\d.,]* ?(?:×|(?:${UNITS.join('|')})(?![a-z]))`, 'g')

const kept = recordedRows()
  .split('\n')
  .filter((line) => line !== '' && isOfReadme(JSON.parse(line) as Row))

void t.test('without all other rows, the README is the same', (t) => {
  const page = readText('README.md')
  t.equal(withLoads(page, kept.join('\n')) === page, true, 'npm run generate')
  t.equal(page.match(GENERATED)!.length, 3)
  t.end()
})

void t.test('each load that is measured for the README is in its table', (t) => {
  const table = readText('README.md').match(/^\| [\d,]+ \| \d+ \| .* \|$/gm)!
  const wires = LOADS.reduce((sum, load) => sum + load.wires.length, 0)
  t.equal(table.length, wires)
  t.notOk(
    table.some((line) => line.includes('–')),
    'and has been measured',
  )
  t.end()
})

void t.test('no figure stands outside of the generated parts', (t) => {
  const rest = readText('README.md').replaceAll(GENERATED, '')
  t.same(rest.match(MEASURED), null)
  t.match('A delivery takes 3.5 ms.', MEASURED, 'a figure would be found')
  t.end()
})
