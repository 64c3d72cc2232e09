/** A page's script with OpenFeature's web provider: `flags()` of the window returns what the page knows. */
import { OFREPWebProvider } from '@openfeature/ofrep-web-provider'
import { OpenFeature, type Provider } from '@openfeature/web-sdk'

declare const location: { readonly search: string }

const baseUrl = new URLSearchParams(location.search).get('server') ?? ''
// Its declarations are not made for `exactOptionalPropertyTypes`.
await OpenFeature.setProviderAndWait(new OFREPWebProvider({ baseUrl }) as unknown as Provider)
const client = OpenFeature.getClient()

Object.assign(globalThis, {
  flags: () => ({
    color: client.getStringValue('color', 'none'),
    isOpen: client.getBooleanValue('open', false),
    limit: client.getNumberValue('limit', 0),
    absent: client.getStringDetails('absent', 'default').errorCode,
  }),
})
