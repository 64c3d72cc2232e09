/** Options for the configuration file, logs and traces. */
import { choice, file, string } from '../option.js'
import { isUrl } from './values.js'

export const processOptions = {
  config: file({
    doc: 'YAML file with these options under their YAML keys, and the resource table. Flags and environment variables take precedence.',
  }),
  logLevel: choice({
    choices: ['debug', 'info', 'warn', 'error'],
    default: 'info',
    doc: 'Minimum severity of log lines. debug logs a lot for every connection.',
  }),
  logFormat: choice({
    choices: ['json', 'text'],
    default: null,
    doc: 'json: one JSON object per line. text: human-readable lines. Default: text if standard error is a terminal, else json.',
  }),
  auditLogPath: string({
    default: null,
    doc: 'File for the access log, one JSON line per request; "-" for standard output. To rotate the file, move it and send SIGHUP. Default: no access log.',
  }),
  tracingOtlpEndpoint: string({
    default: null,
    check: (text) => (isUrl(text) ? null : 'is not the base address of a collector such as http://127.0.0.1:4318'),
    doc: 'OpenTelemetry collector that receives spans of lists, upstream lists and relists, via OTLP over HTTP: http://127.0.0.1:4318. A caller decides with the traceparent header whether its list is traced. Default: no tracing.',
  }),
} as const
