/**
 * The messages of the Kubernetes API as a table: the data of `schema.ts`, which documents its notation.
 *
 * Made by `test/support/generate-kubernetes-schema.ts`; do not edit. Read off the published proto files and json tags
 * of
 * - kubernetes/api: 10b39a39bcee995dfe7cd5e8e7b922be5e46f1e2 v0.36.0 v0.35.0 v0.34.0 v0.33.0 v0.32.0 v0.31.0 v0.30.0
 * v0.29.0 v0.28.0 v0.27.0 v0.26.0 v0.25.0 v0.24.0 v0.23.0 v0.22.0 v0.21.0 v0.20.0 v0.19.0 v0.18.0 v0.17.0 v0.16.4
 * - kubernetes/apimachinery: eed236ceee2c19c2753a3d93ac0631dc20750454 v0.36.0 v0.35.0 v0.34.0 v0.33.0 v0.32.0 v0.31.0
 * v0.30.0 v0.29.0 v0.28.0 v0.27.0 v0.26.0 v0.25.0 v0.24.0 v0.23.0 v0.22.0 v0.21.0 v0.20.0 v0.19.0 v0.18.0 v0.17.0
 * v0.16.4
 * - kubernetes/apiextensions-apiserver: 1aa2717a552ee6ca1e2a18f1f8ffccde981db923
 * - kubernetes/kube-aggregator: 232ca687ab24bc9f9a378cba74716b5f7d6b82eb the newest first; the older ones add what has
 * been removed since, and show what is younger than they are. (Apache-2.0, The Kubernetes Authors.)
 */
export const KUBERNETES_SCHEMA = `
= m k8s.io.apimachinery.pkg.apis.meta.v1
= c k8s.io.api.core.v1
@ k8s.io.api.admission.v1 admission.k8s.io/v1
AdmissionRequest uid:1:string kind:2:m/GroupVersionKind resource:3:m/GroupVersionResource subResource?:4:string requestKind?:13:*m/GroupVersionKind requestResource?:14:*m/GroupVersionResource requestSubResource?:15:string name?:5:string namespace?:6:string operation:7:string userInfo:8:k8s.io.api.authentication.v1/UserInfo object?:9:json oldObject?:10:json dryRun?:11:*bool options?:12:json
AdmissionResponse uid:1:string allowed:2:bool status?:3:*m/Status patch?:4:bytes patchType?:5:*string auditAnnotations?:6:{}string warnings?:7:[]string
AdmissionReview* request?:1:*AdmissionRequest response?:2:*AdmissionResponse
@ k8s.io.api.admission.v1beta1 admission.k8s.io/v1beta1
AdmissionRequest uid:1:string kind:2:m/GroupVersionKind resource:3:m/GroupVersionResource subResource?:4:string requestKind?:13:*m/GroupVersionKind requestResource?:14:*m/GroupVersionResource requestSubResource?:15:string name?:5:string namespace?:6:string operation:7:string userInfo:8:k8s.io.api.authentication.v1/UserInfo object?:9:json oldObject?:10:json dryRun?:11:*bool options?:12:json
AdmissionResponse uid:1:string allowed:2:bool status?:3:*m/Status patch?:4:bytes patchType?:5:*string auditAnnotations?:6:{}string warnings?:7:[]string
AdmissionReview* request?:1:*AdmissionRequest response?:2:*AdmissionResponse
@ k8s.io.api.admissionregistration.v1 admissionregistration.k8s.io/v1
ApplyConfiguration expression?:1:string
AuditAnnotation key:1:string valueExpression:2:string
ExpressionWarning fieldRef:2:string warning:3:string
JSONPatch expression?:1:string
MatchCondition name:1:string expression:2:string
MatchResources namespaceSelector?:1:*m/LabelSelector objectSelector?:2:*m/LabelSelector resourceRules?:3:[]NamedRuleWithOperations excludeResourceRules?:4:[]NamedRuleWithOperations matchPolicy?:7:*string
MutatingAdmissionPolicy* metadata?:1:m/ObjectMeta spec?:2:MutatingAdmissionPolicySpec
MutatingAdmissionPolicyBinding* metadata?:1:m/ObjectMeta spec?:2:MutatingAdmissionPolicyBindingSpec
MutatingAdmissionPolicyBindingSpec policyName?:1:string paramRef?:2:*ParamRef matchResources?:3:*MatchResources
MutatingAdmissionPolicySpec paramKind?:1:*ParamKind matchConstraints?:2:*MatchResources variables?:3:[]Variable mutations?:4:[]Mutation failurePolicy?:5:*string matchConditions?:6:[]MatchCondition reinvocationPolicy?:7:string
MutatingWebhook name:1:string clientConfig:2:WebhookClientConfig rules?:3:[]RuleWithOperations failurePolicy?:4:*string matchPolicy?:9:*string namespaceSelector?:5:*m/LabelSelector objectSelector?:11:*m/LabelSelector sideEffects:6:*string timeoutSeconds?:7:*int32 admissionReviewVersions:8:[]string reinvocationPolicy?:10:*string matchConditions?:12:[]MatchCondition
MutatingWebhookConfiguration* metadata?:1:m/ObjectMeta webhooks?:2:[]MutatingWebhook
Mutation patchType:2:string applyConfiguration?:3:*ApplyConfiguration jsonPatch?:4:*JSONPatch
NamedRuleWithOperations resourceNames?:1:[]string :2:RuleWithOperations
ParamKind apiVersion?:1:string kind?:2:string
ParamRef name?:1:string namespace?:2:string selector?:3:*m/LabelSelector parameterNotFoundAction?:4:*string
Rule apiGroups?:1:[]string apiVersions?:2:[]string resources?:3:[]string scope?:4:*string
RuleWithOperations operations?:1:[]string :2:Rule
ServiceReference namespace:1:string name:2:string path?:3:*string port?:4:*int32
TypeChecking expressionWarnings?:1:[]ExpressionWarning
ValidatingAdmissionPolicy* metadata?:1:m/ObjectMeta spec?:2:ValidatingAdmissionPolicySpec status?:3:ValidatingAdmissionPolicyStatus
ValidatingAdmissionPolicyBinding* metadata?:1:m/ObjectMeta spec?:2:ValidatingAdmissionPolicyBindingSpec
ValidatingAdmissionPolicyBindingSpec policyName?:1:string paramRef?:2:*ParamRef matchResources?:3:*MatchResources validationActions?:4:[]string
ValidatingAdmissionPolicySpec paramKind?:1:*ParamKind matchConstraints?:2:*MatchResources validations?:3:[]Validation failurePolicy?:4:*string auditAnnotations?:5:[]AuditAnnotation matchConditions?:6:[]MatchCondition variables?:7:[]Variable
ValidatingAdmissionPolicyStatus observedGeneration?:1:int64 typeChecking?:2:*TypeChecking conditions?:3:[]m/Condition
ValidatingWebhook name:1:string clientConfig:2:WebhookClientConfig rules?:3:[]RuleWithOperations failurePolicy?:4:*string matchPolicy?:9:*string namespaceSelector?:5:*m/LabelSelector objectSelector?:10:*m/LabelSelector sideEffects:6:*string timeoutSeconds?:7:*int32 admissionReviewVersions:8:[]string matchConditions?:11:[]MatchCondition
ValidatingWebhookConfiguration* metadata?:1:m/ObjectMeta webhooks?:2:[]ValidatingWebhook
Validation expression:1:string message?:2:string reason?:3:*string messageExpression?:4:string
Variable name:1:string expression:2:string
WebhookClientConfig url?:3:*string service?:1:*ServiceReference caBundle?:2:bytes
@ k8s.io.api.admissionregistration.v1alpha1 admissionregistration.k8s.io/v1alpha1
ApplyConfiguration expression?:1:string
AuditAnnotation key:1:string valueExpression:2:string
ExpressionWarning fieldRef:2:string warning:3:string
JSONPatch expression?:1:string
MatchCondition name:1:string expression:2:string
MatchResources namespaceSelector?:1:*m/LabelSelector objectSelector?:2:*m/LabelSelector resourceRules?:3:[]NamedRuleWithOperations excludeResourceRules?:4:[]NamedRuleWithOperations matchPolicy?:7:*string
MutatingAdmissionPolicy* metadata?:1:m/ObjectMeta spec?:2:MutatingAdmissionPolicySpec
MutatingAdmissionPolicyBinding* metadata?:1:m/ObjectMeta spec?:2:MutatingAdmissionPolicyBindingSpec
MutatingAdmissionPolicyBindingSpec policyName?:1:string paramRef?:2:*ParamRef matchResources?:3:*MatchResources
MutatingAdmissionPolicySpec paramKind?:1:*ParamKind matchConstraints?:2:*MatchResources variables?:3:[]Variable mutations?:4:[]Mutation failurePolicy?:5:*string matchConditions?:6:[]MatchCondition reinvocationPolicy?:7:string
Mutation patchType:2:string applyConfiguration?:3:*ApplyConfiguration jsonPatch?:4:*JSONPatch
NamedRuleWithOperations resourceNames?:1:[]string :2:k8s.io.api.admissionregistration.v1/RuleWithOperations
ParamKind apiVersion?:1:string kind?:2:string
ParamRef name?:1:string namespace?:2:string selector?:3:*m/LabelSelector parameterNotFoundAction?:4:*string
TypeChecking expressionWarnings?:1:[]ExpressionWarning
ValidatingAdmissionPolicy* metadata?:1:m/ObjectMeta spec?:2:ValidatingAdmissionPolicySpec status?:3:*ValidatingAdmissionPolicyStatus
ValidatingAdmissionPolicyBinding* metadata?:1:m/ObjectMeta spec?:2:ValidatingAdmissionPolicyBindingSpec
ValidatingAdmissionPolicyBindingSpec policyName?:1:string paramRef?:2:*ParamRef matchResources?:3:*MatchResources validationActions?:4:[]string
ValidatingAdmissionPolicySpec paramKind?:1:*ParamKind matchConstraints?:2:*MatchResources validations?:3:[]Validation failurePolicy?:4:*string auditAnnotations?:5:[]AuditAnnotation matchConditions?:6:[]MatchCondition variables?:7:[]Variable
ValidatingAdmissionPolicyStatus observedGeneration?:1:int64 typeChecking?:2:*TypeChecking conditions?:3:[]m/Condition
Validation expression:1:string message?:2:string reason?:3:*string messageExpression?:4:string
Variable name:1:string expression:2:string
@ k8s.io.api.admissionregistration.v1beta1 admissionregistration.k8s.io/v1beta1
ApplyConfiguration expression?:1:string
AuditAnnotation key:1:string valueExpression:2:string
ExpressionWarning fieldRef:2:string warning:3:string
JSONPatch expression?:1:string
MatchCondition name:1:string expression:2:string
MatchResources namespaceSelector?:1:*m/LabelSelector objectSelector?:2:*m/LabelSelector resourceRules?:3:[]NamedRuleWithOperations excludeResourceRules?:4:[]NamedRuleWithOperations matchPolicy?:7:*string
MutatingAdmissionPolicy* metadata?:1:m/ObjectMeta spec?:2:MutatingAdmissionPolicySpec
MutatingAdmissionPolicyBinding* metadata?:1:m/ObjectMeta spec?:2:MutatingAdmissionPolicyBindingSpec
MutatingAdmissionPolicyBindingSpec policyName?:1:string paramRef?:2:*ParamRef matchResources?:3:*MatchResources
MutatingAdmissionPolicySpec paramKind?:1:*ParamKind matchConstraints?:2:*MatchResources variables?:3:[]Variable mutations?:4:[]Mutation failurePolicy?:5:*string matchConditions?:6:[]MatchCondition reinvocationPolicy?:7:string
MutatingWebhook name:1:string clientConfig:2:WebhookClientConfig rules?:3:[]k8s.io.api.admissionregistration.v1/RuleWithOperations failurePolicy?:4:*string matchPolicy?:9:*string namespaceSelector?:5:*m/LabelSelector objectSelector?:11:*m/LabelSelector sideEffects?:6:*string timeoutSeconds?:7:*int32 admissionReviewVersions?:8:[]string reinvocationPolicy?:10:*string matchConditions?:12:[]MatchCondition
MutatingWebhookConfiguration* metadata?:1:m/ObjectMeta webhooks?:2:[]MutatingWebhook
Mutation patchType:2:string applyConfiguration?:3:*ApplyConfiguration jsonPatch?:4:*JSONPatch
NamedRuleWithOperations resourceNames?:1:[]string :2:k8s.io.api.admissionregistration.v1/RuleWithOperations
ParamKind apiVersion?:1:string kind?:2:string
ParamRef name?:1:string namespace?:2:string selector?:3:*m/LabelSelector parameterNotFoundAction?:4:*string
ServiceReference namespace:1:string name:2:string path?:3:*string port?:4:*int32
TypeChecking expressionWarnings?:1:[]ExpressionWarning
ValidatingAdmissionPolicy* metadata?:1:m/ObjectMeta spec?:2:ValidatingAdmissionPolicySpec status?:3:ValidatingAdmissionPolicyStatus
ValidatingAdmissionPolicyBinding* metadata?:1:m/ObjectMeta spec?:2:ValidatingAdmissionPolicyBindingSpec
ValidatingAdmissionPolicyBindingSpec policyName?:1:string paramRef?:2:*ParamRef matchResources?:3:*MatchResources validationActions?:4:[]string
ValidatingAdmissionPolicySpec paramKind?:1:*ParamKind matchConstraints?:2:*MatchResources validations?:3:[]Validation failurePolicy?:4:*string auditAnnotations?:5:[]AuditAnnotation matchConditions?:6:[]MatchCondition variables?:7:[]Variable
ValidatingAdmissionPolicyStatus observedGeneration?:1:int64 typeChecking?:2:*TypeChecking conditions?:3:[]m/Condition
ValidatingWebhook name:1:string clientConfig:2:WebhookClientConfig rules?:3:[]k8s.io.api.admissionregistration.v1/RuleWithOperations failurePolicy?:4:*string matchPolicy?:9:*string namespaceSelector?:5:*m/LabelSelector objectSelector?:10:*m/LabelSelector sideEffects?:6:*string timeoutSeconds?:7:*int32 admissionReviewVersions?:8:[]string matchConditions?:11:[]MatchCondition
ValidatingWebhookConfiguration* metadata?:1:m/ObjectMeta webhooks?:2:[]ValidatingWebhook
Validation expression:1:string message?:2:string reason?:3:*string messageExpression?:4:string
Variable name:1:string expression:2:string
WebhookClientConfig url?:3:*string service?:1:*ServiceReference caBundle?:2:bytes
@ k8s.io.api.apidiscovery.v2 apidiscovery.k8s.io/v2
APIGroupDiscovery* metadata?:1:m/ObjectMeta versions?:2:[]APIVersionDiscovery
APIResourceDiscovery resource:1:string responseKind?:2:*m/GroupVersionKind scope:3:string singularResource:4:string verbs:5:[]string shortNames?:6:[]string categories?:7:[]string subresources?:8:[]APISubresourceDiscovery
APISubresourceDiscovery subresource:1:string responseKind?:2:*m/GroupVersionKind acceptedTypes?:3:[]m/GroupVersionKind verbs:4:[]string
APIVersionDiscovery version:1:string resources?:2:[]APIResourceDiscovery freshness?:3:string
@ k8s.io.api.apidiscovery.v2beta1 apidiscovery.k8s.io/v2beta1
APIGroupDiscovery* metadata?:1:m/ObjectMeta versions?:2:[]APIVersionDiscovery
APIResourceDiscovery resource:1:string responseKind?:2:*m/GroupVersionKind scope:3:string singularResource:4:string verbs:5:[]string shortNames?:6:[]string categories?:7:[]string subresources?:8:[]APISubresourceDiscovery
APISubresourceDiscovery subresource:1:string responseKind?:2:*m/GroupVersionKind acceptedTypes?:3:[]m/GroupVersionKind verbs:4:[]string
APIVersionDiscovery version:1:string resources?:2:[]APIResourceDiscovery freshness?:3:string
@ k8s.io.api.apiserverinternal.v1alpha1 internal.apiserver.k8s.io/v1alpha1
ServerStorageVersion apiServerID?:1:string encodingVersion?:2:string decodableVersions?:3:[]string servedVersions?:4:[]string
StorageVersion* metadata?:1:m/ObjectMeta spec:2:StorageVersionSpec status:3:StorageVersionStatus
StorageVersionCondition type:1:string status:2:string observedGeneration?:3:int64 lastTransitionTime?:4:time reason:5:string message?:6:string
StorageVersionSpec
StorageVersionStatus storageVersions?:1:[]ServerStorageVersion commonEncodingVersion?:2:*string conditions?:3:[]StorageVersionCondition
@ k8s.io.api.apps.v1 apps/v1
ControllerRevision* metadata?:1:m/ObjectMeta data:2:json revision:3:int64
DaemonSet* metadata?:1:m/ObjectMeta spec?:2:DaemonSetSpec status?:3:DaemonSetStatus
DaemonSetCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
DaemonSetSpec selector:1:*m/LabelSelector template:2:c/PodTemplateSpec updateStrategy?:3:DaemonSetUpdateStrategy minReadySeconds?:4:int32 revisionHistoryLimit?:6:*int32
DaemonSetStatus currentNumberScheduled:1:int32 numberMisscheduled:2:int32 desiredNumberScheduled:3:int32 numberReady:4:int32 observedGeneration?:5:int64 updatedNumberScheduled?:6:int32 numberAvailable?:7:int32 numberUnavailable?:8:int32 collisionCount?:9:*int32 conditions?:10:[]DaemonSetCondition
DaemonSetUpdateStrategy type?:1:string rollingUpdate?:2:*RollingUpdateDaemonSet
Deployment* metadata?:1:m/ObjectMeta spec?:2:DeploymentSpec status?:3:DeploymentStatus
DeploymentCondition type:1:string status:2:string lastUpdateTime?:6:time lastTransitionTime?:7:time reason?:4:string message?:5:string
DeploymentSpec replicas?:1:*int32 selector:2:*m/LabelSelector template:3:c/PodTemplateSpec strategy?:4:DeploymentStrategy minReadySeconds?:5:int32 revisionHistoryLimit?:6:*int32 paused?:7:bool progressDeadlineSeconds?:9:*int32
DeploymentStatus observedGeneration?:1:int64 replicas?:2:int32 updatedReplicas?:3:int32 readyReplicas?:7:int32 availableReplicas?:4:int32 unavailableReplicas?:5:int32 terminatingReplicas?:9:*int32 conditions?:6:[]DeploymentCondition collisionCount?:8:*int32
DeploymentStrategy type?:1:string rollingUpdate?:2:*RollingUpdateDeployment
ReplicaSet* metadata?:1:m/ObjectMeta spec?:2:ReplicaSetSpec status?:3:ReplicaSetStatus
ReplicaSetCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
ReplicaSetSpec replicas?:1:*int32 minReadySeconds?:4:int32 selector:2:*m/LabelSelector template?:3:c/PodTemplateSpec
ReplicaSetStatus replicas:1:int32 fullyLabeledReplicas?:2:int32 readyReplicas?:4:int32 availableReplicas?:5:int32 terminatingReplicas?:7:*int32 observedGeneration?:3:int64 conditions?:6:[]ReplicaSetCondition
RollingUpdateDaemonSet maxUnavailable?:1:*intorstring maxSurge?:2:*intorstring
RollingUpdateDeployment maxUnavailable?:1:*intorstring maxSurge?:2:*intorstring
RollingUpdateStatefulSetStrategy partition?:1:*int32 maxUnavailable?:2:*intorstring
StatefulSet* metadata?:1:m/ObjectMeta spec?:2:StatefulSetSpec status?:3:StatefulSetStatus
StatefulSetCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
StatefulSetOrdinals start:1:int32
StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted?:1:string whenScaled?:2:string
StatefulSetSpec replicas?:1:*int32 selector:2:*m/LabelSelector template:3:c/PodTemplateSpec volumeClaimTemplates?:4:[]c/PersistentVolumeClaim serviceName:5:string podManagementPolicy?:6:string updateStrategy?:7:StatefulSetUpdateStrategy revisionHistoryLimit?:8:*int32 minReadySeconds?:9:int32 persistentVolumeClaimRetentionPolicy?:10:*StatefulSetPersistentVolumeClaimRetentionPolicy ordinals?:11:*StatefulSetOrdinals
StatefulSetStatus observedGeneration?:1:int64 replicas:2:int32 readyReplicas?:3:int32 currentReplicas?:4:int32 updatedReplicas?:5:int32 currentRevision?:6:string updateRevision?:7:string collisionCount?:9:*int32 conditions?:10:[]StatefulSetCondition availableReplicas?:11:int32
StatefulSetUpdateStrategy type?:1:string rollingUpdate?:2:*RollingUpdateStatefulSetStrategy
@ k8s.io.api.apps.v1beta1 apps/v1beta1
ControllerRevision* metadata?:1:m/ObjectMeta data:2:json revision:3:int64
Deployment* metadata?:1:m/ObjectMeta spec?:2:DeploymentSpec status?:3:DeploymentStatus
DeploymentCondition type:1:string status:2:string lastUpdateTime?:6:time lastTransitionTime?:7:time reason?:4:string message?:5:string
DeploymentRollback* name:1:string updatedAnnotations?:2:{}string rollbackTo:3:RollbackConfig
DeploymentSpec replicas?:1:*int32 selector?:2:*m/LabelSelector template:3:c/PodTemplateSpec strategy?:4:DeploymentStrategy minReadySeconds?:5:int32 revisionHistoryLimit?:6:*int32 paused?:7:bool rollbackTo?:8:*RollbackConfig progressDeadlineSeconds?:9:*int32
DeploymentStatus observedGeneration?:1:int64 replicas?:2:int32 updatedReplicas?:3:int32 readyReplicas?:7:int32 availableReplicas?:4:int32 unavailableReplicas?:5:int32 terminatingReplicas?:9:*int32 conditions?:6:[]DeploymentCondition collisionCount?:8:*int32
DeploymentStrategy type?:1:string rollingUpdate?:2:*RollingUpdateDeployment
RollbackConfig revision?:1:int64
RollingUpdateDeployment maxUnavailable?:1:*intorstring maxSurge?:2:*intorstring
RollingUpdateStatefulSetStrategy partition?:1:*int32 maxUnavailable?:2:*intorstring
Scale* metadata?:1:m/ObjectMeta spec?:2:ScaleSpec status?:3:ScaleStatus
ScaleSpec replicas?:1:int32
ScaleStatus replicas:1:int32 selector?:2:{}string targetSelector?:3:string
StatefulSet* metadata?:1:m/ObjectMeta spec?:2:StatefulSetSpec status?:3:StatefulSetStatus
StatefulSetCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
StatefulSetOrdinals start:1:int32
StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted?:1:string whenScaled?:2:string
StatefulSetSpec replicas?:1:*int32 selector?:2:*m/LabelSelector template:3:c/PodTemplateSpec volumeClaimTemplates?:4:[]c/PersistentVolumeClaim serviceName:5:string podManagementPolicy?:6:string updateStrategy?:7:StatefulSetUpdateStrategy revisionHistoryLimit?:8:*int32 minReadySeconds?:9:int32 persistentVolumeClaimRetentionPolicy?:10:*StatefulSetPersistentVolumeClaimRetentionPolicy ordinals?:11:*StatefulSetOrdinals
StatefulSetStatus observedGeneration?:1:*int64 replicas:2:int32 readyReplicas?:3:int32 currentReplicas?:4:int32 updatedReplicas?:5:int32 currentRevision?:6:string updateRevision?:7:string collisionCount?:9:*int32 conditions?:10:[]StatefulSetCondition availableReplicas?:11:int32
StatefulSetUpdateStrategy type?:1:string rollingUpdate?:2:*RollingUpdateStatefulSetStrategy
@ k8s.io.api.apps.v1beta2 apps/v1beta2
ControllerRevision* metadata?:1:m/ObjectMeta data:2:json revision:3:int64
DaemonSet* metadata?:1:m/ObjectMeta spec?:2:DaemonSetSpec status?:3:DaemonSetStatus
DaemonSetCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
DaemonSetSpec selector:1:*m/LabelSelector template:2:c/PodTemplateSpec updateStrategy?:3:DaemonSetUpdateStrategy minReadySeconds?:4:int32 revisionHistoryLimit?:6:*int32
DaemonSetStatus currentNumberScheduled:1:int32 numberMisscheduled:2:int32 desiredNumberScheduled:3:int32 numberReady:4:int32 observedGeneration?:5:int64 updatedNumberScheduled?:6:int32 numberAvailable?:7:int32 numberUnavailable?:8:int32 collisionCount?:9:*int32 conditions?:10:[]DaemonSetCondition
DaemonSetUpdateStrategy type?:1:string rollingUpdate?:2:*RollingUpdateDaemonSet
Deployment* metadata?:1:m/ObjectMeta spec?:2:DeploymentSpec status?:3:DeploymentStatus
DeploymentCondition type:1:string status:2:string lastUpdateTime?:6:time lastTransitionTime?:7:time reason?:4:string message?:5:string
DeploymentSpec replicas?:1:*int32 selector:2:*m/LabelSelector template:3:c/PodTemplateSpec strategy?:4:DeploymentStrategy minReadySeconds?:5:int32 revisionHistoryLimit?:6:*int32 paused?:7:bool progressDeadlineSeconds?:9:*int32
DeploymentStatus observedGeneration?:1:int64 replicas?:2:int32 updatedReplicas?:3:int32 readyReplicas?:7:int32 availableReplicas?:4:int32 unavailableReplicas?:5:int32 terminatingReplicas?:9:*int32 conditions?:6:[]DeploymentCondition collisionCount?:8:*int32
DeploymentStrategy type?:1:string rollingUpdate?:2:*RollingUpdateDeployment
ReplicaSet* metadata?:1:m/ObjectMeta spec?:2:ReplicaSetSpec status?:3:ReplicaSetStatus
ReplicaSetCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
ReplicaSetSpec replicas?:1:*int32 minReadySeconds?:4:int32 selector:2:*m/LabelSelector template?:3:c/PodTemplateSpec
ReplicaSetStatus replicas:1:int32 fullyLabeledReplicas?:2:int32 readyReplicas?:4:int32 availableReplicas?:5:int32 terminatingReplicas?:7:*int32 observedGeneration?:3:int64 conditions?:6:[]ReplicaSetCondition
RollingUpdateDaemonSet maxUnavailable?:1:*intorstring maxSurge?:2:*intorstring
RollingUpdateDeployment maxUnavailable?:1:*intorstring maxSurge?:2:*intorstring
RollingUpdateStatefulSetStrategy partition?:1:*int32 maxUnavailable?:2:*intorstring
Scale* metadata?:1:m/ObjectMeta spec?:2:ScaleSpec status?:3:ScaleStatus
ScaleSpec replicas?:1:int32
ScaleStatus replicas:1:int32 selector?:2:{}string targetSelector?:3:string
StatefulSet* metadata?:1:m/ObjectMeta spec?:2:StatefulSetSpec status?:3:StatefulSetStatus
StatefulSetCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
StatefulSetOrdinals start:1:int32
StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted?:1:string whenScaled?:2:string
StatefulSetSpec replicas?:1:*int32 selector:2:*m/LabelSelector template:3:c/PodTemplateSpec volumeClaimTemplates?:4:[]c/PersistentVolumeClaim serviceName:5:string podManagementPolicy?:6:string updateStrategy?:7:StatefulSetUpdateStrategy revisionHistoryLimit?:8:*int32 minReadySeconds?:9:int32 persistentVolumeClaimRetentionPolicy?:10:*StatefulSetPersistentVolumeClaimRetentionPolicy ordinals?:11:*StatefulSetOrdinals
StatefulSetStatus observedGeneration?:1:int64 replicas:2:int32 readyReplicas?:3:int32 currentReplicas?:4:int32 updatedReplicas?:5:int32 currentRevision?:6:string updateRevision?:7:string collisionCount?:9:*int32 conditions?:10:[]StatefulSetCondition availableReplicas?:11:int32
StatefulSetUpdateStrategy type?:1:string rollingUpdate?:2:*RollingUpdateStatefulSetStrategy
@ k8s.io.api.authentication.v1 authentication.k8s.io/v1
AttestationValue[] items:1:[]string
BoundObjectReference kind?:1:string apiVersion?:2:string name?:3:string uid?:4:string
ExtraValue[] items:1:[]string
SelfSubjectReview* metadata?:1:m/ObjectMeta status?:2:SelfSubjectReviewStatus
SelfSubjectReviewStatus userInfo?:1:UserInfo
TokenRequest* metadata?:1:m/ObjectMeta spec:2:TokenRequestSpec status?:3:TokenRequestStatus
TokenRequestSpec audiences:1:[]string expirationSeconds:4:*int64 boundObjectRef:3:*BoundObjectReference attestations?:5:{}AttestationValue
TokenRequestStatus token:1:string expirationTimestamp:2:time
TokenReview* metadata?:1:m/ObjectMeta spec:2:TokenReviewSpec status?:3:TokenReviewStatus
TokenReviewSpec token?:1:string audiences?:2:[]string
TokenReviewStatus authenticated?:1:bool user?:2:UserInfo audiences?:4:[]string error?:3:string
UserInfo username?:1:string uid?:2:string groups?:3:[]string extra?:4:{}ExtraValue
@ k8s.io.api.authentication.v1alpha1 authentication.k8s.io/v1alpha1
SelfSubjectReview* metadata?:1:m/ObjectMeta status?:2:SelfSubjectReviewStatus
SelfSubjectReviewStatus userInfo?:1:k8s.io.api.authentication.v1/UserInfo
@ k8s.io.api.authentication.v1beta1 authentication.k8s.io/v1beta1
ExtraValue[] items:1:[]string
SelfSubjectReview* metadata?:1:m/ObjectMeta status?:2:SelfSubjectReviewStatus
SelfSubjectReviewStatus userInfo?:1:k8s.io.api.authentication.v1/UserInfo
TokenReview* metadata?:1:m/ObjectMeta spec:2:TokenReviewSpec status?:3:TokenReviewStatus
TokenReviewSpec token?:1:string audiences?:2:[]string
TokenReviewStatus authenticated?:1:bool user?:2:UserInfo audiences?:4:[]string error?:3:string
UserInfo username?:1:string uid?:2:string groups?:3:[]string extra?:4:{}ExtraValue
@ k8s.io.api.authorization.v1 authorization.k8s.io/v1
ExtraValue[] items:1:[]string
FieldSelectorAttributes rawSelector?:1:string requirements?:2:[]m/FieldSelectorRequirement
LabelSelectorAttributes rawSelector?:1:string requirements?:2:[]m/LabelSelectorRequirement
LocalSubjectAccessReview* metadata?:1:m/ObjectMeta spec:2:SubjectAccessReviewSpec status?:3:SubjectAccessReviewStatus
NonResourceAttributes path?:1:string verb?:2:string
NonResourceRule verbs:1:[]string nonResourceURLs?:2:[]string
ResourceAttributes namespace?:1:string verb?:2:string group?:3:string version?:4:string resource?:5:string subresource?:6:string name?:7:string fieldSelector?:8:*FieldSelectorAttributes labelSelector?:9:*LabelSelectorAttributes
ResourceRule verbs:1:[]string apiGroups?:2:[]string resources?:3:[]string resourceNames?:4:[]string
SelfSubjectAccessReview* metadata?:1:m/ObjectMeta spec:2:SelfSubjectAccessReviewSpec status?:3:SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec resourceAttributes?:1:*ResourceAttributes nonResourceAttributes?:2:*NonResourceAttributes
SelfSubjectRulesReview* metadata?:1:m/ObjectMeta spec:2:SelfSubjectRulesReviewSpec status?:3:SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec namespace?:1:string
SubjectAccessReview* metadata?:1:m/ObjectMeta spec:2:SubjectAccessReviewSpec status?:3:SubjectAccessReviewStatus
SubjectAccessReviewSpec resourceAttributes?:1:*ResourceAttributes nonResourceAttributes?:2:*NonResourceAttributes user?:3:string groups?:4:[]string extra?:5:{}ExtraValue uid?:6:string
SubjectAccessReviewStatus allowed:1:bool denied?:4:bool reason?:2:string evaluationError?:3:string
SubjectRulesReviewStatus resourceRules:1:[]ResourceRule nonResourceRules:2:[]NonResourceRule incomplete:3:bool evaluationError?:4:string
@ k8s.io.api.authorization.v1beta1 authorization.k8s.io/v1beta1
ExtraValue[] items:1:[]string
LocalSubjectAccessReview* metadata?:1:m/ObjectMeta spec:2:SubjectAccessReviewSpec status?:3:SubjectAccessReviewStatus
NonResourceAttributes path?:1:string verb?:2:string
NonResourceRule verbs:1:[]string nonResourceURLs?:2:[]string
ResourceAttributes namespace?:1:string verb?:2:string group?:3:string version?:4:string resource?:5:string subresource?:6:string name?:7:string fieldSelector?:8:*k8s.io.api.authorization.v1/FieldSelectorAttributes labelSelector?:9:*k8s.io.api.authorization.v1/LabelSelectorAttributes
ResourceRule verbs:1:[]string apiGroups?:2:[]string resources?:3:[]string resourceNames?:4:[]string
SelfSubjectAccessReview* metadata?:1:m/ObjectMeta spec:2:SelfSubjectAccessReviewSpec status?:3:SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec resourceAttributes?:1:*ResourceAttributes nonResourceAttributes?:2:*NonResourceAttributes
SelfSubjectRulesReview* metadata?:1:m/ObjectMeta spec:2:SelfSubjectRulesReviewSpec status?:3:SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec namespace?:1:string
SubjectAccessReview* metadata?:1:m/ObjectMeta spec:2:SubjectAccessReviewSpec status?:3:SubjectAccessReviewStatus
SubjectAccessReviewSpec resourceAttributes?:1:*ResourceAttributes nonResourceAttributes?:2:*NonResourceAttributes user?:3:string group?:4:[]string extra?:5:{}ExtraValue uid?:6:string
SubjectAccessReviewStatus allowed:1:bool denied?:4:bool reason?:2:string evaluationError?:3:string
SubjectRulesReviewStatus resourceRules:1:[]ResourceRule nonResourceRules:2:[]NonResourceRule incomplete:3:bool evaluationError?:4:string
@ k8s.io.api.autoscaling.v1 autoscaling/v1
CrossVersionObjectReference kind:1:string name:2:string apiVersion?:3:string
HorizontalPodAutoscaler* metadata?:1:m/ObjectMeta spec?:2:HorizontalPodAutoscalerSpec status?:3:HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerSpec scaleTargetRef:1:CrossVersionObjectReference minReplicas?:2:*int32 maxReplicas:3:int32 targetCPUUtilizationPercentage?:4:*int32
HorizontalPodAutoscalerStatus observedGeneration?:1:*int64 lastScaleTime?:2:*time currentReplicas:3:int32 desiredReplicas:4:int32 currentCPUUtilizationPercentage?:5:*int32
Scale* metadata?:1:m/ObjectMeta spec?:2:ScaleSpec status?:3:ScaleStatus
ScaleSpec replicas?:1:int32
ScaleStatus replicas:1:int32 selector?:2:string
@ k8s.io.api.autoscaling.v2 autoscaling/v2
ContainerResourceMetricSource name:1:string target:2:MetricTarget container:3:string
ContainerResourceMetricStatus name:1:string current:2:MetricValueStatus container:3:string
CrossVersionObjectReference kind:1:string name:2:string apiVersion?:3:string
ExternalMetricSource metric:1:MetricIdentifier target:2:MetricTarget
ExternalMetricStatus metric:1:MetricIdentifier current:2:MetricValueStatus
HPAScalingPolicy type:1:string value:2:int32 periodSeconds:3:int32
HPAScalingRules stabilizationWindowSeconds?:3:*int32 selectPolicy?:1:*string policies?:2:[]HPAScalingPolicy tolerance?:4:*quantity
HorizontalPodAutoscaler* metadata?:1:m/ObjectMeta spec?:2:HorizontalPodAutoscalerSpec status?:3:HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerBehavior scaleUp?:1:*HPAScalingRules scaleDown?:2:*HPAScalingRules
HorizontalPodAutoscalerCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string observedGeneration?:6:*int64
HorizontalPodAutoscalerSpec scaleTargetRef:1:CrossVersionObjectReference minReplicas?:2:*int32 maxReplicas:3:int32 metrics?:4:[]MetricSpec behavior?:5:*HorizontalPodAutoscalerBehavior
HorizontalPodAutoscalerStatus observedGeneration?:1:*int64 lastScaleTime?:2:*time currentReplicas?:3:int32 desiredReplicas:4:int32 currentMetrics:5:[]MetricStatus conditions?:6:[]HorizontalPodAutoscalerCondition
MetricIdentifier name:1:string selector?:2:*m/LabelSelector
MetricSpec type:1:string object?:2:*ObjectMetricSource pods?:3:*PodsMetricSource resource?:4:*ResourceMetricSource containerResource?:7:*ContainerResourceMetricSource external?:5:*ExternalMetricSource
MetricStatus type:1:string object?:2:*ObjectMetricStatus pods?:3:*PodsMetricStatus resource?:4:*ResourceMetricStatus containerResource?:7:*ContainerResourceMetricStatus external?:5:*ExternalMetricStatus
MetricTarget type:1:string value?:2:*quantity averageValue?:3:*quantity averageUtilization?:4:*int32
MetricValueStatus value?:1:*quantity averageValue?:2:*quantity averageUtilization?:3:*int32
ObjectMetricSource describedObject:1:CrossVersionObjectReference target:2:MetricTarget metric:3:MetricIdentifier
ObjectMetricStatus metric:1:MetricIdentifier current:2:MetricValueStatus describedObject:3:CrossVersionObjectReference
PodsMetricSource metric:1:MetricIdentifier target:2:MetricTarget
PodsMetricStatus metric:1:MetricIdentifier current:2:MetricValueStatus
ResourceMetricSource name:1:string target:2:MetricTarget
ResourceMetricStatus name:1:string current:2:MetricValueStatus
@ k8s.io.api.batch.v1 batch/v1
CronJob* metadata?:1:m/ObjectMeta spec?:2:CronJobSpec status?:3:CronJobStatus
CronJobSpec schedule:1:string timeZone?:8:*string startingDeadlineSeconds?:2:*int64 concurrencyPolicy?:3:string suspend?:4:*bool jobTemplate:5:JobTemplateSpec successfulJobsHistoryLimit?:6:*int32 failedJobsHistoryLimit?:7:*int32
CronJobStatus active?:1:[]c/ObjectReference lastScheduleTime?:4:*time lastSuccessfulTime?:5:*time
Job* metadata?:1:m/ObjectMeta spec?:2:JobSpec status?:3:JobStatus
JobCondition type:1:string status:2:string lastProbeTime?:3:time lastTransitionTime?:4:time reason?:5:string message?:6:string
JobSchedulingConfiguration schedulingPolicy?:1:*k8s.io.api.scheduling.v1alpha3/WorkloadPodGroupSchedulingPolicy schedulingConstraints?:2:*k8s.io.api.scheduling.v1alpha3/WorkloadPodGroupSchedulingConstraints disruptionMode?:3:*k8s.io.api.scheduling.v1alpha3/WorkloadPodGroupDisruptionMode resourceClaims?:4:[]k8s.io.api.scheduling.v1alpha3/WorkloadPodGroupResourceClaim
JobSpec parallelism?:1:*int32 completions?:2:*int32 activeDeadlineSeconds?:3:*int64 podFailurePolicy?:11:*PodFailurePolicy successPolicy?:16:*SuccessPolicy backoffLimit?:7:*int32 backoffLimitPerIndex?:12:*int32 maxFailedIndexes?:13:*int32 selector?:4:*m/LabelSelector manualSelector?:5:*bool template:6:c/PodTemplateSpec ttlSecondsAfterFinished?:8:*int32 completionMode?:9:*string suspend?:10:*bool podReplacementPolicy?:14:*string managedBy?:15:*string scheduling?:17:*JobSchedulingConfiguration
JobStatus conditions?:1:[]JobCondition startTime?:2:*time completionTime?:3:*time active?:4:int32 succeeded?:5:int32 failed?:6:int32 terminating?:11:*int32 completedIndexes?:7:string failedIndexes?:10:*string uncountedTerminatedPods?:8:*UncountedTerminatedPods ready?:9:*int32
JobTemplateSpec metadata?:1:m/ObjectMeta spec?:2:JobSpec
PodFailurePolicy rules:1:[]PodFailurePolicyRule
PodFailurePolicyOnExitCodesRequirement containerName?:1:*string operator:2:string values:3:[]int32
PodFailurePolicyOnPodConditionsPattern type:1:string status:2:string
PodFailurePolicyRule action:1:string onExitCodes?:2:*PodFailurePolicyOnExitCodesRequirement onPodConditions?:3:[]PodFailurePolicyOnPodConditionsPattern
SuccessPolicy rules:1:[]SuccessPolicyRule
SuccessPolicyRule succeededIndexes?:1:*string succeededCount?:2:*int32
UncountedTerminatedPods succeeded?:1:[]string failed?:2:[]string
@ k8s.io.api.batch.v1beta1 batch/v1beta1
CronJob* metadata?:1:m/ObjectMeta spec?:2:CronJobSpec status?:3:CronJobStatus
CronJobSpec schedule:1:string timeZone?:8:*string startingDeadlineSeconds?:2:*int64 concurrencyPolicy?:3:string suspend?:4:*bool jobTemplate:5:JobTemplateSpec successfulJobsHistoryLimit?:6:*int32 failedJobsHistoryLimit?:7:*int32
CronJobStatus active?:1:[]c/ObjectReference lastScheduleTime?:4:*time lastSuccessfulTime?:5:*time
JobTemplateSpec metadata?:1:m/ObjectMeta spec?:2:k8s.io.api.batch.v1/JobSpec
JobTemplate* metadata?:1:m/ObjectMeta template?:2:JobTemplateSpec
@ k8s.io.api.certificates.v1 certificates.k8s.io/v1
CertificateSigningRequest* metadata?:1:m/ObjectMeta spec:2:CertificateSigningRequestSpec status?:3:CertificateSigningRequestStatus
CertificateSigningRequestCondition type:1:string status:6:string reason?:2:string message?:3:string lastUpdateTime?:4:time lastTransitionTime?:5:time
CertificateSigningRequestSpec request:1:bytes signerName:7:string expirationSeconds?:8:*int32 usages?:5:[]string username?:2:string uid?:3:string groups?:4:[]string extra?:6:{}ExtraValue
CertificateSigningRequestStatus conditions?:1:[]CertificateSigningRequestCondition certificate?:2:bytes
ClusterTrustBundle* metadata?:1:m/ObjectMeta spec:2:ClusterTrustBundleSpec
ClusterTrustBundleSpec signerName?:1:string trustBundle:2:string
ExtraValue[] items:1:[]string
PodCertificateRequest* metadata?:1:m/ObjectMeta spec:2:PodCertificateRequestSpec status?:3:PodCertificateRequestStatus
PodCertificateRequestSpec signerName:1:string podName:2:string podUID:3:string serviceAccountName:4:string serviceAccountUID:5:string nodeName:6:string nodeUID:7:string maxExpirationSeconds?:8:*int32 stubPKCS10Request:12:bytes unverifiedUserAnnotations?:11:{}string
PodCertificateRequestStatus conditions?:1:[]m/Condition certificateChain?:2:string notBefore?:4:*time beginRefreshAt?:5:*time notAfter?:6:*time
@ k8s.io.api.certificates.v1alpha1 certificates.k8s.io/v1alpha1
ClusterTrustBundle* metadata?:1:m/ObjectMeta spec:2:ClusterTrustBundleSpec
ClusterTrustBundleSpec signerName?:1:string trustBundle:2:string
PodCertificateRequest* metadata?:1:m/ObjectMeta spec:2:PodCertificateRequestSpec status?:3:PodCertificateRequestStatus
PodCertificateRequestSpec signerName:1:string podName:2:string podUID:3:string serviceAccountName:4:string serviceAccountUID:5:string nodeName:6:string nodeUID:7:string maxExpirationSeconds?:8:*int32 pkixPublicKey:9:bytes proofOfPossession:10:bytes
PodCertificateRequestStatus conditions?:1:[]m/Condition certificateChain?:2:string notBefore?:4:*time beginRefreshAt?:5:*time notAfter?:6:*time
@ k8s.io.api.certificates.v1beta1 certificates.k8s.io/v1beta1
CertificateSigningRequest* metadata?:1:m/ObjectMeta spec:2:CertificateSigningRequestSpec status?:3:CertificateSigningRequestStatus
CertificateSigningRequestCondition type:1:string status?:6:string reason?:2:string message?:3:string lastUpdateTime?:4:time lastTransitionTime?:5:*time
CertificateSigningRequestSpec request:1:bytes signerName?:7:*string expirationSeconds?:8:*int32 usages?:5:[]string username?:2:string uid?:3:string groups?:4:[]string extra?:6:{}ExtraValue
CertificateSigningRequestStatus conditions?:1:[]CertificateSigningRequestCondition certificate?:2:bytes
ClusterTrustBundle* metadata?:1:m/ObjectMeta spec:2:ClusterTrustBundleSpec
ClusterTrustBundleSpec signerName?:1:string trustBundle:2:string
ExtraValue[] items:1:[]string
PodCertificateRequest* metadata?:1:m/ObjectMeta spec:2:PodCertificateRequestSpec status?:3:PodCertificateRequestStatus
PodCertificateRequestSpec signerName:1:string podName:2:string podUID:3:string serviceAccountName:4:string serviceAccountUID:5:string nodeName:6:string nodeUID:7:string maxExpirationSeconds?:8:*int32 pkixPublicKey:9:bytes proofOfPossession:10:bytes stubPKCS10Request?:12:bytes unverifiedUserAnnotations?:11:{}string
PodCertificateRequestStatus conditions?:1:[]m/Condition certificateChain?:2:string notBefore?:4:*time beginRefreshAt?:5:*time notAfter?:6:*time
@ k8s.io.api.coordination.v1 coordination.k8s.io/v1
Lease* metadata?:1:m/ObjectMeta spec?:2:LeaseSpec
LeaseSpec holderIdentity?:1:*string leaseDurationSeconds?:2:*int32 acquireTime?:3:*microtime renewTime?:4:*microtime leaseTransitions?:5:*int32 strategy?:6:*string preferredHolder?:7:*string
@ k8s.io.api.coordination.v1alpha2 coordination.k8s.io/v1alpha2
LeaseCandidate* metadata?:1:m/ObjectMeta spec?:2:LeaseCandidateSpec
LeaseCandidateSpec leaseName:1:string pingTime?:2:*microtime renewTime?:3:*microtime binaryVersion:4:string emulationVersion?:5:string strategy?:6:string
@ k8s.io.api.coordination.v1beta1 coordination.k8s.io/v1beta1
Lease* metadata?:1:m/ObjectMeta spec?:2:LeaseSpec
LeaseCandidate* metadata?:1:m/ObjectMeta spec?:2:LeaseCandidateSpec
LeaseCandidateSpec leaseName:1:string pingTime?:2:*microtime renewTime?:3:*microtime binaryVersion:4:string emulationVersion?:5:string strategy?:6:string
LeaseSpec holderIdentity?:1:*string leaseDurationSeconds?:2:*int32 acquireTime?:3:*microtime renewTime?:4:*microtime leaseTransitions?:5:*int32 strategy?:6:*string preferredHolder?:7:*string
@ k8s.io.api.core.v1 v1
AWSElasticBlockStoreVolumeSource volumeID:1:string fsType?:2:string partition?:3:int32 readOnly?:4:bool
Affinity nodeAffinity?:1:*NodeAffinity podAffinity?:2:*PodAffinity podAntiAffinity?:3:*PodAntiAffinity
AppArmorProfile type:1:string localhostProfile?:2:*string
AttachedVolume name:1:string devicePath:2:string
AzureDiskVolumeSource diskName:1:string diskURI:2:string cachingMode?:3:*string fsType?:4:*string readOnly?:5:*bool kind?:6:*string
AzureFilePersistentVolumeSource secretName:1:string shareName:2:string readOnly?:3:bool secretNamespace:4:*string
AzureFileVolumeSource secretName:1:string shareName:2:string readOnly?:3:bool
Binding* metadata?:1:m/ObjectMeta target:2:ObjectReference
CSIPersistentVolumeSource driver:1:string volumeHandle:2:string readOnly?:3:bool fsType?:4:string volumeAttributes?:5:{}string controllerPublishSecretRef?:6:*SecretReference nodeStageSecretRef?:7:*SecretReference nodePublishSecretRef?:8:*SecretReference controllerExpandSecretRef?:9:*SecretReference nodeExpandSecretRef?:10:*SecretReference
CSIVolumeSource driver:1:string readOnly?:2:*bool fsType?:3:*string volumeAttributes?:4:{}string nodePublishSecretRef?:5:*LocalObjectReference
Capabilities add?:1:[]string drop?:2:[]string
CephFSPersistentVolumeSource monitors:1:[]string path?:2:string user?:3:string secretFile?:4:string secretRef?:5:*SecretReference readOnly?:6:bool
CephFSVolumeSource monitors:1:[]string path?:2:string user?:3:string secretFile?:4:string secretRef?:5:*LocalObjectReference readOnly?:6:bool
CinderPersistentVolumeSource volumeID:1:string fsType?:2:string readOnly?:3:bool secretRef?:4:*SecretReference
CinderVolumeSource volumeID:1:string fsType?:2:string readOnly?:3:bool secretRef?:4:*LocalObjectReference
ClientIPConfig timeoutSeconds?:1:*int32
ClusterTrustBundleProjection name?:1:*string signerName?:2:*string labelSelector?:3:*m/LabelSelector optional?:5:*bool path:4:string user?:6:*int64
ComponentCondition type:1:string status:2:string message?:3:string error?:4:string
ComponentStatus* metadata?:1:m/ObjectMeta conditions?:2:[]ComponentCondition
ConfigMap* metadata?:1:m/ObjectMeta immutable?:4:*bool data?:2:{}string binaryData?:3:{}bytes
ConfigMapEnvSource :1:LocalObjectReference optional?:2:*bool
ConfigMapKeySelector :1:LocalObjectReference key:2:string optional?:3:*bool
ConfigMapNodeConfigSource namespace:1:string name:2:string uid?:3:string resourceVersion?:4:string kubeletConfigKey:5:string
ConfigMapProjection :1:LocalObjectReference items?:2:[]KeyToPath optional?:4:*bool
ConfigMapVolumeSource :1:LocalObjectReference items?:2:[]KeyToPath defaultMode?:3:*int32 optional?:4:*bool defaultUser?:5:*int64
Container name:1:string image?:2:string command?:3:[]string args?:4:[]string workingDir?:5:string ports?:6:[]ContainerPort envFrom?:19:[]EnvFromSource env?:7:[]EnvVar resources?:8:ResourceRequirements resizePolicy?:23:[]ContainerResizePolicy restartPolicy?:24:*string restartPolicyRules?:25:[]ContainerRestartRule volumeMounts?:9:[]VolumeMount volumeDevices?:21:[]VolumeDevice livenessProbe?:10:*Probe readinessProbe?:11:*Probe startupProbe?:22:*Probe lifecycle?:12:*Lifecycle terminationMessagePath?:13:string terminationMessagePolicy?:20:string imagePullPolicy?:14:string securityContext?:15:*SecurityContext stdin?:16:bool stdinOnce?:17:bool tty?:18:bool
ContainerExtendedResourceRequest containerName:1:string resourceName:2:string requestName:3:string
ContainerImage names:1:[]string sizeBytes?:2:int64
ContainerPort name?:1:string hostPort?:2:int32 containerPort:3:int32 protocol?:4:string hostIP?:5:string
ContainerResizePolicy resourceName:1:string restartPolicy:2:string
ContainerRestartRule action?:1:string exitCodes?:2:*ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes operator?:1:string values?:2:[]int32
ContainerState waiting?:1:*ContainerStateWaiting running?:2:*ContainerStateRunning terminated?:3:*ContainerStateTerminated
ContainerStateRunning startedAt?:1:time
ContainerStateTerminated exitCode:1:int32 signal?:2:int32 reason?:3:string message?:4:string startedAt?:5:time finishedAt?:6:time containerID?:7:string
ContainerStateWaiting reason?:1:string message?:2:string
ContainerStatus name:1:string state?:2:ContainerState lastState?:3:ContainerState ready:4:bool restartCount:5:int32 image:6:string imageID:7:string containerID?:8:string started?:9:*bool allocatedResources?:10:{}quantity resources?:11:*ResourceRequirements volumeMounts?:12:[]VolumeMountStatus user?:13:*ContainerUser allocatedResourcesStatus?:14:[]ResourceStatus stopSignal?:15:*string
ContainerUser linux?:1:*LinuxContainerUser
DaemonEndpoint Port:1:int32
DownwardAPIProjection items?:1:[]DownwardAPIVolumeFile
DownwardAPIVolumeFile path:1:string fieldRef?:2:*ObjectFieldSelector resourceFieldRef?:3:*ResourceFieldSelector mode?:4:*int32 user?:5:*int64
DownwardAPIVolumeSource items?:1:[]DownwardAPIVolumeFile defaultMode?:2:*int32 defaultUser?:3:*int64
EmptyDirVolumeSource medium?:1:string sizeLimit?:2:*quantity mode?:3:*int32
EndpointAddress ip:1:string hostname?:3:string nodeName?:4:*string targetRef?:2:*ObjectReference
EndpointPort name?:1:string port:2:int32 protocol?:3:string appProtocol?:4:*string
EndpointSubset addresses?:1:[]EndpointAddress notReadyAddresses?:2:[]EndpointAddress ports?:3:[]EndpointPort
Endpoints* metadata?:1:m/ObjectMeta subsets?:2:[]EndpointSubset
EnvFromSource prefix?:1:string configMapRef?:2:*ConfigMapEnvSource secretRef?:3:*SecretEnvSource
EnvVar name:1:string value?:2:string valueFrom?:3:*EnvVarSource
EnvVarSource fieldRef?:1:*ObjectFieldSelector resourceFieldRef?:2:*ResourceFieldSelector configMapKeyRef?:3:*ConfigMapKeySelector secretKeyRef?:4:*SecretKeySelector fileKeyRef?:5:*FileKeySelector
EphemeralContainer :1:EphemeralContainerCommon targetContainerName?:2:string
EphemeralContainerCommon name:1:string image?:2:string command?:3:[]string args?:4:[]string workingDir?:5:string ports?:6:[]ContainerPort envFrom?:19:[]EnvFromSource env?:7:[]EnvVar resources?:8:ResourceRequirements resizePolicy?:23:[]ContainerResizePolicy restartPolicy?:24:*string restartPolicyRules?:25:[]ContainerRestartRule volumeMounts?:9:[]VolumeMount volumeDevices?:21:[]VolumeDevice livenessProbe?:10:*Probe readinessProbe?:11:*Probe startupProbe?:22:*Probe lifecycle?:12:*Lifecycle terminationMessagePath?:13:string terminationMessagePolicy?:20:string imagePullPolicy?:14:string securityContext?:15:*SecurityContext stdin?:16:bool stdinOnce?:17:bool tty?:18:bool
EphemeralVolumeSource volumeClaimTemplate?:1:*PersistentVolumeClaimTemplate readOnly?:2:bool
Event* metadata:1:m/ObjectMeta involvedObject:2:ObjectReference reason?:3:string message?:4:string source?:5:EventSource firstTimestamp?:6:time lastTimestamp?:7:time count?:8:int32 type?:9:string eventTime?:10:microtime series?:11:*EventSeries action?:12:string related?:13:*ObjectReference reportingComponent:14:string reportingInstance:15:string
EventSeries count?:1:int32 lastObservedTime?:2:microtime state?:3:string
EventSource component?:1:string host?:2:string
EvictionResponder name:1:string priority:2:*int32
ExecAction command?:1:[]string
FCVolumeSource targetWWNs?:1:[]string lun?:2:*int32 fsType?:3:string readOnly?:4:bool wwids?:5:[]string
FileKeySelector volumeName:1:string path:2:string key:3:string optional?:4:*bool
FlexPersistentVolumeSource driver:1:string fsType?:2:string secretRef?:3:*SecretReference readOnly?:4:bool options?:5:{}string
FlexVolumeSource driver:1:string fsType?:2:string secretRef?:3:*LocalObjectReference readOnly?:4:bool options?:5:{}string
FlockerVolumeSource datasetName?:1:string datasetUUID?:2:string
GCEPersistentDiskVolumeSource pdName:1:string fsType?:2:string partition?:3:int32 readOnly?:4:bool
GRPCAction port:1:int32 service:2:*string mode?:3:*string
GitRepoVolumeSource repository:1:string revision?:2:string directory?:3:string
GlusterfsPersistentVolumeSource endpoints:1:string path:2:string readOnly?:3:bool endpointsNamespace?:4:*string
GlusterfsVolumeSource endpoints:1:string path:2:string readOnly?:3:bool
HTTPGetAction path?:1:string port:2:intorstring host?:3:string scheme?:4:string httpHeaders?:5:[]HTTPHeader protocol?:6:*string
HTTPHeader name:1:string value:2:string
HostAlias ip:1:string hostnames?:2:[]string
HostIP ip:1:string
HostPathVolumeSource path:1:string type?:2:*string
ISCSIPersistentVolumeSource targetPortal:1:string iqn:2:string lun:3:int32 iscsiInterface?:4:string fsType?:5:string readOnly?:6:bool portals?:7:[]string chapAuthDiscovery?:8:bool chapAuthSession?:11:bool secretRef?:10:*SecretReference initiatorName?:12:*string
ISCSIVolumeSource targetPortal:1:string iqn:2:string lun:3:int32 iscsiInterface?:4:string fsType?:5:string readOnly?:6:bool portals?:7:[]string chapAuthDiscovery?:8:bool chapAuthSession?:11:bool secretRef?:10:*LocalObjectReference initiatorName?:12:*string
ImageVolumeSource reference?:1:string pullPolicy?:2:string
ImageVolumeStatus imageRef?:1:string
KeyToPath key:1:string path:2:string mode?:3:*int32 user?:4:*int64
Lifecycle postStart?:1:*LifecycleHandler preStop?:2:*LifecycleHandler stopSignal?:3:*string
LifecycleHandler exec?:1:*ExecAction httpGet?:2:*HTTPGetAction tcpSocket?:3:*TCPSocketAction sleep?:4:*SleepAction
LimitRange* metadata?:1:m/ObjectMeta spec?:2:LimitRangeSpec
LimitRangeItem type:1:string max?:2:{}quantity min?:3:{}quantity default?:4:{}quantity defaultRequest?:5:{}quantity maxLimitRequestRatio?:6:{}quantity
LimitRangeSpec limits:1:[]LimitRangeItem
LinuxContainerUser uid:1:int64 gid:2:int64 supplementalGroups?:3:[]int64
LoadBalancerIngress ip?:1:string hostname?:2:string ipMode?:3:*string ports?:4:[]PortStatus
LoadBalancerStatus ingress?:1:[]LoadBalancerIngress
LocalObjectReference name?:1:string
LocalVolumeSource path:1:string fsType?:2:*string
ModifyVolumeStatus targetVolumeAttributesClassName?:1:string status:2:string
NFSVolumeSource server:1:string path:2:string readOnly?:3:bool
Namespace* metadata?:1:m/ObjectMeta spec?:2:NamespaceSpec status?:3:NamespaceStatus
NamespaceCondition type:1:string status:2:string lastTransitionTime?:4:time reason?:5:string message?:6:string
NamespaceSpec finalizers?:1:[]string
NamespaceStatus phase?:1:string conditions?:2:[]NamespaceCondition
Node* metadata?:1:m/ObjectMeta spec?:2:NodeSpec status?:3:NodeStatus
NodeAddress type:1:string address:2:string
NodeAffinity requiredDuringSchedulingIgnoredDuringExecution?:1:*NodeSelector preferredDuringSchedulingIgnoredDuringExecution?:2:[]PreferredSchedulingTerm
NodeAllocatableMappedResources name:1:string quantity:2:*quantity
NodeAllocatableOverheadResources name:1:string perPod?:2:*quantity perContainer?:3:*quantity
NodeAllocatableResourceClaimStatus resourceClaimName:1:string containers?:2:[]string mapping?:4:[]NodeAllocatableMappedResources overhead?:5:[]NodeAllocatableOverheadResources resources?:3:{}quantity
NodeCondition type:1:string status:2:string lastHeartbeatTime?:3:time lastTransitionTime?:4:time reason?:5:string message?:6:string
NodeConfigSource configMap?:2:*ConfigMapNodeConfigSource
NodeConfigStatus assigned?:1:*NodeConfigSource active?:2:*NodeConfigSource lastKnownGood?:3:*NodeConfigSource error?:4:string
NodeDaemonEndpoints kubeletEndpoint?:1:DaemonEndpoint
NodeFeatures supplementalGroupsPolicy?:1:*bool
NodePodPreemptionPolicy disableResizePreemption?:1:[]string
NodeProxyOptions* path?:1:string
NodeRuntimeHandler name:1:string features?:2:*NodeRuntimeHandlerFeatures
NodeRuntimeHandlerFeatures recursiveReadOnlyMounts?:1:*bool userNamespaces?:2:*bool
NodeSelector nodeSelectorTerms:1:[]NodeSelectorTerm
NodeSelectorRequirement key:1:string operator:2:string values?:3:[]string
NodeSelectorTerm matchExpressions?:1:[]NodeSelectorRequirement matchFields?:2:[]NodeSelectorRequirement
NodeSpec podCIDR?:1:string podCIDRs?:7:[]string providerID?:3:string unschedulable?:4:bool taints?:5:[]Taint configSource?:6:*NodeConfigSource externalID?:2:string podPreemptionPolicy?:8:*NodePodPreemptionPolicy
NodeStatus capacity?:1:{}quantity allocatable?:2:{}quantity phase?:3:string conditions?:4:[]NodeCondition addresses?:5:[]NodeAddress daemonEndpoints?:6:NodeDaemonEndpoints nodeInfo?:7:NodeSystemInfo images?:8:[]ContainerImage volumesInUse?:9:[]string volumesAttached?:10:[]AttachedVolume config?:11:*NodeConfigStatus runtimeHandlers?:12:[]NodeRuntimeHandler features?:13:*NodeFeatures declaredFeatures?:14:[]string
NodeSwapStatus capacity?:1:*int64
NodeSystemInfo machineID:1:string systemUUID:2:string bootID:3:string kernelVersion:4:string osImage:5:string containerRuntimeVersion:6:string kubeletVersion:7:string kubeProxyVersion:8:string operatingSystem:9:string architecture:10:string swap?:11:*NodeSwapStatus
ObjectFieldSelector apiVersion?:1:string fieldPath:2:string
ObjectReference kind?:1:string namespace?:2:string name?:3:string uid?:4:string apiVersion?:5:string resourceVersion?:6:string fieldPath?:7:string
PersistentVolume* metadata?:1:m/ObjectMeta spec?:2:PersistentVolumeSpec status?:3:PersistentVolumeStatus
PersistentVolumeClaim* metadata?:1:m/ObjectMeta spec?:2:PersistentVolumeClaimSpec status?:3:PersistentVolumeClaimStatus
PersistentVolumeClaimCondition type:1:string status:2:string lastProbeTime?:3:time lastTransitionTime?:4:time reason?:5:string message?:6:string
PersistentVolumeClaimSpec accessModes?:1:[]string selector?:4:*m/LabelSelector resources?:2:VolumeResourceRequirements volumeName?:3:string storageClassName?:5:*string volumeMode?:6:*string dataSource?:7:*TypedLocalObjectReference dataSourceRef?:8:*TypedObjectReference volumeAttributesClassName?:9:*string
PersistentVolumeClaimStatus phase?:1:string accessModes?:2:[]string capacity?:3:{}quantity conditions?:4:[]PersistentVolumeClaimCondition allocatedResources?:5:{}quantity allocatedResourceStatuses?:7:{}string currentVolumeAttributesClassName?:8:*string modifyVolumeStatus?:9:*ModifyVolumeStatus healthStatus?:10:*VolumeHealthStatus resizeStatus?:6:*string
PersistentVolumeClaimTemplate metadata?:1:m/ObjectMeta spec:2:PersistentVolumeClaimSpec
PersistentVolumeClaimVolumeSource claimName:1:string readOnly?:2:bool
PersistentVolumeSource gcePersistentDisk?:1:*GCEPersistentDiskVolumeSource awsElasticBlockStore?:2:*AWSElasticBlockStoreVolumeSource hostPath?:3:*HostPathVolumeSource glusterfs?:4:*GlusterfsPersistentVolumeSource nfs?:5:*NFSVolumeSource rbd?:6:*RBDPersistentVolumeSource iscsi?:7:*ISCSIPersistentVolumeSource cinder?:8:*CinderPersistentVolumeSource cephfs?:9:*CephFSPersistentVolumeSource fc?:10:*FCVolumeSource flocker?:11:*FlockerVolumeSource flexVolume?:12:*FlexPersistentVolumeSource azureFile?:13:*AzureFilePersistentVolumeSource vsphereVolume?:14:*VsphereVirtualDiskVolumeSource quobyte?:15:*QuobyteVolumeSource azureDisk?:16:*AzureDiskVolumeSource photonPersistentDisk?:17:*PhotonPersistentDiskVolumeSource portworxVolume?:18:*PortworxVolumeSource scaleIO?:19:*ScaleIOPersistentVolumeSource local?:20:*LocalVolumeSource storageos?:21:*StorageOSPersistentVolumeSource csi?:22:*CSIPersistentVolumeSource
PersistentVolumeSpec capacity?:1:{}quantity :2:PersistentVolumeSource accessModes?:3:[]string claimRef?:4:*ObjectReference persistentVolumeReclaimPolicy?:5:string storageClassName?:6:string mountOptions?:7:[]string volumeMode?:8:*string nodeAffinity?:9:*VolumeNodeAffinity volumeAttributesClassName?:10:*string
PersistentVolumeStatus phase?:1:string message?:2:string reason?:3:string lastPhaseTransitionTime?:4:*time
PhotonPersistentDiskVolumeSource pdID:1:string fsType?:2:string
Pod* metadata?:1:m/ObjectMeta spec?:2:PodSpec status?:3:PodStatus
PodAffinity requiredDuringSchedulingIgnoredDuringExecution?:1:[]PodAffinityTerm preferredDuringSchedulingIgnoredDuringExecution?:2:[]WeightedPodAffinityTerm
PodAffinityTerm labelSelector?:1:*m/LabelSelector namespaces?:2:[]string topologyKey:3:string namespaceSelector?:4:*m/LabelSelector matchLabelKeys?:5:[]string mismatchLabelKeys?:6:[]string
PodAntiAffinity requiredDuringSchedulingIgnoredDuringExecution?:1:[]PodAffinityTerm preferredDuringSchedulingIgnoredDuringExecution?:2:[]WeightedPodAffinityTerm
PodAttachOptions* stdin?:1:bool stdout?:2:bool stderr?:3:bool tty?:4:bool container?:5:string
PodCertificateProjection signerName?:1:string keyType?:2:string maxExpirationSeconds?:3:*int32 credentialBundlePath?:4:string keyPath?:5:string certificateChainPath?:6:string userAnnotations?:7:{}string user?:8:*int64
PodCondition type:1:string observedGeneration?:7:int64 status:2:string lastProbeTime?:3:time lastTransitionTime?:4:time reason?:5:string message?:6:string
PodDNSConfig nameservers?:1:[]string searches?:2:[]string options?:3:[]PodDNSConfigOption
PodDNSConfigOption name?:1:string value?:2:*string
PodExecOptions* stdin?:1:bool stdout?:2:bool stderr?:3:bool tty?:4:bool container?:5:string command:6:[]string
PodExtendedResourceClaimStatus requestMappings:1:[]ContainerExtendedResourceRequest resourceClaimName:2:string
PodIP ip:1:string
PodLogOptions* container?:1:string follow?:2:bool previous?:3:bool sinceSeconds?:4:*int64 sinceTime?:5:*time timestamps?:6:bool tailLines?:7:*int64 limitBytes?:8:*int64 insecureSkipTLSVerifyBackend?:9:bool stream?:10:*string
PodOS name:1:string
PodPortForwardOptions* ports?:1:[]int32
PodProxyOptions* path?:1:string
PodReadinessGate conditionType:1:string
PodResourceClaim name:1:string resourceClaimName?:3:*string resourceClaimTemplateName?:4:*string source?:2:*ClaimSource
PodResourceClaimStatus name:1:string resourceClaimName?:2:*string
PodSchedulingGate name:1:string
PodSchedulingGroup podGroupName?:1:*string
PodSecurityContext seLinuxOptions?:1:*SELinuxOptions windowsOptions?:8:*WindowsSecurityContextOptions runAsUser?:2:*int64 runAsGroup?:6:*int64 runAsNonRoot?:3:*bool supplementalGroups?:4:[]int64 supplementalGroupsPolicy?:12:*string fsGroup?:5:*int64 sysctls?:7:[]Sysctl fsGroupChangePolicy?:9:*string seccompProfile?:10:*SeccompProfile appArmorProfile?:11:*AppArmorProfile seLinuxChangePolicy?:13:*string
PodSpec volumes?:1:[]Volume initContainers?:20:[]Container containers:2:[]Container ephemeralContainers?:34:[]EphemeralContainer restartPolicy?:3:string terminationGracePeriodSeconds?:4:*int64 activeDeadlineSeconds?:5:*int64 dnsPolicy?:6:string nodeSelector?:7:{}string serviceAccountName?:8:string serviceAccount?:9:string automountServiceAccountToken?:21:*bool nodeName?:10:string hostNetwork?:11:bool hostPID?:12:bool hostIPC?:13:bool shareProcessNamespace?:27:*bool securityContext?:14:*PodSecurityContext imagePullSecrets?:15:[]LocalObjectReference hostname?:16:string subdomain?:17:string affinity?:18:*Affinity schedulerName?:19:string tolerations?:22:[]Toleration hostAliases?:23:[]HostAlias priorityClassName?:24:string priority?:25:*int32 dnsConfig?:26:*PodDNSConfig readinessGates?:28:[]PodReadinessGate runtimeClassName?:29:*string enableServiceLinks?:30:*bool preemptionPolicy?:31:*string overhead?:32:{}quantity topologySpreadConstraints?:33:[]TopologySpreadConstraint setHostnameAsFQDN?:35:*bool os?:36:*PodOS hostUsers?:37:*bool schedulingGates?:38:[]PodSchedulingGate resourceClaims?:39:[]PodResourceClaim resources?:40:*ResourceRequirements hostnameOverride?:41:*string schedulingGroup?:43:*PodSchedulingGroup evictionResponders?:44:[]EvictionResponder workloadRef?:42:*WorkloadReference
PodStatus observedGeneration?:17:int64 phase?:1:string conditions?:2:[]PodCondition message?:3:string reason?:4:string nominatedNodeName?:11:string hostIP?:5:string hostIPs?:16:[]HostIP podIP?:6:string podIPs?:12:[]PodIP startTime?:7:*time initContainerStatuses?:10:[]ContainerStatus containerStatuses?:8:[]ContainerStatus qosClass?:9:string ephemeralContainerStatuses?:13:[]ContainerStatus resize?:14:string resourceClaimStatuses?:15:[]PodResourceClaimStatus extendedResourceClaimStatus?:18:*PodExtendedResourceClaimStatus allocatedResources?:19:{}quantity resources?:20:*ResourceRequirements nodeAllocatableResourceClaimStatuses?:21:[]NodeAllocatableResourceClaimStatus volumeHealth?:22:[]PodVolumeHealth
PodTemplate* metadata?:1:m/ObjectMeta template?:2:PodTemplateSpec
PodTemplateSpec metadata?:1:m/ObjectMeta spec?:2:PodSpec
PodVolumeHealth name:1:string healthConditions?:2:[]VolumeHealthCondition lastTransitionTime?:3:time
PortStatus port:1:int32 protocol:2:string error?:3:*string
PortworxVolumeSource volumeID:1:string fsType?:2:string readOnly?:3:bool
PreferredSchedulingTerm weight:1:int32 preference:2:NodeSelectorTerm
Probe :1:ProbeHandler initialDelaySeconds?:2:int32 timeoutSeconds?:3:int32 periodSeconds?:4:int32 successThreshold?:5:int32 failureThreshold?:6:int32 terminationGracePeriodSeconds?:7:*int64
ProbeHandler exec?:1:*ExecAction httpGet?:2:*HTTPGetAction tcpSocket?:3:*TCPSocketAction grpc?:4:*GRPCAction
ProjectedVolumeSource sources:1:[]VolumeProjection defaultMode?:2:*int32 defaultUser?:3:*int64
QuobyteVolumeSource registry:1:string volume:2:string readOnly?:3:bool user?:4:string group?:5:string tenant?:6:string
RBDPersistentVolumeSource monitors:1:[]string image:2:string fsType?:3:string pool?:4:string user?:5:string keyring?:6:string secretRef?:7:*SecretReference readOnly?:8:bool
RBDVolumeSource monitors:1:[]string image:2:string fsType?:3:string pool?:4:string user?:5:string keyring?:6:string secretRef?:7:*LocalObjectReference readOnly?:8:bool
RangeAllocation* metadata?:1:m/ObjectMeta range:2:string data:3:bytes
ReplicationController* metadata?:1:m/ObjectMeta spec?:2:ReplicationControllerSpec status?:3:ReplicationControllerStatus
ReplicationControllerCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
ReplicationControllerSpec replicas?:1:*int32 minReadySeconds?:4:int32 selector?:2:{}string template?:3:*PodTemplateSpec
ReplicationControllerStatus replicas:1:int32 fullyLabeledReplicas?:2:int32 readyReplicas?:4:int32 availableReplicas?:5:int32 observedGeneration?:3:int64 conditions?:6:[]ReplicationControllerCondition
ResourceClaim name:1:string request?:2:string
ResourceFieldSelector containerName?:1:string resource:2:string divisor?:3:quantity
ResourceHealth resourceID:1:string health?:2:string message?:6:*string
ResourceQuota* metadata?:1:m/ObjectMeta spec?:2:ResourceQuotaSpec status?:3:ResourceQuotaStatus
ResourceQuotaSpec hard?:1:{}quantity scopes?:2:[]string scopeSelector?:3:*ScopeSelector
ResourceQuotaStatus hard?:1:{}quantity used?:2:{}quantity
ResourceRequirements limits?:1:{}quantity requests?:2:{}quantity claims?:3:[]ResourceClaim
ResourceStatus name:1:string resources?:2:[]ResourceHealth
SELinuxOptions user?:1:string role?:2:string type?:3:string level?:4:string
ScaleIOPersistentVolumeSource gateway:1:string system:2:string secretRef:3:*SecretReference sslEnabled?:4:bool protectionDomain?:5:string storagePool?:6:string storageMode?:7:string volumeName?:8:string fsType?:9:string readOnly?:10:bool
ScaleIOVolumeSource gateway:1:string system:2:string secretRef:3:*LocalObjectReference sslEnabled?:4:bool protectionDomain?:5:string storagePool?:6:string storageMode?:7:string volumeName?:8:string fsType?:9:string readOnly?:10:bool
ScopeSelector matchExpressions?:1:[]ScopedResourceSelectorRequirement
ScopedResourceSelectorRequirement scopeName:1:string operator:2:string values?:3:[]string
SeccompProfile type:1:string localhostProfile?:2:*string
Secret* metadata?:1:m/ObjectMeta immutable?:5:*bool data?:2:{}bytes stringData?:4:{}string type?:3:string
SecretEnvSource :1:LocalObjectReference optional?:2:*bool
SecretKeySelector :1:LocalObjectReference key:2:string optional?:3:*bool
SecretProjection :1:LocalObjectReference items?:2:[]KeyToPath optional?:4:*bool
SecretReference name?:1:string namespace?:2:string
SecretVolumeSource secretName?:1:string items?:2:[]KeyToPath defaultMode?:3:*int32 optional?:4:*bool defaultUser?:5:*int64
SecurityContext capabilities?:1:*Capabilities privileged?:2:*bool seLinuxOptions?:3:*SELinuxOptions windowsOptions?:10:*WindowsSecurityContextOptions runAsUser?:4:*int64 runAsGroup?:8:*int64 runAsNonRoot?:5:*bool readOnlyRootFilesystem?:6:*bool allowPrivilegeEscalation?:7:*bool procMount?:9:*string seccompProfile?:11:*SeccompProfile appArmorProfile?:12:*AppArmorProfile
SerializedReference* reference?:1:ObjectReference
Service* metadata?:1:m/ObjectMeta spec?:2:ServiceSpec status?:3:ServiceStatus
ServiceAccount* metadata?:1:m/ObjectMeta secrets?:2:[]ObjectReference imagePullSecrets?:3:[]LocalObjectReference automountServiceAccountToken?:4:*bool
ServiceAccountTokenProjection audience?:1:string expirationSeconds?:2:*int64 path:3:string user?:4:*int64
ServicePort name?:1:string protocol?:2:string appProtocol?:6:*string port:3:int32 targetPort?:4:intorstring nodePort?:5:int32
ServiceProxyOptions* path?:1:string
ServiceSpec ports?:1:[]ServicePort selector?:2:{}string clusterIP?:3:string clusterIPs?:18:[]string type?:4:string externalIPs?:5:[]string sessionAffinity?:7:string loadBalancerIP?:8:string loadBalancerSourceRanges?:9:[]string externalName?:10:string externalTrafficPolicy?:11:string healthCheckNodePort?:12:int32 publishNotReadyAddresses?:13:bool sessionAffinityConfig?:14:*SessionAffinityConfig ipFamilies?:19:[]string ipFamilyPolicy?:17:*string allocateLoadBalancerNodePorts?:20:*bool loadBalancerClass?:21:*string internalTrafficPolicy?:22:*string trafficDistribution?:23:*string topologyKeys?:16:[]string ipFamily?:15:*string
ServiceStatus loadBalancer?:1:LoadBalancerStatus conditions?:2:[]m/Condition
SessionAffinityConfig clientIP?:1:*ClientIPConfig
SleepAction seconds:1:int64
StorageOSPersistentVolumeSource volumeName?:1:string volumeNamespace?:2:string fsType?:3:string readOnly?:4:bool secretRef?:5:*ObjectReference
StorageOSVolumeSource volumeName?:1:string volumeNamespace?:2:string fsType?:3:string readOnly?:4:bool secretRef?:5:*LocalObjectReference
Sysctl name:1:string value:2:string
TCPSocketAction port:1:intorstring host?:2:string
Taint key:1:string value?:2:string effect:3:string timeAdded?:4:*time
Toleration key?:1:string operator?:2:string value?:3:string effect?:4:string tolerationSeconds?:5:*int64
TopologySelectorLabelRequirement key:1:string values:2:[]string
TopologySelectorTerm matchLabelExpressions?:1:[]TopologySelectorLabelRequirement
TopologySpreadConstraint maxSkew:1:int32 topologyKey:2:string whenUnsatisfiable:3:string labelSelector?:4:*m/LabelSelector minDomains?:5:*int32 nodeAffinityPolicy?:6:*string nodeTaintsPolicy?:7:*string matchLabelKeys?:8:[]string
TypedLocalObjectReference apiGroup:1:*string kind:2:string name:3:string
TypedObjectReference apiGroup:1:*string kind:2:string name:3:string namespace?:4:*string
Volume name:1:string :2:VolumeSource
VolumeDevice name:1:string devicePath:2:string
VolumeHealthCondition status:1:string reason:2:string message?:3:string
VolumeHealthStatus healthConditions?:1:[]VolumeHealthCondition lastTransitionTime?:2:time
VolumeMount name:1:string readOnly?:2:bool recursiveReadOnly?:7:*string mountPath:3:string subPath?:4:string mountPropagation?:5:*string subPathExpr?:6:string bindMountOptions?:8:[]string
VolumeMountStatus name:1:string mountPath:2:string readOnly?:3:bool recursiveReadOnly?:4:*string volumeStatus?:5:*VolumeStatus
VolumeNodeAffinity required?:1:*NodeSelector
VolumeProjection secret?:1:*SecretProjection downwardAPI?:2:*DownwardAPIProjection configMap?:3:*ConfigMapProjection serviceAccountToken?:4:*ServiceAccountTokenProjection clusterTrustBundle?:5:*ClusterTrustBundleProjection podCertificate?:6:*PodCertificateProjection
VolumeResourceRequirements limits?:1:{}quantity requests?:2:{}quantity
VolumeSource hostPath?:1:*HostPathVolumeSource emptyDir?:2:*EmptyDirVolumeSource gcePersistentDisk?:3:*GCEPersistentDiskVolumeSource awsElasticBlockStore?:4:*AWSElasticBlockStoreVolumeSource gitRepo?:5:*GitRepoVolumeSource secret?:6:*SecretVolumeSource nfs?:7:*NFSVolumeSource iscsi?:8:*ISCSIVolumeSource glusterfs?:9:*GlusterfsVolumeSource persistentVolumeClaim?:10:*PersistentVolumeClaimVolumeSource rbd?:11:*RBDVolumeSource flexVolume?:12:*FlexVolumeSource cinder?:13:*CinderVolumeSource cephfs?:14:*CephFSVolumeSource flocker?:15:*FlockerVolumeSource downwardAPI?:16:*DownwardAPIVolumeSource fc?:17:*FCVolumeSource azureFile?:18:*AzureFileVolumeSource configMap?:19:*ConfigMapVolumeSource vsphereVolume?:20:*VsphereVirtualDiskVolumeSource quobyte?:21:*QuobyteVolumeSource azureDisk?:22:*AzureDiskVolumeSource photonPersistentDisk?:23:*PhotonPersistentDiskVolumeSource projected?:26:*ProjectedVolumeSource portworxVolume?:24:*PortworxVolumeSource scaleIO?:25:*ScaleIOVolumeSource storageos?:27:*StorageOSVolumeSource csi?:28:*CSIVolumeSource ephemeral?:29:*EphemeralVolumeSource image?:30:*ImageVolumeSource
VolumeStatus image?:1:*ImageVolumeStatus
VsphereVirtualDiskVolumeSource volumePath:1:string fsType?:2:string storagePolicyName?:3:string storagePolicyID?:4:string
WeightedPodAffinityTerm weight:1:int32 podAffinityTerm:2:PodAffinityTerm
WindowsSecurityContextOptions gmsaCredentialSpecName?:1:*string gmsaCredentialSpec?:2:*string runAsUserName?:3:*string hostProcess?:4:*bool
PodStatusResult* metadata?:1:m/ObjectMeta status?:2:PodStatus
WorkloadReference name:1:string podGroup:2:string podGroupReplicaKey?:3:string
ClaimSource resourceClaimName?:1:*string resourceClaimTemplateName?:2:*string
EphemeralContainers* metadata?:1:m/ObjectMeta ephemeralContainers:2:[]EphemeralContainer
@ k8s.io.api.discovery.v1 discovery.k8s.io/v1
Endpoint addresses:1:[]string conditions?:2:EndpointConditions hostname?:3:*string targetRef?:4:*c/ObjectReference deprecatedTopology?:5:{}string nodeName?:6:*string zone?:7:*string hints?:8:*EndpointHints
EndpointConditions ready?:1:*bool serving?:2:*bool terminating?:3:*bool
EndpointHints forZones?:1:[]ForZone forNodes?:2:[]ForNode
EndpointPort name?:1:*string protocol?:2:*string port?:3:*int32 appProtocol?:4:*string
EndpointSlice* metadata?:1:m/ObjectMeta addressType:4:string endpoints:2:[]Endpoint ports:3:[]EndpointPort
ForNode name:1:string
ForZone name:1:string
@ k8s.io.api.discovery.v1beta1 discovery.k8s.io/v1beta1
Endpoint addresses:1:[]string conditions?:2:EndpointConditions hostname?:3:*string targetRef?:4:*c/ObjectReference topology?:5:{}string nodeName?:6:*string hints?:7:*EndpointHints
EndpointConditions ready?:1:*bool serving?:2:*bool terminating?:3:*bool
EndpointHints forZones?:1:[]ForZone forNodes?:2:[]ForNode
EndpointPort name?:1:*string protocol?:2:*string port?:3:*int32 appProtocol?:4:*string
EndpointSlice* metadata?:1:m/ObjectMeta addressType:4:string endpoints:2:[]Endpoint ports:3:[]EndpointPort
ForNode name:1:string
ForZone name:1:string
@ k8s.io.api.events.v1 events.k8s.io/v1
Event* metadata:1:m/ObjectMeta eventTime:2:microtime series?:3:*EventSeries reportingController?:4:string reportingInstance?:5:string action?:6:string reason?:7:string regarding?:8:c/ObjectReference related?:9:*c/ObjectReference note?:10:string type?:11:string deprecatedSource?:12:c/EventSource deprecatedFirstTimestamp?:13:time deprecatedLastTimestamp?:14:time deprecatedCount?:15:int32
EventSeries count:1:int32 lastObservedTime:2:microtime
@ k8s.io.api.events.v1beta1 events.k8s.io/v1beta1
Event* metadata:1:m/ObjectMeta eventTime:2:microtime series?:3:*EventSeries reportingController?:4:string reportingInstance?:5:string action?:6:string reason?:7:string regarding?:8:c/ObjectReference related?:9:*c/ObjectReference note?:10:string type?:11:string deprecatedSource?:12:c/EventSource deprecatedFirstTimestamp?:13:time deprecatedLastTimestamp?:14:time deprecatedCount?:15:int32
EventSeries count:1:int32 lastObservedTime:2:microtime state?:3:string
@ k8s.io.api.extensions.v1beta1 extensions/v1beta1
DaemonSet* metadata?:1:m/ObjectMeta spec?:2:DaemonSetSpec status?:3:DaemonSetStatus
DaemonSetCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
DaemonSetSpec selector?:1:*m/LabelSelector template:2:c/PodTemplateSpec updateStrategy?:3:DaemonSetUpdateStrategy minReadySeconds?:4:int32 templateGeneration?:5:int64 revisionHistoryLimit?:6:*int32
DaemonSetStatus currentNumberScheduled:1:int32 numberMisscheduled:2:int32 desiredNumberScheduled:3:int32 numberReady:4:int32 observedGeneration?:5:int64 updatedNumberScheduled?:6:int32 numberAvailable?:7:int32 numberUnavailable?:8:int32 collisionCount?:9:*int32 conditions?:10:[]DaemonSetCondition
DaemonSetUpdateStrategy type?:1:string rollingUpdate?:2:*RollingUpdateDaemonSet
Deployment* metadata?:1:m/ObjectMeta spec?:2:DeploymentSpec status?:3:DeploymentStatus
DeploymentCondition type:1:string status:2:string lastUpdateTime?:6:time lastTransitionTime?:7:time reason?:4:string message?:5:string
DeploymentRollback* name:1:string updatedAnnotations?:2:{}string rollbackTo:3:RollbackConfig
DeploymentSpec replicas?:1:*int32 selector?:2:*m/LabelSelector template:3:c/PodTemplateSpec strategy?:4:DeploymentStrategy minReadySeconds?:5:int32 revisionHistoryLimit?:6:*int32 paused?:7:bool rollbackTo?:8:*RollbackConfig progressDeadlineSeconds?:9:*int32
DeploymentStatus observedGeneration?:1:int64 replicas?:2:int32 updatedReplicas?:3:int32 readyReplicas?:7:int32 availableReplicas?:4:int32 unavailableReplicas?:5:int32 terminatingReplicas?:9:*int32 conditions?:6:[]DeploymentCondition collisionCount?:8:*int32
DeploymentStrategy type?:1:string rollingUpdate?:2:*RollingUpdateDeployment
HTTPIngressPath path?:1:string pathType?:3:*string backend:2:IngressBackend
HTTPIngressRuleValue paths:1:[]HTTPIngressPath
IPBlock cidr:1:string except?:2:[]string
Ingress* metadata?:1:m/ObjectMeta spec?:2:IngressSpec status?:3:IngressStatus
IngressBackend serviceName?:1:string servicePort?:2:intorstring resource?:3:*c/TypedLocalObjectReference
IngressLoadBalancerIngress ip?:1:string hostname?:2:string ports?:4:[]IngressPortStatus
IngressLoadBalancerStatus ingress?:1:[]IngressLoadBalancerIngress
IngressPortStatus port:1:int32 protocol:2:string error?:3:*string
IngressRule host?:1:string :2:IngressRuleValue
IngressRuleValue http?:1:*HTTPIngressRuleValue
IngressSpec ingressClassName?:4:*string backend?:1:*IngressBackend tls?:2:[]IngressTLS rules?:3:[]IngressRule
IngressStatus loadBalancer?:1:IngressLoadBalancerStatus
IngressTLS hosts?:1:[]string secretName?:2:string
NetworkPolicy* metadata?:1:m/ObjectMeta spec?:2:NetworkPolicySpec status?:3:*NetworkPolicyStatus
NetworkPolicyEgressRule ports?:1:[]NetworkPolicyPort to?:2:[]NetworkPolicyPeer
NetworkPolicyIngressRule ports?:1:[]NetworkPolicyPort from?:2:[]NetworkPolicyPeer
NetworkPolicyPeer podSelector?:1:*m/LabelSelector namespaceSelector?:2:*m/LabelSelector ipBlock?:3:*IPBlock
NetworkPolicyPort protocol?:1:*string port?:2:*intorstring endPort?:3:*int32
NetworkPolicySpec podSelector:1:m/LabelSelector ingress?:2:[]NetworkPolicyIngressRule egress?:3:[]NetworkPolicyEgressRule policyTypes?:4:[]string
ReplicaSet* metadata?:1:m/ObjectMeta spec?:2:ReplicaSetSpec status?:3:ReplicaSetStatus
ReplicaSetCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
ReplicaSetSpec replicas?:1:*int32 minReadySeconds?:4:int32 selector?:2:*m/LabelSelector template?:3:c/PodTemplateSpec
ReplicaSetStatus replicas:1:int32 fullyLabeledReplicas?:2:int32 readyReplicas?:4:int32 availableReplicas?:5:int32 terminatingReplicas?:7:*int32 observedGeneration?:3:int64 conditions?:6:[]ReplicaSetCondition
RollbackConfig revision?:1:int64
RollingUpdateDaemonSet maxUnavailable?:1:*intorstring maxSurge?:2:*intorstring
RollingUpdateDeployment maxUnavailable?:1:*intorstring maxSurge?:2:*intorstring
Scale* metadata?:1:m/ObjectMeta spec?:2:ScaleSpec status?:3:ScaleStatus
ScaleSpec replicas?:1:int32
ScaleStatus replicas:1:int32 selector?:2:{}string targetSelector?:3:string
NetworkPolicyStatus conditions?:1:[]m/Condition
AllowedCSIDriver name:1:string
AllowedFlexVolume driver:1:string
AllowedHostPath pathPrefix?:1:string readOnly?:2:bool
FSGroupStrategyOptions rule?:1:string ranges?:2:[]IDRange
HostPortRange min:1:int32 max:2:int32
IDRange min:1:int64 max:2:int64
PodSecurityPolicy* metadata?:1:m/ObjectMeta spec?:2:PodSecurityPolicySpec
PodSecurityPolicySpec privileged?:1:bool defaultAddCapabilities?:2:[]string requiredDropCapabilities?:3:[]string allowedCapabilities?:4:[]string volumes?:5:[]string hostNetwork?:6:bool hostPorts?:7:[]HostPortRange hostPID?:8:bool hostIPC?:9:bool seLinux:10:SELinuxStrategyOptions runAsUser:11:RunAsUserStrategyOptions runAsGroup?:22:*RunAsGroupStrategyOptions supplementalGroups:12:SupplementalGroupsStrategyOptions fsGroup:13:FSGroupStrategyOptions readOnlyRootFilesystem?:14:bool defaultAllowPrivilegeEscalation?:15:*bool allowPrivilegeEscalation?:16:*bool allowedHostPaths?:17:[]AllowedHostPath allowedFlexVolumes?:18:[]AllowedFlexVolume allowedCSIDrivers?:23:[]AllowedCSIDriver allowedUnsafeSysctls?:19:[]string forbiddenSysctls?:20:[]string allowedProcMountTypes?:21:[]string runtimeClass?:24:*RuntimeClassStrategyOptions
RunAsGroupStrategyOptions rule:1:string ranges?:2:[]IDRange
RunAsUserStrategyOptions rule:1:string ranges?:2:[]IDRange
RuntimeClassStrategyOptions allowedRuntimeClassNames:1:[]string defaultRuntimeClassName?:2:*string
SELinuxStrategyOptions rule:1:string seLinuxOptions?:2:*c/SELinuxOptions
SupplementalGroupsStrategyOptions rule?:1:string ranges?:2:[]IDRange
ReplicationControllerDummy*
@ k8s.io.api.flowcontrol.v1 flowcontrol.apiserver.k8s.io/v1
ExemptPriorityLevelConfiguration nominalConcurrencyShares?:1:*int32 lendablePercent?:2:*int32
FlowDistinguisherMethod type:1:string
FlowSchema* metadata?:1:m/ObjectMeta spec?:2:FlowSchemaSpec status?:3:FlowSchemaStatus
FlowSchemaCondition type?:1:string status?:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
FlowSchemaSpec priorityLevelConfiguration:1:PriorityLevelConfigurationReference matchingPrecedence:2:int32 distinguisherMethod?:3:*FlowDistinguisherMethod rules?:4:[]PolicyRulesWithSubjects
FlowSchemaStatus conditions?:1:[]FlowSchemaCondition
GroupSubject name:1:string
LimitResponse type:1:string queuing?:2:*QueuingConfiguration
LimitedPriorityLevelConfiguration nominalConcurrencyShares:1:*int32 limitResponse?:2:LimitResponse lendablePercent?:3:*int32 borrowingLimitPercent?:4:*int32
NonResourcePolicyRule verbs:1:[]string nonResourceURLs:6:[]string
PolicyRulesWithSubjects subjects:1:[]Subject resourceRules?:2:[]ResourcePolicyRule nonResourceRules?:3:[]NonResourcePolicyRule
PriorityLevelConfiguration* metadata?:1:m/ObjectMeta spec?:2:PriorityLevelConfigurationSpec status?:3:PriorityLevelConfigurationStatus
PriorityLevelConfigurationCondition type?:1:string status?:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
PriorityLevelConfigurationReference name:1:string
PriorityLevelConfigurationSpec type:1:string limited?:2:*LimitedPriorityLevelConfiguration exempt?:3:*ExemptPriorityLevelConfiguration
PriorityLevelConfigurationStatus conditions?:1:[]PriorityLevelConfigurationCondition
QueuingConfiguration queues:1:int32 handSize:2:int32 queueLengthLimit:3:int32
ResourcePolicyRule verbs:1:[]string apiGroups:2:[]string resources:3:[]string clusterScope?:4:bool namespaces:5:[]string
ServiceAccountSubject namespace:1:string name:2:string
Subject kind:1:string user?:2:*UserSubject group?:3:*GroupSubject serviceAccount?:4:*ServiceAccountSubject
UserSubject name:1:string
@ k8s.io.api.flowcontrol.v1beta1 flowcontrol.apiserver.k8s.io/v1beta1
ExemptPriorityLevelConfiguration nominalConcurrencyShares?:1:*int32 lendablePercent?:2:*int32
FlowDistinguisherMethod type:1:string
FlowSchema* metadata?:1:m/ObjectMeta spec?:2:FlowSchemaSpec status?:3:FlowSchemaStatus
FlowSchemaCondition type?:1:string status?:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
FlowSchemaSpec priorityLevelConfiguration:1:PriorityLevelConfigurationReference matchingPrecedence:2:int32 distinguisherMethod?:3:*FlowDistinguisherMethod rules?:4:[]PolicyRulesWithSubjects
FlowSchemaStatus conditions?:1:[]FlowSchemaCondition
GroupSubject name:1:string
LimitResponse type:1:string queuing?:2:*QueuingConfiguration
LimitedPriorityLevelConfiguration assuredConcurrencyShares:1:int32 limitResponse?:2:LimitResponse lendablePercent?:3:*int32 borrowingLimitPercent?:4:*int32
NonResourcePolicyRule verbs:1:[]string nonResourceURLs:6:[]string
PolicyRulesWithSubjects subjects:1:[]Subject resourceRules?:2:[]ResourcePolicyRule nonResourceRules?:3:[]NonResourcePolicyRule
PriorityLevelConfiguration* metadata?:1:m/ObjectMeta spec?:2:PriorityLevelConfigurationSpec status?:3:PriorityLevelConfigurationStatus
PriorityLevelConfigurationCondition type?:1:string status?:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
PriorityLevelConfigurationReference name:1:string
PriorityLevelConfigurationSpec type:1:string limited?:2:*LimitedPriorityLevelConfiguration exempt?:3:*ExemptPriorityLevelConfiguration
PriorityLevelConfigurationStatus conditions?:1:[]PriorityLevelConfigurationCondition
QueuingConfiguration queues:1:int32 handSize:2:int32 queueLengthLimit:3:int32
ResourcePolicyRule verbs:1:[]string apiGroups:2:[]string resources:3:[]string clusterScope?:4:bool namespaces:5:[]string
ServiceAccountSubject namespace:1:string name:2:string
Subject kind:1:string user?:2:*UserSubject group?:3:*GroupSubject serviceAccount?:4:*ServiceAccountSubject
UserSubject name:1:string
@ k8s.io.api.flowcontrol.v1beta2 flowcontrol.apiserver.k8s.io/v1beta2
ExemptPriorityLevelConfiguration nominalConcurrencyShares?:1:*int32 lendablePercent?:2:*int32
FlowDistinguisherMethod type:1:string
FlowSchema* metadata?:1:m/ObjectMeta spec?:2:FlowSchemaSpec status?:3:FlowSchemaStatus
FlowSchemaCondition type?:1:string status?:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
FlowSchemaSpec priorityLevelConfiguration:1:PriorityLevelConfigurationReference matchingPrecedence:2:int32 distinguisherMethod?:3:*FlowDistinguisherMethod rules?:4:[]PolicyRulesWithSubjects
FlowSchemaStatus conditions?:1:[]FlowSchemaCondition
GroupSubject name:1:string
LimitResponse type:1:string queuing?:2:*QueuingConfiguration
LimitedPriorityLevelConfiguration assuredConcurrencyShares:1:int32 limitResponse?:2:LimitResponse lendablePercent?:3:*int32 borrowingLimitPercent?:4:*int32
NonResourcePolicyRule verbs:1:[]string nonResourceURLs:6:[]string
PolicyRulesWithSubjects subjects:1:[]Subject resourceRules?:2:[]ResourcePolicyRule nonResourceRules?:3:[]NonResourcePolicyRule
PriorityLevelConfiguration* metadata?:1:m/ObjectMeta spec?:2:PriorityLevelConfigurationSpec status?:3:PriorityLevelConfigurationStatus
PriorityLevelConfigurationCondition type?:1:string status?:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
PriorityLevelConfigurationReference name:1:string
PriorityLevelConfigurationSpec type:1:string limited?:2:*LimitedPriorityLevelConfiguration exempt?:3:*ExemptPriorityLevelConfiguration
PriorityLevelConfigurationStatus conditions?:1:[]PriorityLevelConfigurationCondition
QueuingConfiguration queues:1:int32 handSize:2:int32 queueLengthLimit:3:int32
ResourcePolicyRule verbs:1:[]string apiGroups:2:[]string resources:3:[]string clusterScope?:4:bool namespaces:5:[]string
ServiceAccountSubject namespace:1:string name:2:string
Subject kind:1:string user?:2:*UserSubject group?:3:*GroupSubject serviceAccount?:4:*ServiceAccountSubject
UserSubject name:1:string
@ k8s.io.api.flowcontrol.v1beta3 flowcontrol.apiserver.k8s.io/v1beta3
ExemptPriorityLevelConfiguration nominalConcurrencyShares?:1:*int32 lendablePercent?:2:*int32
FlowDistinguisherMethod type:1:string
FlowSchema* metadata?:1:m/ObjectMeta spec?:2:FlowSchemaSpec status?:3:FlowSchemaStatus
FlowSchemaCondition type?:1:string status?:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
FlowSchemaSpec priorityLevelConfiguration:1:PriorityLevelConfigurationReference matchingPrecedence:2:int32 distinguisherMethod?:3:*FlowDistinguisherMethod rules?:4:[]PolicyRulesWithSubjects
FlowSchemaStatus conditions?:1:[]FlowSchemaCondition
GroupSubject name:1:string
LimitResponse type:1:string queuing?:2:*QueuingConfiguration
LimitedPriorityLevelConfiguration nominalConcurrencyShares:1:int32 limitResponse?:2:LimitResponse lendablePercent?:3:*int32 borrowingLimitPercent?:4:*int32
NonResourcePolicyRule verbs:1:[]string nonResourceURLs:6:[]string
PolicyRulesWithSubjects subjects:1:[]Subject resourceRules?:2:[]ResourcePolicyRule nonResourceRules?:3:[]NonResourcePolicyRule
PriorityLevelConfiguration* metadata?:1:m/ObjectMeta spec?:2:PriorityLevelConfigurationSpec status?:3:PriorityLevelConfigurationStatus
PriorityLevelConfigurationCondition type?:1:string status?:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
PriorityLevelConfigurationReference name:1:string
PriorityLevelConfigurationSpec type:1:string limited?:2:*LimitedPriorityLevelConfiguration exempt?:3:*ExemptPriorityLevelConfiguration
PriorityLevelConfigurationStatus conditions?:1:[]PriorityLevelConfigurationCondition
QueuingConfiguration queues:1:int32 handSize:2:int32 queueLengthLimit:3:int32
ResourcePolicyRule verbs:1:[]string apiGroups:2:[]string resources:3:[]string clusterScope?:4:bool namespaces:5:[]string
ServiceAccountSubject namespace:1:string name:2:string
Subject kind:1:string user?:2:*UserSubject group?:3:*GroupSubject serviceAccount?:4:*ServiceAccountSubject
UserSubject name:1:string
@ k8s.io.api.imagepolicy.v1alpha1 imagepolicy.k8s.io/v1alpha1
ImageReview* metadata?:1:m/ObjectMeta spec:2:ImageReviewSpec status?:3:ImageReviewStatus
ImageReviewContainerSpec image?:1:string
ImageReviewSpec containers?:1:[]ImageReviewContainerSpec annotations?:2:{}string namespace?:3:string
ImageReviewStatus allowed:1:bool reason?:2:string auditAnnotations?:3:{}string
@ k8s.io.api.lifecycle.v1alpha1 lifecycle.k8s.io/v1alpha1
Eviction* metadata?:1:m/ObjectMeta spec:2:EvictionSpec status?:3:EvictionStatus
EvictionPodReference name:1:string uid:2:string
EvictionRequest* metadata?:1:m/ObjectMeta spec:2:EvictionRequestSpec status?:3:EvictionRequestStatus
EvictionRequestPodReference name:1:string uid:2:string
EvictionRequestSpec target:1:EvictionRequestTarget requester:2:string intent:3:string
EvictionRequestStatus conditions?:1:[]m/Condition observedGeneration?:2:*int64
EvictionRequestTarget pod?:1:*EvictionRequestPodReference
EvictionSpec target:1:EvictionTarget
EvictionStatus conditions?:1:[]m/Condition observedGeneration?:2:*int64 requesters?:3:[]Requester targetResponders?:4:[]TargetResponder responders?:5:[]ResponderStatus
EvictionTarget pod?:1:*EvictionPodReference
Requester name:1:string intent:2:string
ResponderStatus name:1:string startTime?:2:*time heartbeatTime?:3:*time expectedCompletionTime?:4:*time completionTime?:5:*time message?:6:*string
TargetResponder name:1:string priority:2:*int32 state:3:string
@ k8s.io.api.networking.v1 networking.k8s.io/v1
HTTPIngressPath path?:1:string pathType:3:*string backend:2:IngressBackend
HTTPIngressRuleValue paths:1:[]HTTPIngressPath
IPAddress* metadata?:1:m/ObjectMeta spec?:2:IPAddressSpec
IPAddressSpec parentRef?:1:*ParentReference
IPBlock cidr:1:string except?:2:[]string
Ingress* metadata?:1:m/ObjectMeta spec?:2:IngressSpec status?:3:IngressStatus
IngressBackend service?:4:*IngressServiceBackend resource?:3:*c/TypedLocalObjectReference
IngressClass* metadata?:1:m/ObjectMeta spec?:2:IngressClassSpec
IngressClassParametersReference apiGroup?:1:*string kind:2:string name:3:string scope?:4:*string namespace?:5:*string
IngressClassSpec controller?:1:string parameters?:2:*IngressClassParametersReference
IngressLoadBalancerIngress ip?:1:string hostname?:2:string ports?:4:[]IngressPortStatus
IngressLoadBalancerStatus ingress?:1:[]IngressLoadBalancerIngress
IngressPortStatus port:1:int32 protocol:2:string error?:3:*string
IngressRule host?:1:string :2:IngressRuleValue
IngressRuleValue http?:1:*HTTPIngressRuleValue
IngressServiceBackend name:1:string port?:2:ServiceBackendPort
IngressSpec ingressClassName?:4:*string defaultBackend?:1:*IngressBackend tls?:2:[]IngressTLS rules?:3:[]IngressRule
IngressStatus loadBalancer?:1:IngressLoadBalancerStatus
IngressTLS hosts?:1:[]string secretName?:2:string
NetworkPolicy* metadata?:1:m/ObjectMeta spec?:2:NetworkPolicySpec status?:3:*NetworkPolicyStatus
NetworkPolicyEgressRule ports?:1:[]NetworkPolicyPort to?:2:[]NetworkPolicyPeer
NetworkPolicyIngressRule ports?:1:[]NetworkPolicyPort from?:2:[]NetworkPolicyPeer
NetworkPolicyPeer podSelector?:1:*m/LabelSelector namespaceSelector?:2:*m/LabelSelector ipBlock?:3:*IPBlock
NetworkPolicyPort protocol?:1:*string port?:2:*intorstring endPort?:3:*int32
NetworkPolicySpec podSelector:1:m/LabelSelector ingress?:2:[]NetworkPolicyIngressRule egress?:3:[]NetworkPolicyEgressRule policyTypes?:4:[]string
ParentReference group?:1:string resource?:2:string namespace?:3:string name?:4:string
ServiceBackendPort name?:1:string number?:2:int32
ServiceCIDR* metadata?:1:m/ObjectMeta spec?:2:ServiceCIDRSpec status?:3:ServiceCIDRStatus
ServiceCIDRSpec cidrs?:1:[]string
ServiceCIDRStatus conditions?:1:[]m/Condition
NetworkPolicyStatus conditions?:1:[]m/Condition
@ k8s.io.api.networking.v1beta1 networking.k8s.io/v1beta1
HTTPIngressPath path?:1:string pathType?:3:*string backend:2:IngressBackend
HTTPIngressRuleValue paths:1:[]HTTPIngressPath
IPAddress* metadata?:1:m/ObjectMeta spec?:2:IPAddressSpec
IPAddressSpec parentRef?:1:*ParentReference
Ingress* metadata?:1:m/ObjectMeta spec?:2:IngressSpec status?:3:IngressStatus
IngressBackend serviceName?:1:string servicePort?:2:intorstring resource?:3:*c/TypedLocalObjectReference
IngressClass* metadata?:1:m/ObjectMeta spec?:2:IngressClassSpec
IngressClassParametersReference apiGroup?:1:*string kind:2:string name:3:string scope?:4:*string namespace?:5:*string
IngressClassSpec controller?:1:string parameters?:2:*IngressClassParametersReference
IngressLoadBalancerIngress ip?:1:string hostname?:2:string ports?:4:[]IngressPortStatus
IngressLoadBalancerStatus ingress?:1:[]IngressLoadBalancerIngress
IngressPortStatus port:1:int32 protocol:2:string error?:3:*string
IngressRule host?:1:string :2:IngressRuleValue
IngressRuleValue http?:1:*HTTPIngressRuleValue
IngressSpec ingressClassName?:4:*string backend?:1:*IngressBackend tls?:2:[]IngressTLS rules?:3:[]IngressRule
IngressStatus loadBalancer?:1:IngressLoadBalancerStatus
IngressTLS hosts?:1:[]string secretName?:2:string
ParentReference group?:1:string resource?:2:string namespace?:3:string name?:4:string
ServiceCIDR* metadata?:1:m/ObjectMeta spec?:2:ServiceCIDRSpec status?:3:ServiceCIDRStatus
ServiceCIDRSpec cidrs?:1:[]string
ServiceCIDRStatus conditions?:1:[]m/Condition
@ k8s.io.api.node.v1 node.k8s.io/v1
Overhead podFixed?:1:{}quantity
RuntimeClass* metadata?:1:m/ObjectMeta handler:2:string overhead?:3:*Overhead scheduling?:4:*Scheduling
Scheduling nodeSelector?:1:{}string tolerations?:2:[]c/Toleration
@ k8s.io.api.node.v1alpha1 node.k8s.io/v1alpha1
Overhead podFixed?:1:{}quantity
RuntimeClass* metadata?:1:m/ObjectMeta spec:2:RuntimeClassSpec
RuntimeClassSpec runtimeHandler:1:string overhead?:2:*Overhead scheduling?:3:*Scheduling
Scheduling nodeSelector?:1:{}string tolerations?:2:[]c/Toleration
@ k8s.io.api.node.v1beta1 node.k8s.io/v1beta1
Overhead podFixed?:1:{}quantity
RuntimeClass* metadata?:1:m/ObjectMeta handler:2:string overhead?:3:*Overhead scheduling?:4:*Scheduling
Scheduling nodeSelector?:1:{}string tolerations?:2:[]c/Toleration
@ k8s.io.api.policy.v1 policy/v1
Eviction* metadata?:1:m/ObjectMeta deleteOptions?:2:*m/DeleteOptions
PodDisruptionBudget* metadata?:1:m/ObjectMeta spec?:2:PodDisruptionBudgetSpec status?:3:PodDisruptionBudgetStatus
PodDisruptionBudgetSpec minAvailable?:1:*intorstring selector?:2:*m/LabelSelector maxUnavailable?:3:*intorstring unhealthyPodEvictionPolicy?:4:*string
PodDisruptionBudgetStatus observedGeneration?:1:int64 disruptedPods?:2:{}time disruptionsAllowed:3:int32 currentHealthy:4:int32 desiredHealthy:5:int32 expectedPods:6:int32 conditions?:7:[]m/Condition
@ k8s.io.api.policy.v1beta1 policy/v1beta1
Eviction* metadata?:1:m/ObjectMeta deleteOptions?:2:*m/DeleteOptions
PodDisruptionBudget* metadata?:1:m/ObjectMeta spec?:2:PodDisruptionBudgetSpec status?:3:PodDisruptionBudgetStatus
PodDisruptionBudgetSpec minAvailable?:1:*intorstring selector?:2:*m/LabelSelector maxUnavailable?:3:*intorstring unhealthyPodEvictionPolicy?:4:*string
PodDisruptionBudgetStatus observedGeneration?:1:int64 disruptedPods?:2:{}time disruptionsAllowed:3:int32 currentHealthy:4:int32 desiredHealthy:5:int32 expectedPods:6:int32 conditions?:7:[]m/Condition
AllowedCSIDriver name:1:string
AllowedFlexVolume driver:1:string
AllowedHostPath pathPrefix?:1:string readOnly?:2:bool
FSGroupStrategyOptions rule?:1:string ranges?:2:[]IDRange
HostPortRange min:1:int32 max:2:int32
IDRange min:1:int64 max:2:int64
PodSecurityPolicy* metadata?:1:m/ObjectMeta spec?:2:PodSecurityPolicySpec
PodSecurityPolicySpec privileged?:1:bool defaultAddCapabilities?:2:[]string requiredDropCapabilities?:3:[]string allowedCapabilities?:4:[]string volumes?:5:[]string hostNetwork?:6:bool hostPorts?:7:[]HostPortRange hostPID?:8:bool hostIPC?:9:bool seLinux:10:SELinuxStrategyOptions runAsUser:11:RunAsUserStrategyOptions runAsGroup?:22:*RunAsGroupStrategyOptions supplementalGroups:12:SupplementalGroupsStrategyOptions fsGroup:13:FSGroupStrategyOptions readOnlyRootFilesystem?:14:bool defaultAllowPrivilegeEscalation?:15:*bool allowPrivilegeEscalation?:16:*bool allowedHostPaths?:17:[]AllowedHostPath allowedFlexVolumes?:18:[]AllowedFlexVolume allowedCSIDrivers?:23:[]AllowedCSIDriver allowedUnsafeSysctls?:19:[]string forbiddenSysctls?:20:[]string allowedProcMountTypes?:21:[]string runtimeClass?:24:*RuntimeClassStrategyOptions
RunAsGroupStrategyOptions rule:1:string ranges?:2:[]IDRange
RunAsUserStrategyOptions rule:1:string ranges?:2:[]IDRange
RuntimeClassStrategyOptions allowedRuntimeClassNames:1:[]string defaultRuntimeClassName?:2:*string
SELinuxStrategyOptions rule:1:string seLinuxOptions?:2:*c/SELinuxOptions
SupplementalGroupsStrategyOptions rule?:1:string ranges?:2:[]IDRange
@ k8s.io.api.rbac.v1 rbac.authorization.k8s.io/v1
AggregationRule clusterRoleSelectors?:1:[]m/LabelSelector
ClusterRole* metadata?:1:m/ObjectMeta rules:2:[]PolicyRule aggregationRule?:3:*AggregationRule
ClusterRoleBinding* metadata?:1:m/ObjectMeta subjects?:2:[]Subject roleRef:3:RoleRef
PolicyRule verbs:1:[]string apiGroups?:2:[]string resources?:3:[]string resourceNames?:4:[]string nonResourceURLs?:5:[]string
Role* metadata?:1:m/ObjectMeta rules:2:[]PolicyRule
RoleBinding* metadata?:1:m/ObjectMeta subjects?:2:[]Subject roleRef:3:RoleRef
RoleRef apiGroup:1:string kind:2:string name:3:string
Subject kind:1:string apiGroup?:2:string name:3:string namespace?:4:string
@ k8s.io.api.rbac.v1alpha1 rbac.authorization.k8s.io/v1alpha1
AggregationRule clusterRoleSelectors?:1:[]m/LabelSelector
ClusterRole* metadata?:1:m/ObjectMeta rules:2:[]PolicyRule aggregationRule?:3:*AggregationRule
ClusterRoleBinding* metadata?:1:m/ObjectMeta subjects?:2:[]Subject roleRef:3:RoleRef
PolicyRule verbs:1:[]string apiGroups?:3:[]string resources?:4:[]string resourceNames?:5:[]string nonResourceURLs?:6:[]string
Role* metadata?:1:m/ObjectMeta rules:2:[]PolicyRule
RoleBinding* metadata?:1:m/ObjectMeta subjects?:2:[]Subject roleRef:3:RoleRef
RoleRef apiGroup:1:string kind:2:string name:3:string
Subject kind:1:string apiVersion?:2:string name:3:string namespace?:4:string
@ k8s.io.api.rbac.v1beta1 rbac.authorization.k8s.io/v1beta1
AggregationRule clusterRoleSelectors?:1:[]m/LabelSelector
ClusterRole* metadata?:1:m/ObjectMeta rules:2:[]PolicyRule aggregationRule?:3:*AggregationRule
ClusterRoleBinding* metadata?:1:m/ObjectMeta subjects?:2:[]Subject roleRef:3:RoleRef
PolicyRule verbs:1:[]string apiGroups?:2:[]string resources?:3:[]string resourceNames?:4:[]string nonResourceURLs?:5:[]string
Role* metadata?:1:m/ObjectMeta rules:2:[]PolicyRule
RoleBinding* metadata?:1:m/ObjectMeta subjects?:2:[]Subject roleRef:3:RoleRef
RoleRef apiGroup:1:string kind:2:string name:3:string
Subject kind:1:string apiGroup?:2:string name:3:string namespace?:4:string
@ k8s.io.api.resource.v1 resource.k8s.io/v1
AllocatedDeviceStatus driver:1:string pool:2:string device:3:string shareID?:7:*string conditions:4:[]m/Condition data?:5:*json networkData?:6:*NetworkDeviceData
AllocationResult devices?:1:DeviceAllocationResult nodeSelector?:3:*c/NodeSelector allocationTimestamp?:5:*time
CELDeviceSelector expression:1:string
CapacityRequestPolicy default:1:*quantity validValues?:3:[]quantity validRange?:4:*CapacityRequestPolicyRange
CapacityRequestPolicyRange min?:1:*quantity max?:2:*quantity step?:3:*quantity
CapacityRequirements requests?:1:{}quantity
Counter value:1:quantity
CounterSet name:1:string counters?:2:{}Counter
Device name:1:string attributes?:2:{}DeviceAttribute capacity?:3:{}DeviceCapacity consumesCounters?:4:[]DeviceCounterConsumption nodeName?:5:*string nodeSelector?:6:*c/NodeSelector allNodes?:7:*bool taints?:8:[]DeviceTaint bindsToNode?:9:*bool bindingConditions?:10:[]string bindingFailureConditions?:11:[]string allowMultipleAllocations?:12:*bool nodeAllocatableResources?:14:{}NodeAllocatableResource nodeAllocatableResourceMappings?:13:{}NodeAllocatableResourceMapping
DeviceAllocationConfiguration source:1:string requests?:2:[]string :3:DeviceConfiguration
DeviceAllocationResult results?:1:[]DeviceRequestAllocationResult config?:2:[]DeviceAllocationConfiguration
DeviceAttribute int?:2:*int64 bool?:3:*bool string?:4:*string version?:5:*string ints?:6:[]int64 bools?:7:[]bool strings?:8:[]string versions?:9:[]string
DeviceCapacity value:1:quantity requestPolicy?:2:*CapacityRequestPolicy
DeviceClaim requests:1:[]DeviceRequest constraints?:2:[]DeviceConstraint config?:3:[]DeviceClaimConfiguration
DeviceClaimConfiguration requests?:1:[]string :2:DeviceConfiguration
DeviceClass* metadata?:1:m/ObjectMeta spec:2:DeviceClassSpec
DeviceClassConfiguration :1:DeviceConfiguration
DeviceClassSpec selectors?:1:[]DeviceSelector config?:2:[]DeviceClassConfiguration extendedResourceName?:4:*string
DeviceConfiguration opaque?:1:*OpaqueDeviceConfiguration
DeviceConstraint requests?:1:[]string matchAttribute?:2:*string distinctAttribute?:3:*string
DeviceCounterConsumption counterSet:1:string counters?:2:{}Counter
DeviceRequest name:1:string exactly?:2:*ExactDeviceRequest firstAvailable?:3:[]DeviceSubRequest
DeviceRequestAllocationResult request:1:string driver:2:string pool:3:string device:4:string adminAccess?:5:*bool tolerations?:6:[]DeviceToleration bindingConditions?:7:[]string bindingFailureConditions?:8:[]string shareID?:9:*string consumedCapacity?:10:{}quantity skipNodeOperations?:11:[]string
DeviceSelector cel?:1:*CELDeviceSelector
DeviceSubRequest name:1:string deviceClassName:2:string selectors?:3:[]DeviceSelector allocationMode?:4:string count?:5:int64 tolerations?:6:[]DeviceToleration capacity?:7:*CapacityRequirements
DeviceTaint key:1:string value?:2:string effect:3:string timeAdded?:4:*time
DeviceTaintRule* metadata?:1:m/ObjectMeta spec:2:DeviceTaintRuleSpec status?:3:DeviceTaintRuleStatus
DeviceTaintRuleSpec deviceSelector?:1:*DeviceTaintSelector taint?:2:DeviceTaint
DeviceTaintRuleStatus conditions?:1:[]m/Condition
DeviceTaintSelector driver?:2:*string pool?:3:*string device?:4:*string
DeviceToleration key?:1:string operator?:2:string value?:3:string effect?:4:string tolerationSeconds?:5:*int64
ExactDeviceRequest deviceClassName:1:string selectors?:2:[]DeviceSelector allocationMode?:3:string count?:4:int64 adminAccess?:5:*bool tolerations?:6:[]DeviceToleration capacity?:7:*CapacityRequirements
NetworkDeviceData interfaceName?:1:string ips?:2:[]string hardwareAddress?:3:string
NodeAllocatableMapping capacityKey?:1:*string capacityMultiplier?:2:*quantity deviceMultiplier?:3:*quantity
NodeAllocatableOverhead perPod?:1:*quantity perContainer?:2:*quantity
NodeAllocatableResource mapping?:3:*NodeAllocatableMapping overhead?:4:*NodeAllocatableOverhead
OpaqueDeviceConfiguration driver:1:string parameters:2:json
ResourceClaim* metadata?:1:m/ObjectMeta spec:2:ResourceClaimSpec status?:3:ResourceClaimStatus
ResourceClaimConsumerReference apiGroup?:1:string resource:3:string name:4:string uid:5:string
ResourceClaimSpec devices:1:DeviceClaim
ResourceClaimStatus allocation?:1:*AllocationResult reservedFor?:2:[]ResourceClaimConsumerReference devices?:4:[]AllocatedDeviceStatus
ResourceClaimTemplate* metadata?:1:m/ObjectMeta spec:2:ResourceClaimTemplateSpec
ResourceClaimTemplateSpec metadata?:1:m/ObjectMeta spec:2:ResourceClaimSpec
ResourcePool name:1:string generation:2:int64 resourceSliceCount:3:int64
ResourceSlice* metadata?:1:m/ObjectMeta spec:2:ResourceSliceSpec
ResourceSliceSpec driver:1:string pool:2:ResourcePool nodeName?:3:*string nodeSelector?:4:*c/NodeSelector allNodes?:5:*bool devices?:6:[]Device perDeviceNodeSelection?:7:*bool sharedCounters?:8:[]CounterSet partitionTypeAttribute?:9:*string skipNodeOperations?:10:[]string
NodeAllocatableResourceMapping capacityKey?:1:*string allocationMultiplier?:2:*quantity
@ k8s.io.api.resource.v1alpha3 resource.k8s.io/v1alpha3
CELDeviceSelector expression:1:string
DeviceSelector cel?:1:*CELDeviceSelector
DeviceTaint key:1:string value?:2:string effect:3:string timeAdded?:4:*time
DeviceTaintRule* metadata?:1:m/ObjectMeta spec:2:DeviceTaintRuleSpec status?:3:*DeviceTaintRuleStatus
DeviceTaintRuleSpec deviceSelector?:1:*DeviceTaintSelector taint?:2:DeviceTaint
DeviceTaintRuleStatus conditions?:1:[]m/Condition
DeviceTaintSelector driver?:2:*string pool?:3:*string device?:4:*string deviceClassName?:1:*string selectors?:5:[]DeviceSelector
PartitionTypeStatus attribute?:4:string type?:1:string total?:2:*int32 allocatable?:3:*int32
PoolStatus driver?:1:string poolName?:2:string generation:9:int64 resourceSliceCount?:8:*int32 totalDevices?:4:*int32 allocatedDevices?:5:*int32 availableDevices?:6:*int32 unavailableDevices?:7:*int32 nodeName?:3:*string validationError?:10:*string partitionSummary?:11:[]PartitionTypeStatus shareableSummary?:13:*ShareableSummaryStatus
ResourcePoolStatusRequest* metadata?:1:m/ObjectMeta spec:2:ResourcePoolStatusRequestSpec status?:3:*ResourcePoolStatusRequestStatus
ResourcePoolStatusRequestSpec driver:1:string poolName?:2:*string limit?:3:*int32 defaultPartitionTypeAttribute?:4:*string
ResourcePoolStatusRequestStatus poolCount?:6:*int32 pools?:2:[]PoolStatus conditions?:3:[]m/Condition
ShareableCapacityStatus name?:1:string total?:2:*quantity consumed?:3:*quantity available?:4:*quantity
ShareableSummaryStatus fullyAvailableDevices?:1:*int32 partiallyAvailableDevices?:2:*int32 capacity?:3:[]ShareableCapacityStatus
AllocatedDeviceStatus driver:1:string pool:2:string device:3:string conditions:4:[]m/Condition data?:5:*json networkData?:6:*NetworkDeviceData
AllocationResult devices?:1:DeviceAllocationResult nodeSelector?:3:*c/NodeSelector controller?:4:string
BasicDevice attributes?:1:{}DeviceAttribute capacity?:2:{}quantity consumesCounters?:3:[]DeviceCounterConsumption nodeName?:4:*string nodeSelector?:5:*c/NodeSelector allNodes?:6:*bool taints?:7:[]DeviceTaint
Counter value:1:quantity
CounterSet name:1:string counters?:2:{}Counter
Device name:1:string basic?:2:*BasicDevice
DeviceAllocationConfiguration source:1:string requests?:2:[]string :3:DeviceConfiguration
DeviceAllocationResult results?:1:[]DeviceRequestAllocationResult config?:2:[]DeviceAllocationConfiguration
DeviceAttribute int?:2:*int64 bool?:3:*bool string?:4:*string version?:5:*string
DeviceClaim requests:1:[]DeviceRequest constraints?:2:[]DeviceConstraint config?:3:[]DeviceClaimConfiguration
DeviceClaimConfiguration requests?:1:[]string :2:DeviceConfiguration
DeviceClass* metadata?:1:m/ObjectMeta spec:2:DeviceClassSpec
DeviceClassConfiguration :1:DeviceConfiguration
DeviceClassSpec selectors?:1:[]DeviceSelector config?:2:[]DeviceClassConfiguration suitableNodes?:3:*c/NodeSelector
DeviceConfiguration opaque?:1:*OpaqueDeviceConfiguration
DeviceConstraint requests?:1:[]string matchAttribute?:2:*string
DeviceCounterConsumption counterSet:1:string counters?:2:{}Counter
DeviceRequest name:1:string deviceClassName:2:string selectors?:3:[]DeviceSelector allocationMode?:4:string count?:5:int64 adminAccess?:6:*bool firstAvailable?:7:[]DeviceSubRequest tolerations?:8:[]DeviceToleration
DeviceRequestAllocationResult request:1:string driver:2:string pool:3:string device:4:string adminAccess?:5:*bool tolerations?:6:[]DeviceToleration
DeviceSubRequest name:1:string deviceClassName:2:string selectors?:3:[]DeviceSelector allocationMode?:4:string count?:5:int64 tolerations?:7:[]DeviceToleration
DeviceToleration key?:1:string operator?:2:string value?:3:string effect?:4:string tolerationSeconds?:5:*int64
NetworkDeviceData interfaceName?:1:string ips?:2:[]string hardwareAddress?:3:string
OpaqueDeviceConfiguration driver:1:string parameters:2:json
ResourceClaim* metadata?:1:m/ObjectMeta spec:2:ResourceClaimSpec status?:3:ResourceClaimStatus
ResourceClaimConsumerReference apiGroup?:1:string resource:3:string name:4:string uid:5:string
ResourceClaimSpec devices:1:DeviceClaim controller?:2:string
ResourceClaimStatus allocation?:1:*AllocationResult reservedFor?:2:[]ResourceClaimConsumerReference devices?:4:[]AllocatedDeviceStatus deallocationRequested?:3:bool
ResourceClaimTemplate* metadata?:1:m/ObjectMeta spec:2:ResourceClaimTemplateSpec
ResourceClaimTemplateSpec metadata?:1:m/ObjectMeta spec:2:ResourceClaimSpec
ResourcePool name:1:string generation:2:int64 resourceSliceCount:3:int64
ResourceSlice* metadata?:1:m/ObjectMeta spec:2:ResourceSliceSpec
ResourceSliceSpec driver:1:string pool:2:ResourcePool nodeName?:3:string nodeSelector?:4:*c/NodeSelector allNodes?:5:bool devices:6:[]Device perDeviceNodeSelection?:7:*bool sharedCounters?:8:[]CounterSet
PodSchedulingContext* metadata?:1:m/ObjectMeta spec:2:PodSchedulingContextSpec status?:3:PodSchedulingContextStatus
PodSchedulingContextSpec selectedNode?:1:string potentialNodes?:2:[]string
PodSchedulingContextStatus resourceClaims?:1:[]ResourceClaimSchedulingStatus
ResourceClaimSchedulingStatus name:1:string unsuitableNodes?:2:[]string
@ k8s.io.api.resource.v1beta1 resource.k8s.io/v1beta1
AllocatedDeviceStatus driver:1:string pool:2:string device:3:string shareID?:7:*string conditions:4:[]m/Condition data?:5:*json networkData?:6:*NetworkDeviceData
AllocationResult devices?:1:DeviceAllocationResult nodeSelector?:3:*c/NodeSelector allocationTimestamp?:5:*time
BasicDevice attributes?:1:{}DeviceAttribute capacity?:2:{}DeviceCapacity consumesCounters?:3:[]DeviceCounterConsumption nodeName?:4:*string nodeSelector?:5:*c/NodeSelector allNodes?:6:*bool taints?:7:[]DeviceTaint bindsToNode?:8:*bool bindingConditions?:9:[]string bindingFailureConditions?:10:[]string allowMultipleAllocations?:11:*bool nodeAllocatableResources?:14:{}NodeAllocatableResource nodeAllocatableResourceMappings?:12:{}NodeAllocatableResourceMapping
CELDeviceSelector expression:1:string
CapacityRequestPolicy default:1:*quantity validValues?:3:[]quantity validRange?:4:*CapacityRequestPolicyRange
CapacityRequestPolicyRange min?:1:*quantity max?:2:*quantity step?:3:*quantity
CapacityRequirements requests?:1:{}quantity
Counter value:1:quantity
CounterSet name:1:string counters?:2:{}Counter
Device name:1:string basic?:2:*BasicDevice
DeviceAllocationConfiguration source:1:string requests?:2:[]string :3:DeviceConfiguration
DeviceAllocationResult results?:1:[]DeviceRequestAllocationResult config?:2:[]DeviceAllocationConfiguration
DeviceAttribute int?:2:*int64 bool?:3:*bool string?:4:*string version?:5:*string ints?:6:[]int64 bools?:7:[]bool strings?:8:[]string versions?:9:[]string
DeviceCapacity value:1:quantity requestPolicy?:2:*CapacityRequestPolicy
DeviceClaim requests:1:[]DeviceRequest constraints?:2:[]DeviceConstraint config?:3:[]DeviceClaimConfiguration
DeviceClaimConfiguration requests?:1:[]string :2:DeviceConfiguration
DeviceClass* metadata?:1:m/ObjectMeta spec:2:DeviceClassSpec
DeviceClassConfiguration :1:DeviceConfiguration
DeviceClassSpec selectors?:1:[]DeviceSelector config?:2:[]DeviceClassConfiguration extendedResourceName?:4:*string
DeviceConfiguration opaque?:1:*OpaqueDeviceConfiguration
DeviceConstraint requests?:1:[]string matchAttribute?:2:*string distinctAttribute?:3:*string
DeviceCounterConsumption counterSet:1:string counters?:2:{}Counter
DeviceRequest name:1:string deviceClassName:2:string selectors?:3:[]DeviceSelector allocationMode?:4:string count?:5:int64 adminAccess?:6:*bool firstAvailable?:7:[]DeviceSubRequest tolerations?:8:[]DeviceToleration capacity?:9:*CapacityRequirements
DeviceRequestAllocationResult request:1:string driver:2:string pool:3:string device:4:string adminAccess?:5:*bool tolerations?:6:[]DeviceToleration bindingConditions?:7:[]string bindingFailureConditions?:8:[]string shareID?:9:*string consumedCapacity?:10:{}quantity skipNodeOperations?:11:[]string
DeviceSelector cel?:1:*CELDeviceSelector
DeviceSubRequest name:1:string deviceClassName:2:string selectors?:3:[]DeviceSelector allocationMode?:4:string count?:5:int64 tolerations?:7:[]DeviceToleration capacity?:8:*CapacityRequirements
DeviceTaint key:1:string value?:2:string effect:3:string timeAdded?:4:*time
DeviceToleration key?:1:string operator?:2:string value?:3:string effect?:4:string tolerationSeconds?:5:*int64
NetworkDeviceData interfaceName?:1:string ips?:2:[]string hardwareAddress?:3:string
NodeAllocatableMapping capacityKey?:1:*string capacityMultiplier?:2:*quantity deviceMultiplier?:3:*quantity
NodeAllocatableOverhead perPod?:1:*quantity perContainer?:2:*quantity
NodeAllocatableResource mapping?:3:*NodeAllocatableMapping overhead?:4:*NodeAllocatableOverhead
OpaqueDeviceConfiguration driver:1:string parameters:2:json
ResourceClaim* metadata?:1:m/ObjectMeta spec:2:ResourceClaimSpec status?:3:ResourceClaimStatus
ResourceClaimConsumerReference apiGroup?:1:string resource:3:string name:4:string uid:5:string
ResourceClaimSpec devices:1:DeviceClaim
ResourceClaimStatus allocation?:1:*AllocationResult reservedFor?:2:[]ResourceClaimConsumerReference devices?:4:[]AllocatedDeviceStatus
ResourceClaimTemplate* metadata?:1:m/ObjectMeta spec:2:ResourceClaimTemplateSpec
ResourceClaimTemplateSpec metadata?:1:m/ObjectMeta spec:2:ResourceClaimSpec
ResourcePool name:1:string generation:2:int64 resourceSliceCount:3:int64
ResourceSlice* metadata?:1:m/ObjectMeta spec:2:ResourceSliceSpec
ResourceSliceSpec driver:1:string pool:2:ResourcePool nodeName?:3:string nodeSelector?:4:*c/NodeSelector allNodes?:5:bool devices?:6:[]Device perDeviceNodeSelection?:7:*bool sharedCounters?:8:[]CounterSet partitionTypeAttribute?:9:*string skipNodeOperations?:10:[]string
NodeAllocatableResourceMapping capacityKey?:1:*string allocationMultiplier?:2:*quantity
@ k8s.io.api.resource.v1beta2 resource.k8s.io/v1beta2
AllocatedDeviceStatus driver:1:string pool:2:string device:3:string shareID?:7:*string conditions:4:[]m/Condition data?:5:*json networkData?:6:*NetworkDeviceData
AllocationResult devices?:1:DeviceAllocationResult nodeSelector?:3:*c/NodeSelector allocationTimestamp?:5:*time
CELDeviceSelector expression:1:string
CapacityRequestPolicy default:1:*quantity validValues?:3:[]quantity validRange?:4:*CapacityRequestPolicyRange
CapacityRequestPolicyRange min?:1:*quantity max?:2:*quantity step?:3:*quantity
CapacityRequirements requests?:1:{}quantity
Counter value:1:quantity
CounterSet name:1:string counters?:2:{}Counter
Device name:1:string attributes?:2:{}DeviceAttribute capacity?:3:{}DeviceCapacity consumesCounters?:4:[]DeviceCounterConsumption nodeName?:5:*string nodeSelector?:6:*c/NodeSelector allNodes?:7:*bool taints?:8:[]DeviceTaint bindsToNode?:9:*bool bindingConditions?:10:[]string bindingFailureConditions?:11:[]string allowMultipleAllocations?:12:*bool nodeAllocatableResources?:14:{}NodeAllocatableResource nodeAllocatableResourceMappings?:13:{}NodeAllocatableResourceMapping
DeviceAllocationConfiguration source:1:string requests?:2:[]string :3:DeviceConfiguration
DeviceAllocationResult results?:1:[]DeviceRequestAllocationResult config?:2:[]DeviceAllocationConfiguration
DeviceAttribute int?:2:*int64 bool?:3:*bool string?:4:*string version?:5:*string ints?:6:[]int64 bools?:7:[]bool strings?:8:[]string versions?:9:[]string
DeviceCapacity value:1:quantity requestPolicy?:2:*CapacityRequestPolicy
DeviceClaim requests:1:[]DeviceRequest constraints?:2:[]DeviceConstraint config?:3:[]DeviceClaimConfiguration
DeviceClaimConfiguration requests?:1:[]string :2:DeviceConfiguration
DeviceClass* metadata?:1:m/ObjectMeta spec:2:DeviceClassSpec
DeviceClassConfiguration :1:DeviceConfiguration
DeviceClassSpec selectors?:1:[]DeviceSelector config?:2:[]DeviceClassConfiguration extendedResourceName?:4:*string
DeviceConfiguration opaque?:1:*OpaqueDeviceConfiguration
DeviceConstraint requests?:1:[]string matchAttribute?:2:*string distinctAttribute?:3:*string
DeviceCounterConsumption counterSet:1:string counters?:2:{}Counter
DeviceRequest name:1:string exactly?:2:*ExactDeviceRequest firstAvailable?:3:[]DeviceSubRequest
DeviceRequestAllocationResult request:1:string driver:2:string pool:3:string device:4:string adminAccess?:5:*bool tolerations?:6:[]DeviceToleration bindingConditions?:7:[]string bindingFailureConditions?:8:[]string shareID?:9:*string consumedCapacity?:10:{}quantity skipNodeOperations?:11:[]string
DeviceSelector cel?:1:*CELDeviceSelector
DeviceSubRequest name:1:string deviceClassName:2:string selectors?:3:[]DeviceSelector allocationMode?:4:string count?:5:int64 tolerations?:6:[]DeviceToleration capacity?:7:*CapacityRequirements
DeviceTaint key:1:string value?:2:string effect:3:string timeAdded?:4:*time
DeviceTaintRule* metadata?:1:m/ObjectMeta spec:2:DeviceTaintRuleSpec status?:3:DeviceTaintRuleStatus
DeviceTaintRuleSpec deviceSelector?:1:*DeviceTaintSelector taint?:2:DeviceTaint
DeviceTaintRuleStatus conditions?:1:[]m/Condition
DeviceTaintSelector driver?:2:*string pool?:3:*string device?:4:*string
DeviceToleration key?:1:string operator?:2:string value?:3:string effect?:4:string tolerationSeconds?:5:*int64
ExactDeviceRequest deviceClassName:1:string selectors?:2:[]DeviceSelector allocationMode?:3:string count?:4:int64 adminAccess?:5:*bool tolerations?:6:[]DeviceToleration capacity?:7:*CapacityRequirements
NetworkDeviceData interfaceName?:1:string ips?:2:[]string hardwareAddress?:3:string
NodeAllocatableMapping capacityKey?:1:*string capacityMultiplier?:2:*quantity deviceMultiplier?:3:*quantity
NodeAllocatableOverhead perPod?:1:*quantity perContainer?:2:*quantity
NodeAllocatableResource mapping?:3:*NodeAllocatableMapping overhead?:4:*NodeAllocatableOverhead
OpaqueDeviceConfiguration driver:1:string parameters:2:json
ResourceClaim* metadata?:1:m/ObjectMeta spec:2:ResourceClaimSpec status?:3:ResourceClaimStatus
ResourceClaimConsumerReference apiGroup?:1:string resource:3:string name:4:string uid:5:string
ResourceClaimSpec devices:1:DeviceClaim
ResourceClaimStatus allocation?:1:*AllocationResult reservedFor?:2:[]ResourceClaimConsumerReference devices?:4:[]AllocatedDeviceStatus
ResourceClaimTemplate* metadata?:1:m/ObjectMeta spec:2:ResourceClaimTemplateSpec
ResourceClaimTemplateSpec metadata?:1:m/ObjectMeta spec:2:ResourceClaimSpec
ResourcePool name:1:string generation:2:int64 resourceSliceCount:3:int64
ResourceSlice* metadata?:1:m/ObjectMeta spec:2:ResourceSliceSpec
ResourceSliceSpec driver:1:string pool:2:ResourcePool nodeName?:3:*string nodeSelector?:4:*c/NodeSelector allNodes?:5:*bool devices?:6:[]Device perDeviceNodeSelection?:7:*bool sharedCounters?:8:[]CounterSet partitionTypeAttribute?:9:*string skipNodeOperations?:10:[]string
NodeAllocatableResourceMapping capacityKey?:1:*string allocationMultiplier?:2:*quantity
@ k8s.io.api.scheduling.v1 scheduling.k8s.io/v1
PriorityClass* metadata?:1:m/ObjectMeta value:2:int32 globalDefault?:3:bool description?:4:string preemptionPolicy?:5:*string
@ k8s.io.api.scheduling.v1alpha3 scheduling.k8s.io/v1alpha3
AllCompositeDisruptionMode
AllDisruptionMode
BasicSchedulingPolicy
CompositeBasicSchedulingPolicy
CompositeDisruptionMode single?:1:*SingleCompositeDisruptionMode all?:2:*AllCompositeDisruptionMode
CompositeGangSchedulingPolicy minGroupCount:1:int32
CompositePodGroup* metadata?:1:m/ObjectMeta spec:2:CompositePodGroupSpec status?:3:CompositePodGroupStatus
CompositePodGroupSchedulingConstraints topology?:1:[]TopologyConstraint
CompositePodGroupSchedulingPolicy basic?:1:*CompositeBasicSchedulingPolicy gang?:2:*CompositeGangSchedulingPolicy
CompositePodGroupSpec parentCompositePodGroupName?:1:*string workloadRef:2:*WorkloadReference schedulingPolicy:3:CompositePodGroupSchedulingPolicy schedulingConstraints?:4:*CompositePodGroupSchedulingConstraints disruptionMode?:5:*CompositeDisruptionMode priorityClassName?:6:string priority?:7:*int32 preemptionPolicy?:8:*string
CompositePodGroupStatus conditions?:1:[]m/Condition
CompositePodGroupTemplate name:1:string schedulingPolicy:2:CompositePodGroupSchedulingPolicy schedulingConstraints?:3:*CompositePodGroupSchedulingConstraints disruptionMode?:4:*CompositeDisruptionMode priorityClassName?:5:string priority?:6:*int32 preemptionPolicy?:7:*string podGroupTemplates?:8:[]PodGroupTemplate compositePodGroupTemplates?:9:[]CompositePodGroupTemplate
DisruptionMode single?:1:*SingleDisruptionMode all?:2:*AllDisruptionMode
GangSchedulingPolicy minCount:1:int32
PodGroup* metadata?:1:m/ObjectMeta spec:2:PodGroupSpec status?:3:PodGroupStatus
PodGroupResourceClaim name:1:string resourceClaimName?:2:*string resourceClaimTemplateName?:3:*string
PodGroupResourceClaimStatus name:1:string resourceClaimName?:2:*string
PodGroupSchedulingConstraints topology?:1:[]TopologyConstraint
PodGroupSchedulingPolicy basic?:1:*BasicSchedulingPolicy gang?:2:*GangSchedulingPolicy
PodGroupSpec parentCompositePodGroupName?:1:*string workloadRef?:2:*WorkloadReference schedulingPolicy:3:PodGroupSchedulingPolicy schedulingConstraints?:4:*PodGroupSchedulingConstraints resourceClaims?:5:[]PodGroupResourceClaim disruptionMode?:6:*DisruptionMode priorityClassName?:7:string priority?:8:*int32 preemptionPolicy?:9:*string
PodGroupStatus conditions?:1:[]m/Condition resourceClaimStatuses?:2:[]PodGroupResourceClaimStatus
PodGroupTemplate name:1:string schedulingPolicy:2:PodGroupSchedulingPolicy schedulingConstraints:3:*PodGroupSchedulingConstraints resourceClaims?:4:[]PodGroupResourceClaim disruptionMode?:5:*DisruptionMode priorityClassName?:6:string priority?:7:*int32 preemptionPolicy?:8:*string
SingleCompositeDisruptionMode
SingleDisruptionMode
TopologyConstraint key:1:string
TypedLocalObjectReference apiGroup?:1:string kind:2:string name:3:string
Workload* metadata?:1:m/ObjectMeta spec:2:WorkloadSpec
WorkloadPodGroupAllDisruptionMode
WorkloadPodGroupBasicSchedulingPolicy
WorkloadPodGroupDisruptionMode single?:1:*WorkloadPodGroupSingleDisruptionMode all?:2:*WorkloadPodGroupAllDisruptionMode
WorkloadPodGroupGangSchedulingPolicy minCount?:1:*int32
WorkloadPodGroupResourceClaim name:1:string resourceClaimName?:2:*string resourceClaimTemplateName?:3:*string
WorkloadPodGroupSchedulingConstraints topology?:1:[]TopologyConstraint
WorkloadPodGroupSchedulingPolicy basic?:1:*WorkloadPodGroupBasicSchedulingPolicy gang?:2:*WorkloadPodGroupGangSchedulingPolicy
WorkloadPodGroupSingleDisruptionMode
WorkloadReference workloadName:1:string templateName:2:string
WorkloadSpec controllerRef?:1:*TypedLocalObjectReference podGroupTemplates:2:[]PodGroupTemplate compositePodGroupTemplates?:3:[]CompositePodGroupTemplate
@ k8s.io.api.scheduling.v1beta1 scheduling.k8s.io/v1beta1
AllCompositeDisruptionMode
AllDisruptionMode
BasicSchedulingPolicy
CompositeBasicSchedulingPolicy
CompositeDisruptionMode single?:1:*SingleCompositeDisruptionMode all?:2:*AllCompositeDisruptionMode
CompositeGangSchedulingPolicy minGroupCount:1:int32
CompositePodGroupSchedulingConstraints topology?:1:[]TopologyConstraint
CompositePodGroupSchedulingPolicy basic?:1:*CompositeBasicSchedulingPolicy gang?:2:*CompositeGangSchedulingPolicy
CompositePodGroupTemplate name:1:string schedulingPolicy:2:CompositePodGroupSchedulingPolicy schedulingConstraints?:3:*CompositePodGroupSchedulingConstraints disruptionMode?:4:*CompositeDisruptionMode priorityClassName?:5:string priority?:6:*int32 preemptionPolicy?:7:*string podGroupTemplates?:8:[]PodGroupTemplate compositePodGroupTemplates?:9:[]CompositePodGroupTemplate
DisruptionMode single?:1:*SingleDisruptionMode all?:2:*AllDisruptionMode
GangSchedulingPolicy minCount:1:int32
PodGroup* metadata?:1:m/ObjectMeta spec:2:PodGroupSpec status?:3:PodGroupStatus
PodGroupResourceClaim name:1:string resourceClaimName?:2:*string resourceClaimTemplateName?:3:*string
PodGroupResourceClaimStatus name:1:string resourceClaimName?:2:*string
PodGroupSchedulingConstraints topology?:1:[]TopologyConstraint
PodGroupSchedulingPolicy basic?:1:*BasicSchedulingPolicy gang?:2:*GangSchedulingPolicy
PodGroupSpec parentCompositePodGroupName?:1:*string workloadRef?:2:*WorkloadReference schedulingPolicy:3:PodGroupSchedulingPolicy schedulingConstraints?:4:*PodGroupSchedulingConstraints resourceClaims?:5:[]PodGroupResourceClaim disruptionMode?:6:*DisruptionMode priorityClassName?:7:string priority?:8:*int32 preemptionPolicy?:9:*string
PodGroupStatus conditions?:1:[]m/Condition resourceClaimStatuses?:2:[]PodGroupResourceClaimStatus
PodGroupTemplate name:1:string schedulingPolicy:2:PodGroupSchedulingPolicy schedulingConstraints:3:*PodGroupSchedulingConstraints resourceClaims?:4:[]PodGroupResourceClaim disruptionMode?:5:*DisruptionMode priorityClassName?:6:string priority?:7:*int32 preemptionPolicy?:8:*string
PriorityClass* metadata?:1:m/ObjectMeta value:2:int32 globalDefault?:3:bool description?:4:string preemptionPolicy?:5:*string
SingleCompositeDisruptionMode
SingleDisruptionMode
TopologyConstraint key:1:string
TypedLocalObjectReference apiGroup?:1:string kind:2:string name:3:string
Workload* metadata?:1:m/ObjectMeta spec:2:WorkloadSpec
WorkloadReference workloadName:1:string templateName:2:string
WorkloadSpec controllerRef?:1:*TypedLocalObjectReference podGroupTemplates:2:[]PodGroupTemplate compositePodGroupTemplates?:3:[]CompositePodGroupTemplate
@ k8s.io.api.storage.v1 storage.k8s.io/v1
CSIDriver* metadata?:1:m/ObjectMeta spec:2:CSIDriverSpec
CSIDriverSpec attachRequired?:1:*bool podInfoOnMount?:2:*bool volumeLifecycleModes?:3:[]string storageCapacity?:4:*bool fsGroupPolicy?:5:*string tokenRequests?:6:[]TokenRequest requiresRepublish?:7:*bool seLinuxMount?:8:*bool nodeAllocatableUpdatePeriodSeconds?:9:*int64 serviceAccountTokenInSecrets?:10:*bool preventPodSchedulingIfMissing?:11:*bool
CSINode* metadata?:1:m/ObjectMeta spec:2:CSINodeSpec status?:3:*CSINodeStatus
CSINodeDriver name:1:string nodeID:2:string topologyKeys:3:[]string allocatable?:4:*VolumeNodeResources
CSINodeSpec drivers:1:[]CSINodeDriver
CSINodeStatus storageHealth?:1:[]StorageHealth
CSIStorageCapacity* metadata?:1:m/ObjectMeta nodeTopology?:2:*m/LabelSelector storageClassName:3:string capacity?:4:*quantity maximumVolumeSize?:5:*quantity
StorageClass* metadata?:1:m/ObjectMeta provisioner:2:string parameters?:3:{}string reclaimPolicy?:4:*string mountOptions?:5:[]string allowVolumeExpansion?:6:*bool volumeBindingMode?:7:*string allowedTopologies?:8:[]c/TopologySelectorTerm
StorageHealth name:1:string healthConditions?:2:[]StorageHealthCondition
StorageHealthCondition status:1:string reason:2:string message?:3:string accessMode?:4:*string volumeMode?:5:*string lastTransitionTime?:6:time
TokenRequest audience:1:string expirationSeconds?:2:*int64
VolumeAttachment* metadata?:1:m/ObjectMeta spec:2:VolumeAttachmentSpec status?:3:VolumeAttachmentStatus
VolumeAttachmentSource persistentVolumeName?:1:*string inlineVolumeSpec?:2:*c/PersistentVolumeSpec
VolumeAttachmentSpec attacher:1:string source:2:VolumeAttachmentSource nodeName:3:string
VolumeAttachmentStatus attached:1:bool attachmentMetadata?:2:{}string attachError?:3:*VolumeError detachError?:4:*VolumeError
VolumeAttributesClass* metadata?:1:m/ObjectMeta driverName:2:string parameters?:3:{}string
VolumeError time?:1:time message?:2:string errorCode?:3:*int32
VolumeNodeResources count?:1:*int32
@ k8s.io.api.storage.v1alpha1 storage.k8s.io/v1alpha1
CSIStorageCapacity* metadata?:1:m/ObjectMeta nodeTopology?:2:*m/LabelSelector storageClassName:3:string capacity?:4:*quantity maximumVolumeSize?:5:*quantity
VolumeAttachment* metadata?:1:m/ObjectMeta spec:2:VolumeAttachmentSpec status?:3:VolumeAttachmentStatus
VolumeAttachmentSource persistentVolumeName?:1:*string inlineVolumeSpec?:2:*c/PersistentVolumeSpec
VolumeAttachmentSpec attacher:1:string source:2:VolumeAttachmentSource nodeName:3:string
VolumeAttachmentStatus attached:1:bool attachmentMetadata?:2:{}string attachError?:3:*VolumeError detachError?:4:*VolumeError
VolumeAttributesClass* metadata?:1:m/ObjectMeta driverName:2:string parameters?:3:{}string
VolumeError time?:1:time message?:2:string errorCode?:3:*int32
@ k8s.io.api.storage.v1beta1 storage.k8s.io/v1beta1
CSIDriver* metadata?:1:m/ObjectMeta spec:2:CSIDriverSpec
CSIDriverSpec attachRequired?:1:*bool podInfoOnMount?:2:*bool volumeLifecycleModes?:3:[]string storageCapacity?:4:*bool fsGroupPolicy?:5:*string tokenRequests?:6:[]TokenRequest requiresRepublish?:7:*bool seLinuxMount?:8:*bool nodeAllocatableUpdatePeriodSeconds?:9:*int64 serviceAccountTokenInSecrets?:10:*bool preventPodSchedulingIfMissing?:11:*bool
CSINode* metadata?:1:m/ObjectMeta spec:2:CSINodeSpec status?:3:*CSINodeStatus
CSINodeDriver name:1:string nodeID:2:string topologyKeys:3:[]string allocatable?:4:*VolumeNodeResources
CSINodeSpec drivers:1:[]CSINodeDriver
CSINodeStatus storageHealth?:1:[]StorageHealth
CSIStorageCapacity* metadata?:1:m/ObjectMeta nodeTopology?:2:*m/LabelSelector storageClassName:3:string capacity?:4:*quantity maximumVolumeSize?:5:*quantity
StorageClass* metadata?:1:m/ObjectMeta provisioner:2:string parameters?:3:{}string reclaimPolicy?:4:*string mountOptions?:5:[]string allowVolumeExpansion?:6:*bool volumeBindingMode?:7:*string allowedTopologies?:8:[]c/TopologySelectorTerm
StorageHealth name:1:string healthConditions?:2:[]StorageHealthCondition
StorageHealthCondition status:1:string reason:2:string message?:3:string accessMode?:4:*string volumeMode?:5:*string lastTransitionTime?:6:time
TokenRequest audience:1:string expirationSeconds?:2:*int64
VolumeAttachment* metadata?:1:m/ObjectMeta spec:2:VolumeAttachmentSpec status?:3:VolumeAttachmentStatus
VolumeAttachmentSource persistentVolumeName?:1:*string inlineVolumeSpec?:2:*c/PersistentVolumeSpec
VolumeAttachmentSpec attacher:1:string source:2:VolumeAttachmentSource nodeName:3:string
VolumeAttachmentStatus attached:1:bool attachmentMetadata?:2:{}string attachError?:3:*VolumeError detachError?:4:*VolumeError
VolumeAttributesClass* metadata?:1:m/ObjectMeta driverName:2:string parameters?:3:{}string
VolumeError time?:1:time message?:2:string errorCode?:3:*int32
VolumeNodeResources count?:1:*int32
@ k8s.io.api.storagemigration.v1 storagemigration.k8s.io/v1
StorageVersionMigration* metadata?:1:m/ObjectMeta spec?:2:StorageVersionMigrationSpec status?:3:StorageVersionMigrationStatus
StorageVersionMigrationSpec resource:1:m/GroupResource
StorageVersionMigrationStatus conditions?:1:[]m/Condition resourceVersion?:2:string
@ k8s.io.api.storagemigration.v1beta1 storagemigration.k8s.io/v1beta1
StorageVersionMigration* metadata?:1:m/ObjectMeta spec?:2:StorageVersionMigrationSpec status?:3:StorageVersionMigrationStatus
StorageVersionMigrationSpec resource:1:m/GroupResource
StorageVersionMigrationStatus conditions?:1:[]m/Condition resourceVersion?:2:string
@ k8s.io.apimachinery.pkg.apis.meta.v1 meta.k8s.io/v1
APIGroup* name:1:string versions:2:[]GroupVersionForDiscovery preferredVersion?:3:GroupVersionForDiscovery serverAddressByClientCIDRs?:4:[]ServerAddressByClientCIDR
APIGroupList* groups:1:[]APIGroup
APIResource name:1:string singularName:6:string namespaced:2:bool group?:8:string version?:9:string kind:3:string verbs:4:Verbs shortNames?:5:[]string categories?:7:[]string storageVersionHash?:10:string
APIResourceList* groupVersion:1:string resources:2:[]APIResource
APIVersions* versions:1:[]string serverAddressByClientCIDRs:2:[]ServerAddressByClientCIDR
ApplyOptions* dryRun?:1:[]string force:2:bool fieldManager:3:string
Condition type:1:string status:2:string observedGeneration?:3:int64 lastTransitionTime:4:time reason:5:string message:6:string
CreateOptions* dryRun?:1:[]string fieldManager?:3:string fieldValidation?:4:string
DeleteOptions* gracePeriodSeconds?:1:*int64 preconditions?:2:*Preconditions orphanDependents?:3:*bool propagationPolicy?:4:*string dryRun?:5:[]string ignoreStoreReadErrorWithClusterBreakingPotential?:6:*bool
FieldSelectorRequirement key:1:string operator:2:string values?:3:[]string
GetOptions* resourceVersion?:1:string
GroupResource group:1:string resource:2:string
GroupVersionForDiscovery groupVersion:1:string version:2:string
GroupVersionKind group:1:string version:2:string kind:3:string
GroupVersionResource group:1:string version:2:string resource:3:string
LabelSelector matchLabels?:1:{}string matchExpressions?:2:[]LabelSelectorRequirement
LabelSelectorRequirement key:1:string operator:2:string values?:3:[]string
List* metadata?:1:ListMeta items:2:[]json
ListMeta selfLink?:1:string resourceVersion?:2:string continue?:3:string remainingItemCount?:4:*int64 shardInfo?:5:*ShardInfo
ListOptions* labelSelector?:1:string fieldSelector?:2:string watch?:3:bool allowWatchBookmarks?:9:bool resourceVersion?:4:string resourceVersionMatch?:10:string timeoutSeconds?:5:*int64 limit?:7:int64 continue?:8:string sendInitialEvents?:11:*bool shardSelector?:15:string
ManagedFieldsEntry manager?:1:string operation?:2:string apiVersion?:3:string time?:4:*time fieldsType?:6:string fieldsV1?:7:*json subresource?:8:string
ObjectMeta name?:1:string generateName?:2:string namespace?:3:string selfLink?:4:string uid?:5:string resourceVersion?:6:string generation?:7:int64 creationTimestamp?:8:time deletionTimestamp?:9:*time deletionGracePeriodSeconds?:10:*int64 labels?:11:{}string annotations?:12:{}string ownerReferences?:13:[]OwnerReference finalizers?:14:[]string managedFields?:17:[]ManagedFieldsEntry clusterName?:15:string
OwnerReference apiVersion:5:string kind:1:string name:3:string uid:4:string controller?:6:*bool blockOwnerDeletion?:7:*bool
PartialObjectMetadata* metadata?:1:ObjectMeta
PartialObjectMetadataList* metadata?:1:ListMeta items:2:[]PartialObjectMetadata
PatchOptions* dryRun?:1:[]string force?:2:*bool fieldManager?:3:string fieldValidation?:4:string
Preconditions uid?:1:*string resourceVersion?:2:*string
ServerAddressByClientCIDR clientCIDR:1:string serverAddress:2:string
ShardInfo selector:1:string
Status* metadata?:1:ListMeta status?:2:string message?:3:string reason?:4:string details?:5:*StatusDetails code?:6:int32
StatusCause reason?:1:string message?:2:string field?:3:string
StatusDetails name?:1:string group?:2:string kind?:3:string uid?:6:string causes?:4:[]StatusCause retryAfterSeconds?:5:int32
TableOptions* includeObject?:1:string
UpdateOptions* dryRun?:1:[]string fieldManager?:2:string fieldValidation?:3:string
Verbs[] items:1:[]string
WatchEvent type:1:string object:2:json
ExportOptions* export:1:bool exact:2:bool
@ k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1 apiextensions.k8s.io/v1
ConversionRequest uid:1:string desiredAPIVersion:2:string objects:3:[]json
ConversionResponse uid:1:string convertedObjects:2:[]json result:3:m/Status
ConversionReview* request?:1:*ConversionRequest response?:2:*ConversionResponse
CustomResourceColumnDefinition name:1:string type:2:string format?:3:string description?:4:string priority?:5:int32 jsonPath:6:string
CustomResourceConversion strategy:1:string webhook?:2:*WebhookConversion
CustomResourceDefinition* metadata?:1:m/ObjectMeta spec:2:CustomResourceDefinitionSpec status?:3:CustomResourceDefinitionStatus
CustomResourceDefinitionCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string observedGeneration?:6:int64
CustomResourceDefinitionNames plural:1:string singular?:2:string shortNames?:3:[]string kind:4:string listKind?:5:string categories?:6:[]string
CustomResourceDefinitionSpec group:1:string names:3:CustomResourceDefinitionNames scope:4:string versions:7:[]CustomResourceDefinitionVersion conversion?:9:*CustomResourceConversion preserveUnknownFields?:10:bool
CustomResourceDefinitionStatus conditions:1:[]CustomResourceDefinitionCondition acceptedNames:2:CustomResourceDefinitionNames storedVersions:3:[]string observedGeneration?:4:int64
CustomResourceDefinitionVersion name:1:string served:2:bool storage:3:bool deprecated?:7:bool deprecationWarning?:8:*string schema?:4:*CustomResourceValidation subresources?:5:*CustomResourceSubresources additionalPrinterColumns?:6:[]CustomResourceColumnDefinition selectableFields?:9:[]SelectableField
CustomResourceSubresourceScale specReplicasPath:1:string statusReplicasPath:2:string labelSelectorPath?:3:*string
CustomResourceSubresourceStatus
CustomResourceSubresources status?:1:*CustomResourceSubresourceStatus scale?:2:*CustomResourceSubresourceScale
CustomResourceValidation openAPIV3Schema?:1:*JSONSchemaProps
ExternalDocumentation description?:1:string url?:2:string
JSONSchemaProps id?:1:string $schema?:2:string $ref?:3:*string description?:4:string type?:5:string format?:6:string title?:7:string default?:8:*json maximum?:9:*double exclusiveMaximum?:10:bool minimum?:11:*double exclusiveMinimum?:12:bool maxLength?:13:*int64 minLength?:14:*int64 pattern?:15:string maxItems?:16:*int64 minItems?:17:*int64 uniqueItems?:18:bool multipleOf?:19:*double enum?:20:[]json maxProperties?:21:*int64 minProperties?:22:*int64 required?:23:[]string items?:24:*JSONSchemaPropsOrArray allOf?:25:[]JSONSchemaProps oneOf?:26:[]JSONSchemaProps anyOf?:27:[]JSONSchemaProps not?:28:*JSONSchemaProps properties?:29:{}JSONSchemaProps additionalProperties?:30:*JSONSchemaPropsOrBool patternProperties?:31:{}JSONSchemaProps dependencies?:32:{}JSONSchemaPropsOrStringArray additionalItems?:33:*JSONSchemaPropsOrBool definitions?:34:{}JSONSchemaProps externalDocs?:35:*ExternalDocumentation example?:36:*json nullable?:37:bool x-kubernetes-preserve-unknown-fields?:38:*bool x-kubernetes-embedded-resource?:39:bool x-kubernetes-int-or-string?:40:bool x-kubernetes-list-map-keys?:41:[]string x-kubernetes-list-type?:42:*string x-kubernetes-map-type?:43:*string x-kubernetes-validations?:44:[]ValidationRule
JSONSchemaPropsOrArray|array :1:*JSONSchemaProps :2:[]JSONSchemaProps
JSONSchemaPropsOrBool|bool :1:bool :2:*JSONSchemaProps
JSONSchemaPropsOrStringArray|array :1:*JSONSchemaProps :2:[]string
SelectableField jsonPath:1:string
ServiceReference namespace:1:string name:2:string path?:3:*string port?:4:*int32
ValidationRule rule:1:string message?:2:string messageExpression?:3:string reason?:4:*string fieldPath?:5:string optionalOldSelf?:6:*bool
WebhookClientConfig url?:3:*string service?:1:*ServiceReference caBundle?:2:bytes
WebhookConversion clientConfig?:2:*WebhookClientConfig conversionReviewVersions:3:[]string
@ k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1beta1 apiextensions.k8s.io/v1beta1
ConversionRequest uid:1:string desiredAPIVersion:2:string objects:3:[]json
ConversionResponse uid:1:string convertedObjects:2:[]json result:3:m/Status
ConversionReview* request?:1:*ConversionRequest response?:2:*ConversionResponse
CustomResourceColumnDefinition name:1:string type:2:string format?:3:string description?:4:string priority?:5:int32 JSONPath:6:string
CustomResourceConversion strategy:1:string webhookClientConfig?:2:*WebhookClientConfig conversionReviewVersions?:3:[]string
CustomResourceDefinition* metadata?:1:m/ObjectMeta spec:2:CustomResourceDefinitionSpec status?:3:CustomResourceDefinitionStatus
CustomResourceDefinitionCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string observedGeneration?:6:int64
CustomResourceDefinitionNames plural:1:string singular?:2:string shortNames?:3:[]string kind:4:string listKind?:5:string categories?:6:[]string
CustomResourceDefinitionSpec group:1:string version?:2:string names:3:CustomResourceDefinitionNames scope:4:string validation?:5:*CustomResourceValidation subresources?:6:*CustomResourceSubresources versions?:7:[]CustomResourceDefinitionVersion additionalPrinterColumns?:8:[]CustomResourceColumnDefinition selectableFields?:11:[]SelectableField conversion?:9:*CustomResourceConversion preserveUnknownFields?:10:*bool
CustomResourceDefinitionStatus conditions:1:[]CustomResourceDefinitionCondition acceptedNames:2:CustomResourceDefinitionNames storedVersions:3:[]string observedGeneration?:4:int64
CustomResourceDefinitionVersion name:1:string served:2:bool storage:3:bool deprecated?:7:bool deprecationWarning?:8:*string schema?:4:*CustomResourceValidation subresources?:5:*CustomResourceSubresources additionalPrinterColumns?:6:[]CustomResourceColumnDefinition selectableFields?:9:[]SelectableField
CustomResourceSubresourceScale specReplicasPath:1:string statusReplicasPath:2:string labelSelectorPath?:3:*string
CustomResourceSubresourceStatus
CustomResourceSubresources status?:1:*CustomResourceSubresourceStatus scale?:2:*CustomResourceSubresourceScale
CustomResourceValidation openAPIV3Schema?:1:*JSONSchemaProps
ExternalDocumentation description?:1:string url?:2:string
JSONSchemaProps id?:1:string $schema?:2:string $ref?:3:*string description?:4:string type?:5:string format?:6:string title?:7:string default?:8:*json maximum?:9:*double exclusiveMaximum?:10:bool minimum?:11:*double exclusiveMinimum?:12:bool maxLength?:13:*int64 minLength?:14:*int64 pattern?:15:string maxItems?:16:*int64 minItems?:17:*int64 uniqueItems?:18:bool multipleOf?:19:*double enum?:20:[]json maxProperties?:21:*int64 minProperties?:22:*int64 required?:23:[]string items?:24:*JSONSchemaPropsOrArray allOf?:25:[]JSONSchemaProps oneOf?:26:[]JSONSchemaProps anyOf?:27:[]JSONSchemaProps not?:28:*JSONSchemaProps properties?:29:{}JSONSchemaProps additionalProperties?:30:*JSONSchemaPropsOrBool patternProperties?:31:{}JSONSchemaProps dependencies?:32:{}JSONSchemaPropsOrStringArray additionalItems?:33:*JSONSchemaPropsOrBool definitions?:34:{}JSONSchemaProps externalDocs?:35:*ExternalDocumentation example?:36:*json nullable?:37:bool x-kubernetes-preserve-unknown-fields?:38:*bool x-kubernetes-embedded-resource?:39:bool x-kubernetes-int-or-string?:40:bool x-kubernetes-list-map-keys?:41:[]string x-kubernetes-list-type?:42:*string x-kubernetes-map-type?:43:*string x-kubernetes-validations?:44:[]ValidationRule
JSONSchemaPropsOrArray|array :1:*JSONSchemaProps :2:[]JSONSchemaProps
JSONSchemaPropsOrBool|bool :1:bool :2:*JSONSchemaProps
JSONSchemaPropsOrStringArray|array :1:*JSONSchemaProps :2:[]string
SelectableField jsonPath:1:string
ServiceReference namespace:1:string name:2:string path?:3:*string port?:4:*int32
ValidationRule rule:1:string message?:2:string messageExpression?:3:string reason?:4:*string fieldPath?:5:string optionalOldSelf?:6:*bool
WebhookClientConfig url?:3:*string service?:1:*ServiceReference caBundle?:2:bytes
@ k8s.io.kube_aggregator.pkg.apis.apiregistration.v1 apiregistration.k8s.io/v1
APIService* metadata?:1:m/ObjectMeta spec?:2:APIServiceSpec status?:3:APIServiceStatus
APIServiceCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
APIServiceSpec service?:1:*ServiceReference group?:2:string version?:3:string insecureSkipTLSVerify?:4:bool caBundle?:5:bytes groupPriorityMinimum:7:int32 versionPriority:8:int32
APIServiceStatus conditions?:1:[]APIServiceCondition
ServiceReference namespace?:1:string name?:2:string port?:3:*int32
@ k8s.io.kube_aggregator.pkg.apis.apiregistration.v1beta1 apiregistration.k8s.io/v1beta1
APIService* metadata?:1:m/ObjectMeta spec?:2:APIServiceSpec status?:3:APIServiceStatus
APIServiceCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
APIServiceSpec service?:1:*ServiceReference group?:2:string version?:3:string insecureSkipTLSVerify?:4:bool caBundle?:5:bytes groupPriorityMinimum:7:int32 versionPriority:8:int32
APIServiceStatus conditions?:1:[]APIServiceCondition
ServiceReference namespace?:1:string name?:2:string port?:3:*int32
@ k8s.io.api.scheduling.v1alpha2 scheduling.k8s.io/v1alpha2
BasicSchedulingPolicy
GangSchedulingPolicy minCount:1:int32
PodGroup* metadata?:1:m/ObjectMeta spec:2:PodGroupSpec status?:3:PodGroupStatus
PodGroupResourceClaim name:1:string resourceClaimName?:2:*string resourceClaimTemplateName?:3:*string
PodGroupResourceClaimStatus name:1:string resourceClaimName?:2:*string
PodGroupSchedulingConstraints topology?:1:[]TopologyConstraint
PodGroupSchedulingPolicy basic?:1:*BasicSchedulingPolicy gang?:2:*GangSchedulingPolicy
PodGroupSpec podGroupTemplateRef:1:*PodGroupTemplateReference schedulingPolicy:2:PodGroupSchedulingPolicy schedulingConstraints?:3:*PodGroupSchedulingConstraints resourceClaims?:4:[]PodGroupResourceClaim disruptionMode?:5:*string priorityClassName?:6:string priority?:7:*int32
PodGroupStatus conditions?:1:[]m/Condition resourceClaimStatuses?:2:[]PodGroupResourceClaimStatus
PodGroupTemplate name:1:string schedulingPolicy:2:PodGroupSchedulingPolicy schedulingConstraints:3:*PodGroupSchedulingConstraints resourceClaims?:4:[]PodGroupResourceClaim disruptionMode?:5:*string priorityClassName?:6:string priority?:7:*int32
PodGroupTemplateReference workload:1:*WorkloadPodGroupTemplateReference
TopologyConstraint key:1:string
TypedLocalObjectReference apiGroup?:1:string kind:2:string name:3:string
Workload* metadata?:1:m/ObjectMeta spec:2:WorkloadSpec
WorkloadPodGroupTemplateReference workloadName:1:string podGroupTemplateName:2:string
WorkloadSpec controllerRef?:1:*TypedLocalObjectReference podGroupTemplates:2:[]PodGroupTemplate
@ k8s.io.api.autoscaling.v2beta1 autoscaling/v2beta1
ContainerResourceMetricSource name:1:string targetAverageUtilization?:2:*int32 targetAverageValue?:3:*quantity container:4:string
ContainerResourceMetricStatus name:1:string currentAverageUtilization?:2:*int32 currentAverageValue:3:quantity container:4:string
CrossVersionObjectReference kind:1:string name:2:string apiVersion?:3:string
ExternalMetricSource metricName:1:string metricSelector?:2:*m/LabelSelector targetValue?:3:*quantity targetAverageValue?:4:*quantity
ExternalMetricStatus metricName:1:string metricSelector?:2:*m/LabelSelector currentValue:3:quantity currentAverageValue?:4:*quantity
HorizontalPodAutoscaler* metadata?:1:m/ObjectMeta spec?:2:HorizontalPodAutoscalerSpec status?:3:HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
HorizontalPodAutoscalerSpec scaleTargetRef:1:CrossVersionObjectReference minReplicas?:2:*int32 maxReplicas:3:int32 metrics?:4:[]MetricSpec
HorizontalPodAutoscalerStatus observedGeneration?:1:*int64 lastScaleTime?:2:*time currentReplicas:3:int32 desiredReplicas:4:int32 currentMetrics:5:[]MetricStatus conditions:6:[]HorizontalPodAutoscalerCondition
MetricSpec type:1:string object?:2:*ObjectMetricSource pods?:3:*PodsMetricSource resource?:4:*ResourceMetricSource containerResource?:7:*ContainerResourceMetricSource external?:5:*ExternalMetricSource
MetricStatus type:1:string object?:2:*ObjectMetricStatus pods?:3:*PodsMetricStatus resource?:4:*ResourceMetricStatus containerResource?:7:*ContainerResourceMetricStatus external?:5:*ExternalMetricStatus
ObjectMetricSource target:1:CrossVersionObjectReference metricName:2:string targetValue:3:quantity selector?:4:*m/LabelSelector averageValue?:5:*quantity
ObjectMetricStatus target:1:CrossVersionObjectReference metricName:2:string currentValue:3:quantity selector?:4:*m/LabelSelector averageValue?:5:*quantity
PodsMetricSource metricName:1:string targetAverageValue:2:quantity selector?:3:*m/LabelSelector
PodsMetricStatus metricName:1:string currentAverageValue:2:quantity selector?:3:*m/LabelSelector
ResourceMetricSource name:1:string targetAverageUtilization?:2:*int32 targetAverageValue?:3:*quantity
ResourceMetricStatus name:1:string currentAverageUtilization?:2:*int32 currentAverageValue:3:quantity
@ k8s.io.api.autoscaling.v2beta2 autoscaling/v2beta2
ContainerResourceMetricSource name:1:string target:2:MetricTarget container:3:string
ContainerResourceMetricStatus name:1:string current:2:MetricValueStatus container:3:string
CrossVersionObjectReference kind:1:string name:2:string apiVersion?:3:string
ExternalMetricSource metric:1:MetricIdentifier target:2:MetricTarget
ExternalMetricStatus metric:1:MetricIdentifier current:2:MetricValueStatus
HPAScalingPolicy type:1:string value:2:int32 periodSeconds:3:int32
HPAScalingRules stabilizationWindowSeconds?:3:*int32 selectPolicy?:1:*string policies?:2:[]HPAScalingPolicy
HorizontalPodAutoscaler* metadata?:1:m/ObjectMeta spec?:2:HorizontalPodAutoscalerSpec status?:3:HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerBehavior scaleUp?:1:*HPAScalingRules scaleDown?:2:*HPAScalingRules
HorizontalPodAutoscalerCondition type:1:string status:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
HorizontalPodAutoscalerSpec scaleTargetRef:1:CrossVersionObjectReference minReplicas?:2:*int32 maxReplicas:3:int32 metrics?:4:[]MetricSpec behavior?:5:*HorizontalPodAutoscalerBehavior
HorizontalPodAutoscalerStatus observedGeneration?:1:*int64 lastScaleTime?:2:*time currentReplicas:3:int32 desiredReplicas:4:int32 currentMetrics:5:[]MetricStatus conditions:6:[]HorizontalPodAutoscalerCondition
MetricIdentifier name:1:string selector?:2:*m/LabelSelector
MetricSpec type:1:string object?:2:*ObjectMetricSource pods?:3:*PodsMetricSource resource?:4:*ResourceMetricSource containerResource?:7:*ContainerResourceMetricSource external?:5:*ExternalMetricSource
MetricStatus type:1:string object?:2:*ObjectMetricStatus pods?:3:*PodsMetricStatus resource?:4:*ResourceMetricStatus containerResource?:7:*ContainerResourceMetricStatus external?:5:*ExternalMetricStatus
MetricTarget type:1:string value?:2:*quantity averageValue?:3:*quantity averageUtilization?:4:*int32
MetricValueStatus value?:1:*quantity averageValue?:2:*quantity averageUtilization?:3:*int32
ObjectMetricSource describedObject:1:CrossVersionObjectReference target:2:MetricTarget metric:3:MetricIdentifier
ObjectMetricStatus metric:1:MetricIdentifier current:2:MetricValueStatus describedObject:3:CrossVersionObjectReference
PodsMetricSource metric:1:MetricIdentifier target:2:MetricTarget
PodsMetricStatus metric:1:MetricIdentifier current:2:MetricValueStatus
ResourceMetricSource name:1:string target:2:MetricTarget
ResourceMetricStatus name:1:string current:2:MetricValueStatus
@ k8s.io.api.scheduling.v1alpha1 scheduling.k8s.io/v1alpha1
BasicSchedulingPolicy
GangSchedulingPolicy minCount:1:int32
PodGroup name:1:string policy:3:PodGroupPolicy
PodGroupPolicy basic?:2:*BasicSchedulingPolicy gang?:3:*GangSchedulingPolicy
PriorityClass* metadata?:1:m/ObjectMeta value:2:int32 globalDefault?:3:bool description?:4:string preemptionPolicy?:5:*string
TypedLocalObjectReference apiGroup?:1:string kind:2:string name:3:string
Workload* metadata?:1:m/ObjectMeta spec:2:WorkloadSpec
WorkloadSpec controllerRef?:1:*TypedLocalObjectReference podGroups:2:[]PodGroup
@ k8s.io.api.storagemigration.v1alpha1 storagemigration.k8s.io/v1alpha1
GroupVersionResource group?:1:string version?:2:string resource?:3:string
MigrationCondition type:1:string status:2:string lastUpdateTime?:3:time reason?:4:string message?:5:string
StorageVersionMigration* metadata?:1:m/ObjectMeta spec?:2:StorageVersionMigrationSpec status?:3:StorageVersionMigrationStatus
StorageVersionMigrationSpec resource:1:GroupVersionResource continueToken?:2:string
StorageVersionMigrationStatus conditions?:1:[]MigrationCondition resourceVersion?:2:string
@ k8s.io.api.networking.v1alpha1 networking.k8s.io/v1alpha1
IPAddress* metadata?:1:m/ObjectMeta spec?:2:IPAddressSpec
IPAddressSpec parentRef?:1:*ParentReference
ParentReference group?:1:string resource?:2:string namespace?:3:string name?:4:string uid?:5:string
ServiceCIDR* metadata?:1:m/ObjectMeta spec?:2:ServiceCIDRSpec status?:3:ServiceCIDRStatus
ServiceCIDRSpec cidrs?:1:[]string
ServiceCIDRStatus conditions?:1:[]m/Condition
ClusterCIDR* metadata?:1:m/ObjectMeta spec?:2:ClusterCIDRSpec
ClusterCIDRSpec nodeSelector?:1:*c/NodeSelector perNodeHostBits:2:int32 ipv4:3:string ipv6:4:string
@ k8s.io.api.coordination.v1alpha1 coordination.k8s.io/v1alpha1
LeaseCandidate* metadata?:1:m/ObjectMeta spec?:2:LeaseCandidateSpec
LeaseCandidateSpec leaseName:1:string pingTime?:2:*microtime renewTime?:3:*microtime binaryVersion?:4:string emulationVersion?:5:string preferredStrategies?:6:[]string
@ k8s.io.api.resource.v1alpha2 resource.k8s.io/v1alpha2
AllocationResult resourceHandles?:1:[]ResourceHandle availableOnNodes?:2:*c/NodeSelector shareable?:3:bool
AllocationResultModel namedResources?:1:*NamedResourcesAllocationResult
DriverAllocationResult vendorRequestParameters?:1:json :2:AllocationResultModel
DriverRequests driverName?:1:string vendorParameters?:2:json requests?:3:[]ResourceRequest
NamedResourcesAllocationResult name:1:string
NamedResourcesAttribute name:1:string :2:NamedResourcesAttributeValue
NamedResourcesAttributeValue quantity?:6:*quantity bool?:2:*bool int?:7:*int64 intSlice?:8:*NamedResourcesIntSlice string?:5:*string stringSlice?:9:*NamedResourcesStringSlice version?:10:*string
NamedResourcesFilter selector:1:string
NamedResourcesInstance name:1:string attributes?:2:[]NamedResourcesAttribute
NamedResourcesIntSlice ints:1:[]int64
NamedResourcesRequest selector:1:string
NamedResourcesResources instances:1:[]NamedResourcesInstance
NamedResourcesStringSlice strings:1:[]string
PodSchedulingContext* metadata?:1:m/ObjectMeta spec:2:PodSchedulingContextSpec status?:3:PodSchedulingContextStatus
PodSchedulingContextSpec selectedNode?:1:string potentialNodes?:2:[]string
PodSchedulingContextStatus resourceClaims?:1:[]ResourceClaimSchedulingStatus
ResourceClaim* metadata?:1:m/ObjectMeta spec:2:ResourceClaimSpec status?:3:ResourceClaimStatus
ResourceClaimConsumerReference apiGroup?:1:string resource:3:string name:4:string uid:5:string
ResourceClaimParameters* metadata?:1:m/ObjectMeta generatedFrom?:2:*ResourceClaimParametersReference shareable?:3:bool driverRequests?:4:[]DriverRequests
ResourceClaimParametersReference apiGroup?:1:string kind:2:string name:3:string
ResourceClaimSchedulingStatus name?:1:string unsuitableNodes?:2:[]string
ResourceClaimSpec resourceClassName:1:string parametersRef?:2:*ResourceClaimParametersReference allocationMode?:3:string
ResourceClaimStatus driverName?:1:string allocation?:2:*AllocationResult reservedFor?:3:[]ResourceClaimConsumerReference deallocationRequested?:4:bool
ResourceClaimTemplate* metadata?:1:m/ObjectMeta spec:2:ResourceClaimTemplateSpec
ResourceClaimTemplateSpec metadata?:1:m/ObjectMeta spec:2:ResourceClaimSpec
ResourceClass* metadata?:1:m/ObjectMeta driverName:2:string parametersRef?:3:*ResourceClassParametersReference suitableNodes?:4:*c/NodeSelector structuredParameters?:5:*bool
ResourceClassParameters* metadata?:1:m/ObjectMeta generatedFrom?:2:*ResourceClassParametersReference vendorParameters?:3:[]VendorParameters filters?:4:[]ResourceFilter
ResourceClassParametersReference apiGroup?:1:string kind:2:string name:3:string namespace?:4:string
ResourceFilter driverName?:1:string :2:ResourceFilterModel
ResourceFilterModel namedResources?:1:*NamedResourcesFilter
ResourceHandle driverName?:1:string data?:2:string structuredData?:5:*StructuredResourceHandle
ResourceModel namedResources?:1:*NamedResourcesResources
ResourceRequest vendorParameters?:1:json :2:ResourceRequestModel
ResourceRequestModel namedResources?:1:*NamedResourcesRequest
ResourceSlice* metadata?:1:m/ObjectMeta nodeName?:2:string driverName:3:string :4:ResourceModel
StructuredResourceHandle vendorClassParameters?:1:json vendorClaimParameters?:2:json nodeName?:4:string results:5:[]DriverAllocationResult
VendorParameters driverName?:1:string parameters?:2:json
@ k8s.io.api.flowcontrol.v1alpha1 flowcontrol.apiserver.k8s.io/v1alpha1
ExemptPriorityLevelConfiguration nominalConcurrencyShares?:1:*int32 lendablePercent?:2:*int32
FlowDistinguisherMethod type:1:string
FlowSchema* metadata?:1:m/ObjectMeta spec?:2:FlowSchemaSpec status?:3:FlowSchemaStatus
FlowSchemaCondition type?:1:string status?:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
FlowSchemaSpec priorityLevelConfiguration:1:PriorityLevelConfigurationReference matchingPrecedence:2:int32 distinguisherMethod?:3:*FlowDistinguisherMethod rules?:4:[]PolicyRulesWithSubjects
FlowSchemaStatus conditions?:1:[]FlowSchemaCondition
GroupSubject name:1:string
LimitResponse type:1:string queuing?:2:*QueuingConfiguration
LimitedPriorityLevelConfiguration assuredConcurrencyShares:1:int32 limitResponse?:2:LimitResponse lendablePercent?:3:*int32 borrowingLimitPercent?:4:*int32
NonResourcePolicyRule verbs:1:[]string nonResourceURLs:6:[]string
PolicyRulesWithSubjects subjects:1:[]Subject resourceRules?:2:[]ResourcePolicyRule nonResourceRules?:3:[]NonResourcePolicyRule
PriorityLevelConfiguration* metadata?:1:m/ObjectMeta spec?:2:PriorityLevelConfigurationSpec status?:3:PriorityLevelConfigurationStatus
PriorityLevelConfigurationCondition type?:1:string status?:2:string lastTransitionTime?:3:time reason?:4:string message?:5:string
PriorityLevelConfigurationReference name:1:string
PriorityLevelConfigurationSpec type:1:string limited?:2:*LimitedPriorityLevelConfiguration exempt?:3:*ExemptPriorityLevelConfiguration
PriorityLevelConfigurationStatus conditions?:1:[]PriorityLevelConfigurationCondition
QueuingConfiguration queues:1:int32 handSize:2:int32 queueLengthLimit:3:int32
ResourcePolicyRule verbs:1:[]string apiGroups:2:[]string resources:3:[]string clusterScope?:4:bool namespaces:5:[]string
ServiceAccountSubject namespace:1:string name:2:string
Subject kind:1:string user?:2:*UserSubject group?:3:*GroupSubject serviceAccount?:4:*ServiceAccountSubject
UserSubject name:1:string
@ k8s.io.api.resource.v1alpha1 resource.k8s.io/v1alpha1
AllocationResult resourceHandle?:1:string availableOnNodes?:2:*c/NodeSelector shareable?:3:bool
PodScheduling* metadata?:1:m/ObjectMeta spec:2:PodSchedulingSpec status?:3:PodSchedulingStatus
PodSchedulingSpec selectedNode?:1:string potentialNodes?:2:[]string
PodSchedulingStatus resourceClaims?:1:[]ResourceClaimSchedulingStatus
ResourceClaim* metadata?:1:m/ObjectMeta spec:2:ResourceClaimSpec status?:3:ResourceClaimStatus
ResourceClaimConsumerReference apiGroup?:1:string resource:3:string name:4:string uid:5:string
ResourceClaimParametersReference apiGroup?:1:string kind:2:string name:3:string
ResourceClaimSchedulingStatus name?:1:string unsuitableNodes?:2:[]string
ResourceClaimSpec resourceClassName:1:string parametersRef?:2:*ResourceClaimParametersReference allocationMode?:3:string
ResourceClaimStatus driverName?:1:string allocation?:2:*AllocationResult reservedFor?:3:[]ResourceClaimConsumerReference deallocationRequested?:4:bool
ResourceClaimTemplate* metadata?:1:m/ObjectMeta spec:2:ResourceClaimTemplateSpec
ResourceClaimTemplateSpec metadata?:1:m/ObjectMeta spec:2:ResourceClaimSpec
ResourceClass* metadata?:1:m/ObjectMeta driverName:2:string parametersRef?:3:*ResourceClassParametersReference suitableNodes?:4:*c/NodeSelector
ResourceClassParametersReference apiGroup?:1:string kind:2:string name:3:string namespace?:4:string
@ k8s.io.api.batch.v2alpha1 batch/v2alpha1
CronJob* metadata?:1:m/ObjectMeta spec?:2:CronJobSpec status?:3:CronJobStatus
CronJobSpec schedule:1:string startingDeadlineSeconds?:2:*int64 concurrencyPolicy?:3:string suspend?:4:*bool jobTemplate:5:JobTemplateSpec successfulJobsHistoryLimit?:6:*int32 failedJobsHistoryLimit?:7:*int32
CronJobStatus active?:1:[]c/ObjectReference lastScheduleTime?:4:*time
JobTemplate* metadata?:1:m/ObjectMeta template?:2:JobTemplateSpec
JobTemplateSpec metadata?:1:m/ObjectMeta spec?:2:k8s.io.api.batch.v1/JobSpec
@ k8s.io.api.discovery.v1alpha1 discovery.k8s.io/v1alpha1
Endpoint addresses:1:[]string conditions?:2:EndpointConditions hostname?:3:*string targetRef?:4:*c/ObjectReference topology?:5:{}string nodeName?:6:*string
EndpointConditions ready?:1:*bool serving?:2:*bool terminating?:3:*bool
EndpointPort name?:1:*string protocol?:2:*string port?:3:*int32 appProtocol?:4:*string
EndpointSlice* metadata?:1:m/ObjectMeta addressType:4:string endpoints:2:[]Endpoint ports:3:[]EndpointPort
@ k8s.io.api.settings.v1alpha1 settings.k8s.io/v1alpha1
PodPreset* metadata?:1:m/ObjectMeta spec?:2:PodPresetSpec
PodPresetSpec selector?:1:m/LabelSelector env?:2:[]c/EnvVar envFrom?:3:[]c/EnvFromSource volumes?:4:[]c/Volume volumeMounts?:5:[]c/VolumeMount
@ k8s.io.api.auditregistration.v1alpha1 auditregistration.k8s.io/v1alpha1
AuditSink* metadata?:1:m/ObjectMeta spec?:2:AuditSinkSpec
AuditSinkSpec policy:1:Policy webhook:2:Webhook
Policy level:1:string stages:2:[]string
ServiceReference namespace:1:string name:2:string path?:3:*string port?:4:*int32
Webhook throttle?:1:*WebhookThrottleConfig clientConfig:2:WebhookClientConfig
WebhookClientConfig url?:1:*string service?:2:*ServiceReference caBundle?:3:bytes
WebhookThrottleConfig qps?:1:*int64 burst?:2:*int64
`
