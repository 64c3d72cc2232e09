/** kubectl reads objects with as few fields as allowed. Without the API server's defaults it panics on most of them. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { startApp } from '../support/app.js'
import { kubectlBinary } from '../support/kubectl.js'

const pods = `
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: web}]}}`

const MANIFESTS = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: ${pods}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec: ${pods}
  serviceName: web
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec: ${pods}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web}
spec: ${pods}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: web}
spec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: web}]}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {a: b}, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 80}]
endpoints: [{addresses: [10.0.0.1]}]
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: web}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: web}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: web}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: web}
spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: web}]}}}}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 10
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: example.com/fast
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: web}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: web}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /x}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web}
spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: web}
roleRef: {kind: Role, name: web}
subjects: [{kind: User, name: ann}]
---
apiVersion: v1
kind: Secret
metadata: {name: web}
stringData: {a: b}
---
apiVersion: v1
kind: LimitRange
metadata: {name: web}
spec: {limits: [{type: Container, max: {cpu: "1"}}]}
`

const LOOKS: readonly (readonly [args: string, out: RegExp])[] = [
  ['describe deploy web', /1 desired[^]*25% max unavailable, 25% max surge/],
  ['describe sts web', /Replicas: +1 desired[^]*Update Strategy: +RollingUpdate/],
  ['describe ds web', /Pods Status/],
  ['describe rs web', /0 current \/ 1 desired/],
  ['describe rc web', /0 current \/ 1 desired/],
  ['describe svc web', /Session Affinity: +None/],
  ['describe endpointslice web-1', /80 +TCP/],
  ['describe pod web', /Status: +Pending/],
  ['describe job web', /Parallelism: +1/],
  ['describe priorityclass high', /PreemptionPolicy: +PreemptLowerPriority|Value: +10/],
  ['describe sc fast', /ReclaimPolicy: +Delete/],
  ['describe pvc web', /VolumeMode: +Filesystem/],
  ['describe pv web', /Reclaim Policy: +Retain/],
  ['describe netpol web', /Policy Types: Ingress/],
  ['describe rolebinding web', /User +ann/],
  ['describe secret web', /Type: +Opaque/],
  ['describe limits web', /Container +cpu +- +1 +1 +1/],
  ['rollout status ds web --watch=false', /Waiting|successfully rolled out/],
  ['rollout status sts web --watch=false', /Waiting/],
  ['rollout status deploy web --watch=false', /Waiting/],
  ['get all', /deployment.apps\/web +0\/1/],
  ['get pdb,pvc,pv,sc,netpol -o wide', /fast +example.com\/fast +Delete +Immediate/],
  ['get secret web -o jsonpath={.type}', /^Opaque$/],
]

const REFUSED: readonly (readonly [args: string, out: RegExp])[] = [
  ['logs web', /log of pods "web" is not served here: the kubelet of its node/],
  ['exec web -- ls', /exec of pods "web" is not served here/],
  ['port-forward pod/web 18080:80', /pod is not running/],
]

void t.test('kubectl shows minimal objects', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes', '--resource=secrets'] })
  const home = mkdtempSync(join(tmpdir(), 'kubectl-minimal-'))
  t.teardown(() => rmSync(home, { recursive: true, force: true }))
  const env = { ...process.env, HOME: home, KUBECONFIG: join(home, 'none'), KUBECACHEDIR: join(home, 'cache') }
  const kubectl = async (args: readonly string[], input = ''): Promise<{ code: number; text: string }> =>
    await new Promise((resolve) => {
      const child = execFile(
        kubectlBinary,
        ['-s', h.url, ...args],
        { env, timeout: 120_000 },
        (error, stdout, stderr) => {
          resolve({ code: error === null ? 0 : Number(error.code ?? 1), text: stdout + stderr })
        },
      )
      child.stdin?.end(input)
    })
  const made = await kubectl(['apply', '--validate=false', '-f', '-'], MANIFESTS)
  t.equal(made.code, 0, made.text)
  const versions = 'get deploy,sts,svc,netpol,endpointslice -o jsonpath={.items[*].metadata.resourceVersion}'.split(' ')
  const before = await kubectl(versions)
  const again = await kubectl(['apply', '--validate=false', '-f', '-'], MANIFESTS)
  t.equal(again.code, 0, again.text)
  t.match(again.text, /deployment.apps\/web unchanged/)
  t.equal((await kubectl(versions)).text, before.text, 'applied again, nothing is written')
  for (const [args, out] of LOOKS) {
    const said = await kubectl(args.split(' '))
    t.equal(said.code, 0, `kubectl ${args}\n${said.text.slice(0, 600)}`)
    t.match(said.text, out, `kubectl ${args}`)
    t.notMatch(said.text, /panic|SIGSEGV|nil pointer/, `kubectl ${args}`)
  }
  for (const [args, out] of REFUSED) {
    const said = await kubectl(args.split(' '))
    t.equal(said.code, 1, `kubectl ${args}`)
    t.match(said.text, out, `kubectl ${args}`)
  }
})
