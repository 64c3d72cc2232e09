/** The configuration file, logs and traces. */
import { choice, file, integer, string } from '../option.js'
import { isUrl } from './values.js'

export const processOptions = {
  config: file({
    flag: '--config',
    group: 'Process',
    doc: 'YAML file with these same options under their YAML keys, and the resource table. Flags and environment win over it.',
  }),
  logLevel: choice({
    flag: '--log-level',
    group: 'Process',
    choices: ['debug', 'info', 'warn', 'error'],
    default: 'info',
    doc: 'Least severe lines written. debug says much for every connection.',
  }),
  logFormat: choice({
    flag: '--log-format',
    group: 'Process',
    choices: ['json', 'text'],
    default: 'json',
    doc: 'One JSON object per line, or lines for people.',
  }),
  auditLogPath: string({
    flag: '--audit-log-path',
    group: 'Process',
    default: null,
    doc: 'File that gets one JSON line per request; "-" for standard output. Default: no audit log.',
  }),
  tracingOtlpEndpoint: string({
    flag: '--tracing-otlp-endpoint',
    group: 'Process',
    default: null,
    check: (text) => (isUrl(text) ? null : 'is not the base address of a collector such as http://127.0.0.1:4318'),
    doc: 'OpenTelemetry collector that gets spans of lists, upstream lists and relists, by OTLP over HTTP: http://127.0.0.1:4318. Default: no tracing.',
  }),
  tracingSamplingRatePerMillion: integer({
    flag: '--tracing-sampling-rate-per-million',
    group: 'Process',
    default: 1_000_000,
    min: 0,
    max: 1_000_000,
    doc: "Lists traced among a million whose caller sent no traceparent; with one, the caller's decision counts.",
  }),
} as const
