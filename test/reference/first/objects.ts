/** The objects of the first set: most are generated from a seed, some are written by hand. */
import type { Make, Stored } from '../definition-set.js'
import { conditions, FLOATS, INTEGERS, owner, TEXTS, WORDS } from '../object-parts.js'

/** The members other than apiVersion, kind and metadata, by resource. */
export const makers: Readonly<Record<string, Make>> = {
  certificates: (random, index) => {
    const version = index % 3 === 0 ? 'v1alpha1' : 'v1'
    const spec = [
      `"secretName":"${random.pick(WORDS)}-tls"`,
      ...(random.chance(0.3) ? [`"duration":"${random.pick(['1h', '48h'])}"`] : []),
      ...(random.chance(0.5) ? [`"dnsNames":["${random.pick(WORDS)}.example.com","*.example.com"]`] : []),
      ...(version === 'v1' && random.chance(0.4) ? [`"revisionHistoryLimit":${random.pick(INTEGERS)}`] : []),
      ...(version === 'v1' && random.chance(0.4)
        ? ['"usages":[{"name":"server auth"},{"name":"client auth","critical":true}]']
        : []),
      ...(version === 'v1' && random.chance(0.6) ? [`"issuerRef":{"name":"${random.pick(WORDS)}"}`] : []),
      ...(random.chance(0.2) ? ['"unknown":{"field":1}'] : []),
    ]
    const status = random.chance(0.6) ? { status: `{"status":{"conditions":${conditions(random)}}}` } : {}
    return { version, rest: `"spec":{${spec.join(',')}}`, ...status }
  },
  gateways: (random) => {
    const listeners = random
      .some(['http', 'https', 'admin'], 1 + random.below(3))
      .map((name) => `{"name":"${name}","port":${1 + random.below(65_535)}}`)
    const spec = [
      `"className":"${random.pick(WORDS)}"`,
      `"listeners":[${listeners.join(',')}]`,
      ...(random.chance(0.3) ? [`"infrastructure":{"any":${random.pick(FLOATS)},"deep":{"x":null}}`] : []),
    ]
    const addresses = `[{"type":"IPAddress","value":"10.0.0.${random.below(255)}"}]`
    return {
      version: 'v1beta1',
      rest: `"spec":{${spec.join(',')}}`,
      ...(random.chance(0.5) ? { status: `{"status":{"addresses":${addresses}}}` } : {}),
    }
  },
  rollouts: (random) => {
    const spec = [
      ...(random.chance(0.7) ? [`"replicas":${random.below(9)}`] : []),
      ...(random.chance(0.5) ? [`"paused":${random.chance(0.5)}`] : []),
      ...(random.chance(0.5) ? [`"maxSurge":${random.pick(['1', '"30%"'])}`] : []),
      `"template":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"t","labels":{"app":"web"}},"spec":{"containers":[{"name":"c","ports":[{"containerPort":80}]}]}}`,
      ...(random.chance(0.3) ? ['"strategy":{"canary":{"steps":[{"setWeight":20},{"pause":{}}]}}'] : []),
    ]
    const status = `{"status":{"replicas":${random.below(9)},"selector":"app=${random.pick(WORDS)}","phase":"${random.pick(['Healthy', 'Degraded', 'Paused'])}"}}`
    return { version: 'v1', rest: `"spec":{${spec.join(',')}}`, ...(random.chance(0.7) ? { status } : {}) }
  },
  samples: (random) => {
    const items = ['one', 'two', 'three'].map(
      (name) =>
        `{"name":"${name}","size":${random.pick(['1', '2', '3', '4', '9007199254740993', '2.5', '"5"'])}${random.chance(0.4) ? ',"extra":{}' : ''}}`,
    )
    const members: Readonly<Record<string, string>> = {
      integer: random.pick([...INTEGERS, '1.0', '2.5', '"7"']),
      small: random.pick(INTEGERS),
      float: random.pick(FLOATS),
      double: random.pick([...FLOATS, ...INTEGERS]),
      flag: random.pick(['true', 'false', 'null', '"true"']),
      text: `"${random.pick(TEXTS)}"`,
      bytes: '"aGVsbG8="',
      password: '"secret"',
      moment: random.pick([
        '"2020-02-29T12:00:00Z"',
        '"2026-01-01T00:00:00.123456Z"',
        '"tomorrow"',
        '"2199-01-01T00:00:00Z"',
        '12',
        'null',
      ]),
      list: random.pick(['["a","b","c"]', '[]', '[1,2.5,9007199254740993,true,null]', '[{"name":"x","n":1},["y"]]']),
      map: random.pick(['{"a.b":"dotted","c":{"d":[1,2]}}', '{}', '{"z":1,"a":"<&>"}']),
      items: `[${items.join(',')}]`,
      nothing: 'null',
    }
    const spec = random.some(Object.keys(members), 13 - random.below(6)).map((name) => `"${name}":${members[name]}`)
    return { version: 'v1', rest: `"spec":{${spec.join(',')}}` }
  },
  records: (random) => {
    const spec = [
      `"tier":"${random.pick(['gold', 'silver', 'none'])}"`,
      `"n":${random.pick(INTEGERS)}`,
      `"f":${random.pick(FLOATS)}`,
      `"text":"${random.pick(TEXTS)}"`,
    ]
    const more: Record<string, string> = {}
    if (random.chance(0.3)) more['finalizers'] = '["example.com/cleanup"]'
    if (random.chance(0.3)) more['ownerReferences'] = owner(random)
    const rest = [
      `"spec":{${spec.join(',')},"nested":{"empty":{},"none":[],"null":null,"list":[1,[2,[3]]]}}`,
      `"data":{"k":"${random.pick(TEXTS)}"}`,
    ]
    if (random.chance(0.1)) rest.push('"topLevel":true', `"status":"${random.pick(TEXTS)}"`)
    return { version: 'v1', metadata: more, rest: rest.join(',') }
  },
  zones: (random, index) => {
    const version = index % 2 === 0 ? 'v1beta1' : 'v1'
    const spec = [
      ...(random.chance(0.8) ? [`"region":"${random.pick(WORDS)}"`] : []),
      `"weight":${random.pick(INTEGERS)}`,
      ...(version === 'v1' ? ['"quota":{"memory":"2Gi"}'] : [`"limits":{"cpu":${random.below(9)}}`]),
    ]
    return { version, rest: `"spec":{${spec.join(',')}}` }
  },
  hooks: (random) => ({ version: 'v1', rest: `"spec":{"n":${random.below(9)}}` }),
}

/** How many of each; records are the resource with hundreds. */
export const counts: Readonly<Record<string, number>> = {
  certificates: 40,
  gateways: 16,
  rollouts: 24,
  samples: 40,
  records: 300,
  zones: 14,
  hooks: 0,
}

/** Returns objects with fields that are no longer in the definition, and objects that only another encoder writes. */
function storedObjects(): readonly Stored[] {
  const certificate = (name: string, version: string, rest: string): Stored => ({
    key: `pki.example.com/certificates/default/${name}`,
    value: `{"apiVersion":"pki.example.com/${version}","kind":"Certificate","metadata":{"name":"${name}","namespace":"default","uid":"uid-${name}","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"web"}},${rest}}\n`,
  })
  const zone = (name: string, version: string, rest: string): Stored => ({
    key: `data.example.com/zones/${name}`,
    value: `{"apiVersion":"data.example.com/${version}","kind":"Zone","metadata":{"name":"${name}","uid":"uid-${name}","generation":3,"creationTimestamp":"2026-01-01T00:00:00Z"},${rest}}\n`,
  })
  let shapesMade = 0
  const shape = (spec: string, version = 'v1', more = '"generation":1'): Stored => {
    const name = `shape-${shapesMade++}`
    const metadata = `{"name":"${name}","uid":"uid-${name}","creationTimestamp":"2026-01-01T00:00:00Z",${more}}`
    return {
      key: `shape.example.com/shapes/${name}`,
      value: `{"apiVersion":"shape.example.com/${version}","kind":"Shape","metadata":${metadata}${spec === '' ? '' : `,"spec":${spec}`}}\n`,
    }
  }
  const hook = (name: string, version: string): Stored => ({
    key: `conv.example.com/hooks/default/${name}`,
    value: `{"apiVersion":"conv.example.com/${version}","kind":"Hook","metadata":{"name":"${name}","namespace":"default","uid":"uid-${name}","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"n":1}}\n`,
  })
  return [
    certificate('by-hand-old', 'v1alpha1', '"spec":{"secretName":"old","legacy":false}'),
    certificate(
      'by-hand-unpruned',
      'v1',
      '"spec":{"secretName":"s","gone":{"x":1},"privateKey":{"size":4096,"gone":1}},"gone":true',
    ),
    certificate(
      'by-hand-nulls',
      'v1',
      '"spec":{"secretName":"s","duration":null,"privateKey":null,"issuerRef":{"kind":null}}',
    ),
    certificate('by-hand-empty', 'v1', '"spec":{}'),
    certificate('by-hand-bare', 'v1', '"status":{}'),
    certificate('by-hand-wrong-types', 'v1', '"spec":{"secretName":5,"dnsNames":"one","privateKey":[]}'),
    zone('by-hand-new', 'v1', '"spec":{"region":null,"quota":{},"tags":["x"]}'),
    zone('by-hand-bare', 'v1beta1', '"spec":{"note":null,"limits":{"a":1,"b":9223372036854775807},"tags":null}'),
    zone('by-hand-spaces', 'v1beta1', ' "spec" : { "region" : "wide" , "weight" : 1.0 }'),
    shape(''),
    shape('{}'),
    shape('null'),
    shape('"text"'),
    shape('[1]'),
    shape('{"port":null,"ratio":null,"count":null,"name":null,"maybe":null,"words":null,"made":null}'),
    shape('{"port":"http","ratio":2,"count":9223372036854775807,"name":"whole","extra":1}'),
    shape('{"anything":{"a":1,"b":{"c":2},"d":[{"e":3}],"f":null}}'),
    shape('{"texts":{"a":"x","b":null,"c":{"d":1}},"counts":{"a":null,"b":2},"nested":{"a":{},"b":null,"c":{"x":1}}}'),
    shape('{"items":[{"name":"a"},{"weight":null},null,{"x":1},7],"numbers":[1,null],"words":["a",null]}'),
    shape('{"matrix":[[{"x":1,"y":2},[{"x":1}]],[],{"x":1},null]}'),
    shape('{"open":{"x":{"y":1},"closed":{"z":1},"list":[{"b":"","c":1}],"n":null}}'),
    shape('{"open":null,"template":null,"templates":null,"items":null,"nested":null}'),
    shape(
      '{"template":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"b"},"x":1},"spec":{"a":"","b":1},"y":2}}',
    ),
    shape('{"template":{"apiVersion":1,"kind":null,"metadata":{"labels":{"a":1},"name":"p"},"spec":null}}'),
    shape('{"template":{"metadata":{"creationTimestamp":null,"annotations":{},"generation":0,"name":""}}}'),
    shape('{"templates":[{"apiVersion":"v1","spec":{"gone":1}},{"metadata":{"uid":5}}]}'),
    shape('{"made":{"deep":{"er":null,"x":1}},"name":"nulls inside"}'),
    shape('{"name":"by beta","count":1,"maybe":null,"texts":{"a":"b"},"port":1}', 'v1beta1'),
    shape('{}', 'v1beta1'),
    shape('{"name":5,"count":1.5,"words":"one","items":{},"nested":[]}'),
    shape('{"name":"no generation"}', 'v1', '"x":1'),
    shape(
      '{"name":"odd metadata"}',
      'v1',
      '"generation":0,"labels":{"a":1},"annotations":{},"finalizers":[],"selfLink":""',
    ),
    shape('{"name":"owners"}', 'v1', '"generation":1,"labels":{"b":"c"},"ownerReferences":[{"name":"n","x":1}]'),
    shape(
      '{"name":"times"}',
      'v1',
      '"generation":1,"deletionGracePeriodSeconds":null,"managedFields":[{"manager":"m","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:a":{}},"x":1}]',
    ),
    shape('{"ratio":1.0,"count":1e3,"counts":{"big":9007199254740993},"gone":true}'),
    hook('by-hand-v1', 'v1'),
  ]
}

export const stored = storedObjects()

/** Values worth selecting by. */
export const values: Readonly<Record<string, readonly string[]>> = {
  'spec.secretName': ['web-tls', 'api-tls', 's', ''],
  'spec.issuerRef.kind': ['Issuer', '', 'ClusterIssuer'],
  'spec.className': ['web', 'standard', ''],
  'spec.paused': ['true', 'false', ''],
  'spec.replicas': ['0', '1', '3', '', '1.0'],
  'status.phase': ['Healthy', 'Paused', ''],
  'spec.region': ['web', 'anywhere', '', 'wide'],
  'spec.note': ['none', 'some', ''],
  'spec.quota.cpu': ['4', '', '2'],
}
