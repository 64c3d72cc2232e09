/** docs/reference/options.md, generated from the option table. */
import { type OptionRow, optionRows } from './option-rows.js'

export function optionsPage(): string {
  const rows = optionRows()
  const groups = [...new Set(rows.map((row) => row.group))]
  return [
    '# Options',
    '',
    '<!-- Generated from src/server/config/options.ts by `npm run generate`. -->',
    '',
    'Each option is a flag, an environment variable and a key of the YAML file that `--config` names; a few are only a key. A flag wins over the',
    'environment, the environment over the file, the file over the default. Durations are written `90s` or `1h30m`, sizes',
    '`64MiB`. All problems are reported at once, with exit code 2. In the Helm chart the YAML keys are under `config`. `--help` shows the twenty most',
    'important options, `--help all` all of them.',
    '',
    ...groups.flatMap((group) => [
      `## ${group}`,
      '',
      '| option | default | |',
      '| --- | --- | --- |',
      ...rows.filter((row) => row.group === group).map(line),
      '',
    ]),
    '## The resource table',
    '',
    'The YAML key `resources` is a list; each entry names a known resource (`name: secrets`), leaves one out (`name: -events`), or declares an etcd prefix:',
    '',
    '```yaml',
    'resources:',
    '  - name: flags',
    '    prefix: /config/flags/',
    '```',
    '',
    '[Plain prefixes](../guide/plain-prefixes.md) has the other members: `prefixBytes`, `exact`, `group`, `version`, `kind`, `namespaced`, `objects`, `shortNames`.',
    '',
  ].join('\n')
}

function line(row: OptionRow): string {
  const names = [...new Set([row.flag, row.environment, row.yaml])]
    .filter((name) => name !== null)
    .map((name) => `\`${name}\``)
  const range = row.range === null ? '' : ` (${row.range.replaceAll('|', '\\|')})`
  const value = row.default === null ? '' : `\`${row.default}\``
  return `| ${names.join('<br>')} | ${value}${range} | ${row.doc.replaceAll('|', '\\|')} |`
}
