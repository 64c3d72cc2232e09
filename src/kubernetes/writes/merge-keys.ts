/**
 * Which lists of the built-in kinds are merged by what: the data of `shape.ts`, by message and field.
 *
 * Made by `test/support/generate-merge-keys.ts`; do not edit. Read off the published proto files of
 * - kubernetes/api@10b39a39bcee995dfe7cd5e8e7b922be5e46f1e2
 * - kubernetes/apimachinery@eed236ceee2c19c2753a3d93ac0631dc20750454
 * - kubernetes/apiextensions-apiserver@1aa2717a552ee6ca1e2a18f1f8ffccde981db923
 * - kubernetes/kube-aggregator@232ca687ab24bc9f9a378cba74716b5f7d6b82eb
 * (Apache-2.0, The Kubernetes Authors.)
 *
 * `@` a package, then one line a message; `!` after its name: applied as a whole. A field's list is a set (`s`) or is
 * known by keys (`k(name)`); `p` it is merged by a strategic patch, `p(name)` by that key, `r` keeps only the keys given.
 */
export const MERGE_KEYS = `
@ k8s.io.api.admissionregistration.v1
MatchResources!
MutatingAdmissionPolicySpec matchConditions=k(name)p(name)
MutatingWebhook matchConditions=k(name)p(name)
MutatingWebhookConfiguration Webhooks=k(name)p(name)
NamedRuleWithOperations!
ParamKind!
ParamRef!
ValidatingAdmissionPolicyBindingSpec validationActions=s
ValidatingAdmissionPolicySpec matchConditions=k(name)p(name) variables=k(name)p(name)
ValidatingAdmissionPolicyStatus conditions=k(type)
ValidatingWebhook matchConditions=k(name)p(name)
ValidatingWebhookConfiguration Webhooks=k(name)p(name)
Variable!
@ k8s.io.api.admissionregistration.v1alpha1
MatchResources!
MutatingAdmissionPolicySpec matchConditions=k(name)p(name)
NamedRuleWithOperations!
ParamKind!
ParamRef!
ValidatingAdmissionPolicyBindingSpec validationActions=s
ValidatingAdmissionPolicySpec matchConditions=k(name)p(name) variables=k(name)p(name)
ValidatingAdmissionPolicyStatus conditions=k(type)
@ k8s.io.api.admissionregistration.v1beta1
MatchResources!
MutatingAdmissionPolicySpec matchConditions=k(name)p(name)
MutatingWebhook matchConditions=k(name)p(name)
MutatingWebhookConfiguration Webhooks=k(name)p(name)
NamedRuleWithOperations!
ParamKind!
ParamRef!
ValidatingAdmissionPolicyBindingSpec validationActions=s
ValidatingAdmissionPolicySpec matchConditions=k(name)p(name) variables=k(name)p(name)
ValidatingAdmissionPolicyStatus conditions=k(type)
ValidatingWebhook matchConditions=k(name)p(name)
ValidatingWebhookConfiguration Webhooks=k(name)p(name)
Variable!
@ k8s.io.api.apidiscovery.v2
APIGroupDiscovery versions=k(version)
APIResourceDiscovery verbs=s shortNames=s categories=s subresources=k(subresource)
APISubresourceDiscovery acceptedTypes=k(group,version,kind) verbs=s
APIVersionDiscovery resources=k(resource)
@ k8s.io.api.apidiscovery.v2beta1
APIGroupDiscovery versions=k(version)
APIResourceDiscovery verbs=s shortNames=s categories=s subresources=k(subresource)
APISubresourceDiscovery acceptedTypes=k(group,version,kind) verbs=s
APIVersionDiscovery resources=k(resource)
@ k8s.io.api.apiserverinternal.v1alpha1
ServerStorageVersion decodableVersions=s servedVersions=s
StorageVersionStatus storageVersions=k(apiServerID) conditions=k(type)
@ k8s.io.api.apps.v1
DaemonSetStatus conditions=k(type)p(type)
DeploymentSpec strategy=r
DeploymentStatus conditions=k(type)p(type)
ReplicaSetStatus conditions=k(type)p(type)
StatefulSetStatus conditions=k(type)p(type)
@ k8s.io.api.apps.v1beta1
DeploymentSpec strategy=r
DeploymentStatus conditions=k(type)p(type)
StatefulSetStatus conditions=k(type)p(type)
@ k8s.io.api.apps.v1beta2
DaemonSetStatus conditions=k(type)p(type)
DeploymentSpec strategy=r
DeploymentStatus conditions=k(type)p(type)
ReplicaSetStatus conditions=k(type)p(type)
ScaleStatus selector=!
StatefulSetStatus conditions=k(type)p(type)
@ k8s.io.api.autoscaling.v1
CrossVersionObjectReference!
@ k8s.io.api.autoscaling.v2
HorizontalPodAutoscalerStatus conditions=k(type)p(type)
@ k8s.io.api.batch.v1
JobSchedulingConfiguration resourceClaims=k(name)p(name)
JobStatus conditions=p(type)
PodFailurePolicyOnExitCodesRequirement values=s
UncountedTerminatedPods succeeded=s failed=s
@ k8s.io.api.certificates.v1
CertificateSigningRequestStatus conditions=k(type)
PodCertificateRequestStatus conditions=k(type)p(type)
@ k8s.io.api.certificates.v1beta1
CertificateSigningRequestStatus conditions=k(type)
PodCertificateRequestStatus conditions=k(type)p(type)
@ k8s.io.api.core.v1
ComponentStatus conditions=k(type)p(type)
ConfigMapKeySelector!
Container ports=k(containerPort,protocol)p(containerPort) env=k(name)p(name) volumeMounts=k(mountPath)p(mountPath) volumeDevices=k(devicePath)p(devicePath)
ContainerRestartRuleOnExitCodes values=s
ContainerStatus volumeMounts=k(mountPath)p(mountPath) allocatedResourcesStatus=k(name)p(name)
EndpointAddress!
EndpointPort!
EphemeralContainerCommon ports=k(containerPort,protocol)p(containerPort) env=k(name)p(name) volumeMounts=k(mountPath)p(mountPath) volumeDevices=k(devicePath)p(devicePath)
EvictionResponder!
FileKeySelector!
LocalObjectReference!
NamespaceStatus conditions=k(type)p(type)
NodeAllocatableResourceClaimStatus containers=s mapping=k(name)p(name) overhead=k(name)p(name)
NodePodPreemptionPolicy disableResizePreemption=s
NodeSelector!
NodeSelectorTerm!
NodeSpec podCIDRs=sp
NodeStatus conditions=k(type)p(type) addresses=k(type)p(type)
ObjectFieldSelector!
ObjectReference!
PersistentVolumeClaimStatus conditions=k(type)p(type)
PodSpec volumes=k(name)p(name)r initContainers=k(name)p(name) containers=k(name)p(name) ephemeralContainers=k(name)p(name) nodeSelector=! imagePullSecrets=k(name)p(name) hostAliases=k(ip)p(ip) topologySpreadConstraints=k(topologyKey,whenUnsatisfiable)p(topologyKey) schedulingGates=k(name)p(name) resourceClaims=k(name)p(name)r evictionResponders=k(name)p(name)
PodStatus conditions=k(type)p(type) hostIPs=p(ip) podIPs=k(ip)p(ip) resourceClaimStatuses=k(name)p(name)r nodeAllocatableResourceClaimStatuses=k(resourceClaimName)p(resourceClaimName) volumeHealth=k(name)
PodVolumeHealth healthConditions=k(status,reason)p(status)
ReplicationControllerSpec selector=!
ReplicationControllerStatus conditions=k(type)p(type)
ResourceFieldSelector!
ResourceRequirements claims=k(name)
ResourceStatus resources=k(resourceID)
ScopeSelector!
SecretKeySelector!
SecretReference!
ServiceAccount secrets=k(name)p(name)
ServiceSpec ports=k(port,protocol)p(port) selector=!
ServiceStatus conditions=k(type)p(type)
TopologySelectorTerm!
TypedLocalObjectReference!
VolumeHealthStatus healthConditions=k(status,reason)p(status)
VolumeMount bindMountOptions=s
@ k8s.io.api.discovery.v1
Endpoint addresses=s
EndpointPort!
@ k8s.io.api.discovery.v1beta1
Endpoint addresses=s
@ k8s.io.api.extensions.v1beta1
DaemonSetStatus conditions=k(type)p(type)
DeploymentSpec strategy=r
DeploymentStatus conditions=k(type)p(type)
ReplicaSetStatus conditions=k(type)p(type)
ScaleStatus selector=!
@ k8s.io.api.flowcontrol.v1
FlowSchemaStatus conditions=k(type)p(type)
NonResourcePolicyRule verbs=s nonResourceURLs=s
PriorityLevelConfigurationStatus conditions=k(type)p(type)
ResourcePolicyRule verbs=s apiGroups=s resources=s namespaces=s
@ k8s.io.api.flowcontrol.v1beta1
FlowSchemaStatus conditions=k(type)
NonResourcePolicyRule verbs=s nonResourceURLs=s
PriorityLevelConfigurationStatus conditions=k(type)
ResourcePolicyRule verbs=s apiGroups=s resources=s namespaces=s
@ k8s.io.api.flowcontrol.v1beta2
FlowSchemaStatus conditions=k(type)
NonResourcePolicyRule verbs=s nonResourceURLs=s
PriorityLevelConfigurationStatus conditions=k(type)
ResourcePolicyRule verbs=s apiGroups=s resources=s namespaces=s
@ k8s.io.api.flowcontrol.v1beta3
FlowSchemaStatus conditions=k(type)p(type)
NonResourcePolicyRule verbs=s nonResourceURLs=s
PriorityLevelConfigurationStatus conditions=k(type)p(type)
ResourcePolicyRule verbs=s apiGroups=s resources=s namespaces=s
@ k8s.io.api.lifecycle.v1alpha1
EvictionRequestStatus conditions=k(type)p(type)
EvictionStatus conditions=k(type)p(type) requesters=k(name)p(name) targetResponders=k(name)p(name) responders=k(name)p(name)
Requester!
TargetResponder!
@ k8s.io.api.networking.v1
ServiceBackendPort!
ServiceCIDRStatus conditions=k(type)p(type)
@ k8s.io.api.networking.v1beta1
ServiceCIDRStatus conditions=k(type)p(type)
@ k8s.io.api.node.v1
Scheduling nodeSelector=!
@ k8s.io.api.node.v1alpha1
Scheduling nodeSelector=!
@ k8s.io.api.node.v1beta1
Scheduling nodeSelector=!
@ k8s.io.api.policy.v1
PodDisruptionBudgetStatus conditions=k(type)p(type)
@ k8s.io.api.policy.v1beta1
PodDisruptionBudgetStatus conditions=k(type)p(type)
@ k8s.io.api.rbac.v1
RoleRef!
Subject!
@ k8s.io.api.resource.v1
AllocatedDeviceStatus conditions=k(type)
DeviceRequestAllocationResult skipNodeOperations=s
DeviceTaintRuleStatus conditions=k(type)p(type)
ResourceClaimStatus reservedFor=k(uid)p(uid) devices=k(driver,device,pool,shareID)
ResourceSliceSpec skipNodeOperations=s
@ k8s.io.api.resource.v1alpha3
DeviceTaintRuleStatus conditions=k(type)p(type)
ResourcePoolStatusRequestStatus conditions=k(type)p(type)
@ k8s.io.api.resource.v1beta1
AllocatedDeviceStatus conditions=k(type)
DeviceRequestAllocationResult skipNodeOperations=s
ResourceClaimStatus reservedFor=k(uid)p(uid) devices=k(driver,device,pool,shareID)
ResourceSliceSpec skipNodeOperations=s
@ k8s.io.api.resource.v1beta2
AllocatedDeviceStatus conditions=k(type)
DeviceRequestAllocationResult skipNodeOperations=s
DeviceTaintRuleStatus conditions=k(type)p(type)
ResourceClaimStatus reservedFor=k(uid)p(uid) devices=k(driver,device,pool,shareID)
ResourceSliceSpec skipNodeOperations=s
@ k8s.io.api.scheduling.v1alpha3
CompositePodGroupStatus conditions=k(type)p(type)
CompositePodGroupTemplate podGroupTemplates=k(name) compositePodGroupTemplates=k(name)
PodGroupSpec resourceClaims=k(name)p(name)r
PodGroupStatus conditions=k(type)p(type) resourceClaimStatuses=k(name)p(name)r
PodGroupTemplate resourceClaims=k(name)p(name)r
WorkloadSpec podGroupTemplates=k(name) compositePodGroupTemplates=k(name)
@ k8s.io.api.scheduling.v1beta1
CompositePodGroupTemplate podGroupTemplates=k(name) compositePodGroupTemplates=k(name)
PodGroupSpec resourceClaims=k(name)p(name)r
PodGroupStatus conditions=k(type)p(type) resourceClaimStatuses=k(name)p(name)r
PodGroupTemplate resourceClaims=k(name)p(name)r
WorkloadSpec podGroupTemplates=k(name) compositePodGroupTemplates=k(name)
@ k8s.io.api.storage.v1
CSIDriverSpec volumeLifecycleModes=s
CSINodeSpec drivers=k(name)p(name)
CSINodeStatus storageHealth=k(name)p(name)
@ k8s.io.api.storage.v1beta1
CSINodeSpec drivers=k(name)p(name)
CSINodeStatus storageHealth=k(name)p(name)
@ k8s.io.api.storagemigration.v1
StorageVersionMigrationStatus conditions=k(type)p(type)
@ k8s.io.api.storagemigration.v1beta1
StorageVersionMigrationStatus conditions=k(type)p(type)
@ k8s.io.apimachinery.pkg.apis.meta.v1
LabelSelector!
ObjectMeta ownerReferences=k(uid)p(uid) finalizers=sp
OwnerReference!
@ k8s.io.apimachinery.pkg.apis.testapigroup.v1
CarpStatus conditions=k(type)p(type) infos=k(a,b,c)
@ k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1
CustomResourceDefinitionStatus conditions=k(type)
JSONSchemaProps xKubernetesValidations=k(rule)p(rule)
@ k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1beta1
CustomResourceDefinitionStatus conditions=k(type)
JSONSchemaProps xKubernetesValidations=k(rule)p(rule)
@ k8s.io.kube_aggregator.pkg.apis.apiregistration.v1
APIServiceStatus conditions=k(type)p(type)
@ k8s.io.kube_aggregator.pkg.apis.apiregistration.v1beta1
APIServiceStatus conditions=k(type)p(type)
`
