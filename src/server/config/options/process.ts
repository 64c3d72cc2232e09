/** Options for the configuration file, logs and traces. */
import { choice, file, integer, string } from '../option.js'
import { isUrl } from './values.js'

export const processOptions = {
  config: file({
    flag: '--config',
    group: 'Process',
    doc: 'YAML file with these options under their YAML keys, and the resource table. Flags and environment variables take precedence.',
  }),
  logLevel: choice({
    flag: '--log-level',
    group: 'Process',
    choices: ['debug', 'info', 'warn', 'error'],
    default: 'info',
    doc: 'Minimum severity of log lines. debug logs much for every connection.',
  }),
  logFormat: choice({
    flag: '--log-format',
    group: 'Process',
    choices: ['json', 'text'],
    default: 'json',
    doc: 'json: one JSON object per line. text: lines for people.',
  }),
  auditLogPath: string({
    flag: '--audit-log-path',
    group: 'Process',
    default: null,
    doc: 'File for the access log, one JSON line per request; "-" for standard output. Default: no access log.',
  }),
  auditLogMaxsize: integer({
    flag: '--audit-log-maxsize',
    group: 'Process',
    default: null,
    min: 1,
    max: 1_000_000,
    unit: 'MB',
    doc: 'Size in megabytes at which the server renames the access log, as NAME-TIME.EXT, and begins a new one. Default: the file is left to the platform, which moves it and sends SIGHUP.',
  }),
  auditLogMaxage: integer({
    flag: '--audit-log-maxage',
    group: 'Process',
    default: 0,
    min: 0,
    max: 36_500,
    unit: 'days',
    doc: 'Age in days, by the time in its name, beyond which a renamed access log is deleted. 0: none is deleted for its age.',
  }),
  auditLogMaxbackup: integer({
    flag: '--audit-log-maxbackup',
    group: 'Process',
    default: 0,
    min: 0,
    max: 1_000_000,
    unit: 'files',
    doc: 'Number of renamed access logs to keep. 0: all of them.',
  }),
  tracingOtlpEndpoint: string({
    flag: '--tracing-otlp-endpoint',
    group: 'Process',
    default: null,
    check: (text) => (isUrl(text) ? null : 'is not the base address of a collector such as http://127.0.0.1:4318'),
    doc: 'OpenTelemetry collector that receives spans of lists, upstream lists and relists, by OTLP over HTTP: http://127.0.0.1:4318. Default: no tracing.',
  }),
  tracingSamplingRatePerMillion: integer({
    flag: '--tracing-sampling-rate-per-million',
    group: 'Process',
    default: 1_000_000,
    min: 0,
    max: 1_000_000,
    doc: "Number of lists to trace per million that arrive without a traceparent header; otherwise the caller's decision counts.",
  }),
} as const
