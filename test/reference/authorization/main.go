// Answers every question of a world by Kubernetes' own code: the RBAC authorizer, the storage that keeps Roles and bindings
// from giving away more than their writer has, and the impersonation filter. One line of JSON for each answer.
//
//	go run . ../../data/kubernetes-authorization/world.json > ../../data/kubernetes-authorization/answers.jsonl
package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/rbac"
	conversion "k8s.io/kubernetes/pkg/apis/rbac/v1"
	clusterrole "k8s.io/kubernetes/pkg/registry/rbac/clusterrole/policybased"
	clusterrolebinding "k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding/policybased"
	role "k8s.io/kubernetes/pkg/registry/rbac/role/policybased"
	rolebinding "k8s.io/kubernetes/pkg/registry/rbac/rolebinding/policybased"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	rbacauthorizer "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
)

type caller struct {
	Caller string              `json:"caller"`
	User   string              `json:"user"`
	Groups []string            `json:"groups"`
	Extra  map[string][]string `json:"extra"`
}

func (c caller) info() user.Info {
	return &user.DefaultInfo{Name: c.User, Groups: c.Groups, Extra: c.Extra}
}

type question struct {
	Verb        string `json:"verb"`
	Path        string `json:"path"`
	Group       string `json:"group"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

type write struct {
	// create or update
	Verb   string          `json:"verb"`
	Object json.RawMessage `json:"object"`
}

type world struct {
	Roles               []*rbacv1.Role               `json:"roles"`
	ClusterRoles        []*rbacv1.ClusterRole        `json:"clusterRoles"`
	RoleBindings        []*rbacv1.RoleBinding        `json:"roleBindings"`
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding `json:"clusterRoleBindings"`
	Callers             []caller                     `json:"callers"`
	Questions           []question                   `json:"questions"`
	Writes              []write                      `json:"writes"`
	// Header names and values in turn.
	Impersonations [][]string `json:"impersonations"`
	// For other requests than /api, by the index of the question.
	ImpersonationsOn []impersonationOn `json:"impersonationsOn"`
}

type impersonationOn struct {
	Question int      `json:"question"`
	Headers  []string `json:"headers"`
}

// What the authorizer and the storage find objects by. The two name a missing role differently.
type finder struct {
	*world
	roleWord, clusterRoleWord string
}

func (f finder) GetRole(_ context.Context, namespace, name string) (*rbacv1.Role, error) {
	for _, one := range f.Roles {
		if namespace != "" && one.Namespace == namespace && one.Name == name {
			return one, nil
		}
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource(f.roleWord), name)
}

func (f finder) GetClusterRole(_ context.Context, name string) (*rbacv1.ClusterRole, error) {
	for _, one := range f.ClusterRoles {
		if one.Name == name {
			return one, nil
		}
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource(f.clusterRoleWord), name)
}

func (f finder) ListRoleBindings(_ context.Context, namespace string) ([]*rbacv1.RoleBinding, error) {
	found := []*rbacv1.RoleBinding{}
	for _, one := range f.RoleBindings {
		if one.Namespace == namespace {
			found = append(found, one)
		}
	}
	return found, nil
}

func (f finder) ListClusterRoleBindings(context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	return f.ClusterRoleBindings, nil
}

// Writes the rules of aggregated ClusterRoles as their controller does, until nothing changes.
func (w *world) aggregate() {
	sorted := slices.Clone(w.ClusterRoles)
	slices.SortFunc(sorted, func(a, b *rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
	for changed := true; changed; {
		changed = false
		for _, one := range w.ClusterRoles {
			if one.AggregationRule == nil {
				continue
			}
			rules := []rbacv1.PolicyRule{}
			for i := range one.AggregationRule.ClusterRoleSelectors {
				selector, err := metav1.LabelSelectorAsSelector(&one.AggregationRule.ClusterRoleSelectors[i])
				must(err)
				for _, other := range sorted {
					if other.Name == one.Name || !selector.Matches(labels.Set(other.Labels)) {
						continue
					}
					for _, rule := range other.Rules {
						if !slices.ContainsFunc(rules, func(held rbacv1.PolicyRule) bool { return held.String() == rule.String() }) {
							rules = append(rules, rule)
						}
					}
				}
			}
			if len(rules) != len(one.Rules) {
				one.Rules, changed = rules, true
			}
		}
	}
}

// A storage that has done its work when nothing in front of it has refused.
type storage struct {
	rest.StandardStorage
	old runtime.Object
}

func (s storage) Create(_ context.Context, object runtime.Object, _ rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	return object, nil
}

func (s storage) Update(ctx context.Context, _ string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, _ rest.ValidateObjectUpdateFunc, _ bool, _ *metav1.UpdateOptions) (runtime.Object, bool, error) {
	object, err := info.UpdatedObject(ctx, s.old)
	return object, false, err
}

type answer struct {
	Caller        string              `json:"caller"`
	Question      *int                `json:"question,omitempty"`
	Write         *int                `json:"write,omitempty"`
	Impersonation *int                `json:"impersonation,omitempty"`
	On            *int                `json:"impersonationOn,omitempty"`
	Allowed       bool                `json:"allowed"`
	Reason        string              `json:"reason,omitempty"`
	Code          int32               `json:"code,omitempty"`
	Message       string              `json:"message,omitempty"`
	User          string              `json:"user,omitempty"`
	UID           string              `json:"uid,omitempty"`
	Groups        []string            `json:"groups,omitempty"`
	Extra         map[string][]string `json:"extra,omitempty"`
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	must(err)
	w := &world{}
	must(json.Unmarshal(text, w))
	w.aggregate()
	judge := finder{w, "role", "clusterrole"}
	decider, err := union.New(
		union.NamedAuthorizer{
			AuthorizerName: "kubernetes.io/system-privileged-group",
			Authorizer:     authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup),
		},
		union.NamedAuthorizer{AuthorizerName: "rbac", Authorizer: rbacauthorizer.New(judge, judge, judge, judge)},
	)
	must(err)
	keeper := finder{w, "roles", "clusterroles"}
	rules := validation.NewDefaultRuleResolver(keeper, keeper, keeper, keeper)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for _, c := range w.Callers {
		for i, q := range w.Questions {
			decision, reason, err := decider.Authorize(context.Background(), authorizer.AttributesRecord{
				User: c.info(), Verb: q.Verb, APIGroup: q.Group, APIVersion: "v1", Resource: q.Resource, Subresource: q.Subresource,
				Namespace: q.Namespace, Name: q.Name, ResourceRequest: q.Path == "", Path: q.Path,
			})
			if err != nil {
				reason = err.Error()
			}
			must(out.Encode(answer{Caller: c.Caller, Question: &i, Allowed: decision == authorizer.DecisionAllow, Reason: reason}))
		}
		for i, one := range w.Writes {
			must(out.Encode(w.answerWrite(c, i, one, decider, rules)))
		}
		for i, headers := range w.Impersonations {
			info := &request.RequestInfo{Path: "/api", Verb: "get"}
			must(out.Encode(answerImpersonation(c, answer{Caller: c.Caller, Impersonation: &i}, headers, info, decider)))
		}
		for i, asked := range w.ImpersonationsOn {
			info := infoOf(w.Questions[asked.Question])
			must(out.Encode(answerImpersonation(c, answer{Caller: c.Caller, On: &i}, asked.Headers, info, decider)))
		}
	}
}

func (w *world) answerWrite(c caller, i int, asked write, decider authorizer.Authorizer, rules validation.AuthorizationRuleResolver) answer {
	meta := metav1.PartialObjectMetadata{}
	must(json.Unmarshal(asked.Object, &meta))
	plural := strings.ToLower(meta.Kind) + "s"
	info := &request.RequestInfo{IsResourceRequest: true, Verb: asked.Verb, APIGroup: rbac.GroupName, APIVersion: "v1", Resource: plural, Namespace: meta.Namespace}
	if asked.Verb != "create" {
		info.Name = meta.Name
	}
	ctx := request.WithRequestInfo(request.WithNamespace(request.WithUser(context.Background(), c.info()), meta.Namespace), info)
	var object, old runtime.Object
	var wrapped interface {
		rest.Creater
		rest.Updater
	}
	switch meta.Kind {
	case "Role":
		object = internalRole(asked.Object, nil)
		for _, one := range w.Roles {
			if one.Namespace == meta.Namespace && one.Name == meta.Name {
				old = internalRole(nil, one)
			}
		}
		wrapped = role.NewStorage(storage{old: old}, decider, rules)
	case "ClusterRole":
		object = internalClusterRole(asked.Object, nil)
		for _, one := range w.ClusterRoles {
			if one.Name == meta.Name {
				old = internalClusterRole(nil, one)
			}
		}
		wrapped = clusterrole.NewStorage(storage{old: old}, decider, rules)
	case "RoleBinding":
		object = internalRoleBinding(asked.Object, nil)
		for _, one := range w.RoleBindings {
			if one.Namespace == meta.Namespace && one.Name == meta.Name {
				old = internalRoleBinding(nil, one)
			}
		}
		wrapped = rolebinding.NewStorage(storage{old: old}, decider, rules)
	case "ClusterRoleBinding":
		object = internalClusterRoleBinding(asked.Object, nil)
		for _, one := range w.ClusterRoleBindings {
			if one.Name == meta.Name {
				old = internalClusterRoleBinding(nil, one)
			}
		}
		wrapped = clusterrolebinding.NewStorage(storage{old: old}, decider, rules)
	}
	if (asked.Verb != "create") != (old != nil) {
		panic(asked.Verb + " " + meta.Kind + " " + meta.Name)
	}
	var err error
	if asked.Verb == "create" {
		_, err = wrapped.Create(ctx, object, nil, nil)
	} else {
		_, _, err = wrapped.Update(ctx, meta.Name, rest.DefaultUpdatedObjectInfo(object), nil, nil, false, nil)
	}
	if err == nil {
		return answer{Caller: c.Caller, Write: &i, Allowed: true}
	}
	status := &apierrors.StatusError{}
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	return answer{Caller: c.Caller, Write: &i, Code: status.ErrStatus.Code, Message: status.ErrStatus.Message}
}

func infoOf(q question) *request.RequestInfo {
	if q.Path != "" {
		return &request.RequestInfo{Path: q.Path, Verb: q.Verb}
	}
	return &request.RequestInfo{
		IsResourceRequest: true, Verb: q.Verb, APIGroup: q.Group, APIVersion: "v1",
		Resource: q.Resource, Subresource: q.Subresource, Namespace: q.Namespace, Name: q.Name,
	}
}

// The filter is new for each request, since it tries the mode first that was last successful.
func answerImpersonation(c caller, said answer, headers []string, info *request.RequestInfo, decider authorizer.Authorizer) answer {
	asked := httptest.NewRequest(http.MethodGet, "/api", nil)
	for k := 0; k < len(headers); k += 2 {
		asked.Header.Add(headers[k], headers[k+1])
	}
	inner := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		as, _ := request.UserFrom(r.Context())
		said.Allowed, said.User, said.UID, said.Groups, said.Extra = true, as.GetName(), as.GetUID(), as.GetGroups(), as.GetExtra()
	})
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	ctx := request.WithRequestInfo(request.WithUser(asked.Context(), c.info()), info)
	written := httptest.NewRecorder()
	impersonation.WithConstrainedImpersonation(inner, decider, codecs).ServeHTTP(written, asked.WithContext(ctx))
	if !said.Allowed {
		status := metav1.Status{}
		_ = json.Unmarshal(written.Body.Bytes(), &status)
		said.Code, said.Message = int32(written.Code), status.Message
	}
	return said
}

func internalRole(text []byte, held *rbacv1.Role) *rbac.Role {
	if held == nil {
		held = &rbacv1.Role{}
		must(json.Unmarshal(text, held))
	}
	made := &rbac.Role{}
	must(conversion.Convert_v1_Role_To_rbac_Role(held, made, nil))
	return made
}

func internalClusterRole(text []byte, held *rbacv1.ClusterRole) *rbac.ClusterRole {
	if held == nil {
		held = &rbacv1.ClusterRole{}
		must(json.Unmarshal(text, held))
	}
	made := &rbac.ClusterRole{}
	must(conversion.Convert_v1_ClusterRole_To_rbac_ClusterRole(held, made, nil))
	return made
}

func internalRoleBinding(text []byte, held *rbacv1.RoleBinding) *rbac.RoleBinding {
	if held == nil {
		held = &rbacv1.RoleBinding{}
		must(json.Unmarshal(text, held))
	}
	made := &rbac.RoleBinding{}
	must(conversion.Convert_v1_RoleBinding_To_rbac_RoleBinding(held, made, nil))
	return made
}

func internalClusterRoleBinding(text []byte, held *rbacv1.ClusterRoleBinding) *rbac.ClusterRoleBinding {
	if held == nil {
		held = &rbacv1.ClusterRoleBinding{}
		must(json.Unmarshal(text, held))
	}
	made := &rbac.ClusterRoleBinding{}
	must(conversion.Convert_v1_ClusterRoleBinding_To_rbac_ClusterRoleBinding(held, made, nil))
	return made
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
