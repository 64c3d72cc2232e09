import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type KeyService, openKeyService } from '../../../src/kubernetes/encryption/key-service.js'
import { type KmsPlugin, startKmsPlugin } from './support/kms-plugin.js'

async function setUp(t: Test, timeoutMs = 10_000): Promise<{ plugin: KmsPlugin; service: KeyService }> {
  const folder = mkdtempSync(join(tmpdir(), 'kms-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const plugin = await startKmsPlugin(t, join(folder, 'kms.sock'))
  const service = openKeyService(plugin.endpoint, timeoutMs)
  t.teardown(() => service.close())
  return { plugin, service }
}

void t.test('a plugin on a Unix socket encrypts and decrypts keys, annotations included', async (t) => {
  const { service } = await setUp(t)
  t.equal(await service.currentKeyId(), 'one')
  const sealed = await service.encrypt(Buffer.from('a key'))
  t.equal(sealed.keyId, 'one')
  t.equal(sealed.annotations.size, 1)
  t.equal((await service.decrypt(sealed)).toString(), 'a key')
  await t.rejects(service.decrypt({ ...sealed, annotations: new Map() }), /authentication failed/)
})

void t.test('a plugin that refuses says why', async (t) => {
  const { plugin, service } = await setUp(t)
  plugin.mode = 'refuse'
  await t.rejects(service.currentKeyId(), /the plugin refuses/)
})

void t.test('a plugin that does not answer is abandoned after its timeout, and called again', async (t) => {
  const { plugin, service } = await setUp(t, 100)
  plugin.mode = 'silence'
  await t.rejects(service.currentKeyId(), /no answer within 100 ms/)
})

void t.test('a missing plugin is an error, not a crash', async (t) => {
  const service = openKeyService('unix:///nowhere/kms.sock', 2_000)
  t.teardown(() => service.close())
  await t.rejects(service.currentKeyId(), /not connected/)
})
