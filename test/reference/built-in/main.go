// What the API server has built in, by its own functions, as JSON.
//
//	built-in roles                         the Roles and bindings that it stores at its start, one line each
//	built-in defaults < manifests.jsonl    each manifest with its defaults: {"manifest": …, "filled": …}
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "roles":
		printRoles()
	case len(os.Args) == 2 && os.Args[1] == "defaults":
		printDefaults()
	default:
		fmt.Fprintln(os.Stderr, "built-in: takes roles or defaults")
		os.Exit(2)
	}
}

func printRoles() {
	for _, role := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		role.APIVersion, role.Kind = rbacv1.SchemeGroupVersion.String(), "ClusterRole"
		printLine(role)
	}
	for _, binding := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		binding.APIVersion, binding.Kind = rbacv1.SchemeGroupVersion.String(), "ClusterRoleBinding"
		printLine(binding)
	}
	roles := bootstrappolicy.NamespaceRoles()
	for _, namespace := range slices.Sorted(maps.Keys(roles)) {
		for _, role := range roles[namespace] {
			role.APIVersion, role.Kind = rbacv1.SchemeGroupVersion.String(), "Role"
			printLine(role)
		}
	}
	bindings := bootstrappolicy.NamespaceRoleBindings()
	for _, namespace := range slices.Sorted(maps.Keys(bindings)) {
		for _, binding := range bindings[namespace] {
			binding.APIVersion, binding.Kind = rbacv1.SchemeGroupVersion.String(), "RoleBinding"
			printLine(binding)
		}
	}
}

func printDefaults() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		manifest := decode(lines.Bytes()).(map[string]any)
		gv, err := schema.ParseGroupVersion(manifest["apiVersion"].(string))
		must(err)
		object, err := legacyscheme.Scheme.New(gv.WithKind(manifest["kind"].(string)))
		must(err)
		must(json.Unmarshal(lines.Bytes(), object))
		before := decode(encode(object))
		legacyscheme.Scheme.Default(object)
		after := decode(encode(object))
		printLine(struct {
			Manifest any `json:"manifest"`
			Filled   any `json:"filled"`
		}{manifest, changed(manifest, before, after)})
	}
	must(lines.Err())
}

// Applies the difference between two values to a third, which has fewer members than the first.
func changed(value, before, after any) any {
	if reflect.DeepEqual(before, after) {
		return value
	}
	if was, ok := before.(map[string]any); ok {
		if is, ok := after.(map[string]any); ok {
			found := map[string]any{}
			held, _ := value.(map[string]any)
			maps.Copy(found, held)
			for name := range was {
				if _, ok := is[name]; !ok {
					delete(found, name)
				}
			}
			for name, member := range is {
				if !reflect.DeepEqual(was[name], member) {
					found[name] = changed(held[name], was[name], member)
				}
			}
			return found
		}
	}
	if was, ok := before.([]any); ok {
		if is, ok := after.([]any); ok && len(is) == len(was) {
			held, _ := value.([]any)
			if len(held) == len(is) {
				found := make([]any, len(is))
				for i := range is {
					found[i] = changed(held[i], was[i], is[i])
				}
				return found
			}
		}
	}
	return after
}

func decode(text []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	must(decoder.Decode(&value))
	return value
}

func encode(value any) []byte {
	text, err := json.Marshal(value)
	must(err)
	return text
}

func printLine(value any) {
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	must(encoder.Encode(value))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
