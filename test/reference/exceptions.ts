/**
 * What may differ between the API server and distributary, each with its reason. No row may be something that a user of
 * client-go, kubectl, controller-runtime or Argo CD would notice.
 */
import type { Row } from './report.js'

export const exceptions: readonly Row[] = []
